-- The chapter's experiment: delete a prefix, compact keyed state.
--
-- Two logs. From the first, time retention drops whole closed segments, oldest
-- first, and the log then starts at a later offset. In the second, compaction
-- keeps the newest record of every key; what is left keeps its offset, so a gap
-- stays where a record went.
--
--     lua5.4 01_chapter_experiment.lua [DIRECTORY]
--
-- With a directory the files stay there to be looked at; without, they are made
-- in a temporary one and removed at the end. Prints, to the letter, the three
-- lines that the chapter shows as measured.

local minikafka = require "minikafka"

local directory = arg[1] or io.popen("mktemp -d"):read("l")
io.stderr:write("files in ", directory, "\n")

-- The chapter prints Python values: b'x', None, (0, 1, 2), [...].
local function bytes(value)
  return value and "b'" .. value .. "'" or "None"
end

local function sequence(open, items, close)
  return open .. table.concat(items, ", ") .. close
end

-- Retention. Each record is rolled into a closed segment of its own; the last
-- one stays in the active segment, which retention never touches.
local retained = minikafka.open(directory .. "/retained", { index_interval_bytes = 1 })
for _, timestamp_ms in ipairs { 0, 50, 150 } do
  retained:append_kv(nil, tostring(timestamp_ms), timestamp_ms)
  retained:roll()
end
retained:append_kv(nil, "250", 250)

-- At 300, 100 ms back, all that is older than 200 may go.
local deleted = minikafka.RetentionManager(minikafka.ManualClock(300))
                  :apply(retained, { retention_ms = 100 })
print("retention deleted: " .. sequence("(", deleted, ")") ..
      " start: " .. retained.log_start_offset)
retained:close()

-- Compaction. A list of records is appended as one batch.
local compacted = minikafka.open(directory .. "/compacted", { index_interval_bytes = 1 })
compacted:append { { key = "a", value = "1", timestamp_ms = 0 },
                   { key = "b", value = "x", timestamp_ms = 1 } }
compacted:roll()
compacted:append { { key = "a", value = "2", timestamp_ms = 2 },
                   { value = "event", timestamp_ms = 3 } }
compacted:roll()
compacted:append { key = "active", value = "keep", timestamp_ms = 4 }

-- Four records stand in closed segments; a=1 is superseded by a=2.
local result = minikafka.LogCompactor(minikafka.ManualClock(10), { delete_retention_ms = 1000 })
                 :compact(compacted)
print(("compaction: %d -> %d"):format(result.records_before, result.records_after))

local lines = {}
for _, record in ipairs((compacted:fetch(compacted.log_start_offset, 10))) do
  lines[#lines + 1] = ("(%d, %s, %s)"):format(record.offset, bytes(record.key),
                                              bytes(record.value))
end
print("records: " .. sequence("[", lines, "]"))
compacted:close()

if not arg[1] then os.execute("rm -r '" .. directory .. "'") end
