-- Two calls of a compaction that fail, whichever they are, by either way of
-- swapping; what a loss of power leaves then; and the same log later on. Nothing
-- that was acknowledged is missing, and nothing else is there.

local minikafka = require "minikafka"

local DIR = "/logs/orders-0"
local OLD = "0av1 1bv2 2cv3 3av4 4bv5 5dv6 6ev7"
local NEW = "2cv3 3av4 4bv5 5dv6 6ev7"
local EVERY = 4 -- One of so many pairs is looked at.

local function open(disk)
  return minikafka.open(DIR, { io = disk, index_interval_bytes = 0, clock = disk.clock })
end

-- Three closed segments of two records, and one in the last.
local function make_disk(exchange)
  local disk = minikafka.SimDisk{ exchange = exchange }
  local log <close> = open(disk)
  for i, key in ipairs{ "a", "b", "c", "a", "b", "d", "e" } do
    log:append_kv(key, "v" .. i, i)
    if i % 2 == 0 then log:roll() end
  end
  return disk
end

local function compact(log) return minikafka.LogCompactor():compact(log) end

-- Every call of a compaction: which of its kind it is, from 0.
local function calls_of(disk)
  local calls, count = {}, {}
  local copy = disk:clone()
  local log <close> = open(copy)
  copy:trace(function(event)
    local op = event.op
    calls[#calls + 1] = { op = op, after = count[op] or 0, times = 1 }
    count[op] = (count[op] or 0) + 1
  end)
  compact(log)
  copy:trace(nil)
  return calls
end

-- A fault that was not met yet may meet this, once each.
local function insist(action, ...)
  for _ = 1, 12 do
    local done, result = pcall(action, ...)
    if done then return result end
    if result.code ~= "IO" then error(result, 0) end
  end
  error("it does not get well", 0)
end

local function told(log)
  local records = {}
  for offset, key, value in log:records() do records[#records + 1] = offset .. key .. value end
  return table.concat(records, " ")
end

local function check(log, acknowledged)
  local text = insist(told, log)
  for _, offset in ipairs(acknowledged) do
    assert.truthy((text .. " "):find(" " .. offset .. "zw ", 1, true), text)
  end
  local rest = text:gsub(" %d+zw", "")
  assert.truthy(rest == OLD or rest == NEW, text)
end

local function try(disk, first, second)
  local log = open(disk)
  local acknowledged = {}
  disk:fail(first)
  disk:fail(second)
  pcall(compact, log)
  for state in disk:crash_states{ profile = "hostile", limit = 4 } do
    local survivor <close> = open(state)
    check(survivor, {})
  end
  for _ = 1, 2 do
    acknowledged[#acknowledged + 1] = insist(log.append_kv, log, "z", "w", 50)
    check(log, acknowledged)
  end
  pcall(log.close, log)
  local again <close> = insist(open, disk)
  check(again, acknowledged)
  assert.same({}, insist(again.verify, again))
end

describe("Two failures in a compaction", function()
  for _, exchange in ipairs{ true, false } do
    it("lose nothing, " .. (exchange and "exchanging" or "renaming"), function()
      local disk = make_disk(exchange)
      local calls = calls_of(disk)
      assert(#calls > 50)
      for i = 1, #calls do
        for j = i + i % EVERY, #calls, EVERY do
          local done, raised = pcall(try, disk:clone(), calls[i], calls[j])
          assert(done, ("calls %d %s, %d %s: %s"):format(i, calls[i].op, j, calls[j].op,
            tostring(raised)))
        end
      end
    end)
  end
end)
