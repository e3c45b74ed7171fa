-- Reading back, and following a log that another process writes.
--
-- A cursor is an offset to read on from. A loop over it ends at the log's end
-- as it is then; the next loop goes on from there. log:wait sleeps until there
-- is something behind an offset, so the two together follow a log.
--
-- The reader opens the log read-only: it takes no lock and changes nothing,
-- while the writer, which is this script started once more, appends.
--
--     lua5.4 05_read_back.lua [DIRECTORY]
--
-- With a directory the files stay there to be looked at; without, they are made
-- in a temporary one and removed at the end.

local minikafka = require "minikafka"

local function show(offset, key, value)
  print(("  offset %d: %s = %s"):format(offset, key or "(no key)", value or "(deleted)"))
end

-- The writer: what the second process does.
if arg[2] == "write" then
  local log <close> = minikafka.open(arg[1])
  log:append_kv("b", "y")
  log:append_kv("c", "z")
  log:append_kv("end", "bye")
  return
end

local directory = arg[1] or io.popen("mktemp -d"):read("l")
io.stderr:write("files in ", directory, "\n")
local where = directory .. "/log"

-- The records of the chapter's experiment, appended and read back.
do
  local log <close> = minikafka.open(where)
  log:append { { key = "a", value = "1" }, { key = "b", value = "x" } }
  log:append { { key = "a", value = "2" }, { value = "event" } }

  local cursor <close> = log:cursor()
  print("read back")
  for offset, key, value in cursor do show(offset, key, value) end

  log:append { key = "active", value = "keep" }
  print("read on, from offset " .. cursor.next_offset)
  for offset, key, value in cursor do show(offset, key, value) end
end

-- Follow the log from its end, until the writer says that it is done.
local log <close> = minikafka.open(where, { read_only = true })
local cursor <close> = log:cursor { from = log.log_end_offset }
print("follow, from offset " .. cursor.next_offset)

local writer = io.popen(("'%s' '%s' '%s' write"):format(arg[-1], arg[0], where))
local done = false
while not done and log:wait(cursor.next_offset, 60000) do
  for offset, key, value in cursor do
    show(offset, key, value)
    done = done or key == "end"
  end
end
writer:close()

if not arg[1] then os.execute("rm -r '" .. directory .. "'") end
