-- The chapter's second exercise: a tombstone and its time of grace.
--
-- A closed segment holds a=1 at timestamp 0 and a tombstone for a, a record
-- without a value, at timestamp 100. With delete_retention_ms = 1000:
--
--   * compacted at 500 the tombstone is 400 old and stays, at its own offset,
--     so that a reader that is behind still learns of the deletion;
--   * compacted at 2000, in a fresh log, it is 1900 old and goes as well.
--
-- The value never comes back: in neither run is it the newest record of a.
--
--     lua5.4 03_tombstone_expiry.lua [DIRECTORY]
--
-- With a directory the files stay there to be looked at; without, they are made
-- in a temporary one and removed at the end.

local minikafka = require "minikafka"

local directory = arg[1] or io.popen("mktemp -d"):read("l")
io.stderr:write("files in ", directory, "\n")

-- Compacts a fresh log at `now_ms`, and prints what is left of it.
local function compact_at(now_ms)
  local log <close> = minikafka.open(directory .. "/at_" .. now_ms)
  log:append_kv("a", "1", 0)
  log:append_kv("a", nil, 100) -- nil is written out: a tombstone
  log:roll()

  local compactor = minikafka.LogCompactor(minikafka.ManualClock(now_ms),
                                           { delete_retention_ms = 1000 })
  local result = compactor:compact(log)
  print(("at %d: %d -> %d records, log %d..%d"):format(
    now_ms, result.records_before, result.records_after,
    log.log_start_offset, log.log_end_offset))
  for offset, key, value in log:records() do
    print(("  offset %d: %s = %s"):format(offset, key, value or "(deleted)"))
  end
end

compact_at(500)
compact_at(2000)

if not arg[1] then os.execute("rm -r '" .. directory .. "'") end
