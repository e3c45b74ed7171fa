-- The chapter's first exercise: timestamps that do not grow.
--
-- Closed segments have the greatest timestamps 250, 0 and 0; the clock stands
-- at 300 and retention_ms is 100. Which segments may time retention delete?
--
-- None. The boundary is 200, and the oldest segment has a record of 250. The
-- two behind it are old enough, but to delete them would leave a hole in the
-- log: retention deletes a prefix of the closed segments, or nothing.
--
--     lua5.4 02_nonmonotonic_timestamps.lua [DIRECTORY]
--
-- With a directory the files stay there to be looked at; without, they are made
-- in a temporary one and removed at the end.

local minikafka = require "minikafka"

local directory = arg[1] or io.popen("mktemp -d"):read("l")
io.stderr:write("files in ", directory, "\n")

local clock = minikafka.ManualClock(300)
local retention = minikafka.RetentionManager(clock)
local log = minikafka.open(directory .. "/log", { clock = clock })
for _, timestamp_ms in ipairs { 250, 0, 0 } do
  log:append_kv("key", "value", timestamp_ms)
  log:roll()
end
log:append_kv("key", "active", 300)

-- Retains at the clock's time, and says what went and what is left.
local function retain()
  local deleted = retention:apply(log, { retention_ms = 100 })
  print(("at %d, boundary %d: deleted {%s}"):format(
    clock:now_ms(), clock:now_ms() - 100, table.concat(deleted, ", ")))
  for _, segment in ipairs(log.closed_segments) do
    print(("  closed segment %d, greatest timestamp %d"):format(
      segment.base_offset, segment.max_timestamp_ms))
  end
end

retain()

-- Once the first segment has expired, all three go together.
clock:advance_ms(51)
retain()

log:close()
if not arg[1] then os.execute("rm -r '" .. directory .. "'") end
