-- Retention and compaction at work: two logs over four days.
--
-- A shop writes two logs. "visits" is history: every visit counts, but only for
-- a while, so retention drops its oldest segments. "prices" is state: only the
-- newest price of an article counts, so compaction drops the older ones. The
-- clock is set by hand, so a run takes no time and always prints the same.
--
-- Read the pictures like this: [base offset..next offset) and the number of
-- records in each segment, oldest first; the one with a * is active. Then, for
-- the prices, what the log says: the newest record of each article.
--
--     lua5.4 04_retention_and_compaction_at_work.lua [DIRECTORY]
--
-- With a directory the files stay there to be looked at; without, they are made
-- in a temporary one and removed at the end.

local minikafka = require "minikafka"

local directory = arg[1] or io.popen("mktemp -d"):read("l")
io.stderr:write("files in ", directory, "\n")

local HOUR_MS = 60 * 60 * 1000
local DAY_MS = 24 * HOUR_MS
local ARTICLES = { "apple", "bread", "cheese", "dates" }

local clock = minikafka.ManualClock(0)
local options = { clock = clock, segment_bytes = 1500 } -- small, to see many
local visits = minikafka.open(directory .. "/visits", options)
local prices = minikafka.open(directory .. "/prices", options)

local retention = minikafka.RetentionManager(clock)
local compactor = minikafka.LogCompactor(clock, { delete_retention_ms = DAY_MS })

-- One line: the segments of a log, and what they hold.
local function draw(name, log)
  local parts = {}
  for i, segment in ipairs(log.segments) do
    local count = 0
    for _ in log:records(segment.base_offset, { end_offset = segment.next_offset }) do
      count = count + 1
    end
    parts[#parts + 1] = ("[%d..%d) %d%s"):format(
      segment.base_offset, segment.next_offset, count, i == #log.segments and "*" or "")
  end
  print(("  %s %5d bytes  %s"):format(name, log.size_bytes, table.concat(parts, "  ")))
end

-- One line: offset, key and value of all records.
local function list(name, log)
  local parts = {}
  for offset, key, value in log:records() do
    parts[#parts + 1] = ("%d %s %s"):format(offset, key, value or "(gone)")
  end
  print(("  %s say %s"):format(name, table.concat(parts, ", ")))
end

-- A day of business: a visit an hour, a new price every two hours.
local function trade(day)
  for hour = 0, 23 do
    visits:append_kv(nil, ("visitor %d of day %d looks around"):format(hour, day))
    if hour % 2 == 0 then
      local article = ARTICLES[(hour // 2 + day) % #ARTICLES + 1]
      prices:append_kv(article, ("%d.%02d"):format(1 + hour % 5, hour * 4))
    end
    clock:advance_ms(HOUR_MS)
  end
end

for day = 1, 4 do
  trade(day)
  if day == 2 then
    prices:append_kv(table.remove(ARTICLES), nil) -- dates are no longer on sale
  end
  print("evening of day " .. day)
  draw("visits", visits)
  draw("prices", prices)

  -- Visits are kept for two days, and never more than 5000 bytes of them: on
  -- the third night time takes one segment, and size one more.
  local deleted = retention:apply(visits, { retention_ms = 2 * DAY_MS, retention_bytes = 5000 })

  -- The compactor rewrites closed segments only, so the active one is closed
  -- first. The dates' tombstone is a day old on the third night, which is not
  -- more than a day yet; on the fourth it goes.
  prices:roll()
  local result = compactor:compact(prices)

  print(("night: retention drops {%s}, compaction %d -> %d records"):format(
    table.concat(deleted, ", "), result.records_before, result.records_after))
  draw("visits", visits)
  draw("prices", prices)
  list("prices", prices)
end

visits:close()
prices:close()
if not arg[1] then os.execute("rm -r '" .. directory .. "'") end
