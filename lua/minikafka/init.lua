--- minikafka: an embedded log whose directory is a Kafka partition directory.
--
--     local minikafka = require "minikafka"
--     local log <close> = minikafka.open("orders")
--     log:append{ key = "k", value = "v" }
--
-- This file puts the module together; the work is done in minikafka.core (C).

local core = require "minikafka.core"
local explore = require "minikafka.explore"
local keys = require "minikafka.keys"
local view = require "minikafka.view"
local workload = require "minikafka.workload"

view.install(core.set_tostring)

local minikafka = {}

for name, value in pairs(core.public) do
  minikafka[name] = value
end

--- The log of one partition: `PartitionLog.open` is `open`.
minikafka.PartitionLog = { open = minikafka.open }

--- Crash a program at every step: see minikafka.explore.
minikafka.explore = explore

--- Made-up records: see minikafka.workload.
minikafka.workload = workload

--- Generators of keys for a workload: see minikafka.keys.
minikafka.keys = keys

return minikafka
