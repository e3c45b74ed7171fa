-- The chapter's third exercise: no crash during a compaction loses the log.
--
-- A compaction lets a new directory take the place of the log's. On a disk that
-- can exchange two names that is one step; on one that can't it takes two
-- renames, and a crash between them leaves no directory at the log's name.
--
-- Here a compaction runs on a simulated disk, once in each way, and the disk is
-- cloned before every operation: that is what a crash just there leaves. For
-- each crash point are shown
--
--   * found: the directories as they were left. In brackets stand the segments
--     (base offset:size of the log), the state, and what the note says;
--   * opened: the same after minikafka.open, and which log it is.
--
-- Crash points in a row with the same to show are shown once. Each is also
-- opened in the states that a loss of power could leave, the harshest too.
--
--     lua5.4 06_swap_crash_points.lua [DIRECTORY]
--
-- With a directory the files stay there to be looked at; without, they are made
-- in a temporary one and removed at the end.

local minikafka = require "minikafka"

local directory = arg[1] or io.popen("mktemp -d"):read("l")
io.stderr:write("files in ", directory, "\n")

local LOG = "/data/prices-0"

-- The records that a log has, in a line.
local function records_of(log)
  local parts = {}
  for offset, key, value in log:records() do
    parts[#parts + 1] = ("%d:%s=%s"):format(offset, key, value)
  end
  return table.concat(parts, " ")
end

local OLD = "0:a=1 1:b=1 2:a=2 3:c=1"
local NEW = "1:b=1 2:a=2 3:c=1"

-- A directory with what counts in it: "name (0:150 3:75 state)".
local function show_directory(disk, path)
  local parts = {}
  for _, file in ipairs(disk:list()) do
    local name = file:match("^" .. path:gsub("%p", "%%%0") .. "/([^/]+)$")
    local base = name and name:match("^(%d+)%.log$")
    if base then
      parts[#parts + 1] = ("%d:%d"):format(tonumber(base), #disk:read(file))
    elseif name == "minikafka.state" then
      parts[#parts + 1] = "state"
    elseif name == "minikafka.swap" then
      parts[#parts + 1] = "note " .. disk:read(file):match("phase (%a+)")
    end
  end
  return ("%s (%s)"):format(path:match("[^/]+$"), table.concat(parts, " "))
end

local function show(disk)
  local seen, parts = {}, {}
  for _, file in ipairs(disk:list()) do
    local path = file:match("^(.*)/")
    if not seen[path] then
      seen[path] = true
      parts[#parts + 1] = show_directory(disk, path)
    end
  end
  return table.concat(parts, "\n          ")
end

-- Open what a crash left, and say which log it is.
local function open(disk)
  local log <close> = minikafka.open(LOG, { io = disk })
  local records = records_of(log)
  assert(records == OLD or records == NEW, records)
  return records == OLD and "the old log" or "the new log"
end

-- A blank and the last name in a path, or nothing.
local function last(path)
  return path and " " .. path:match("[^/]+$") or ""
end

local harmless = { read = true, stat = true, list = true, close = true }

-- Run a compaction; return what a crash before each operation would leave.
local function crash_points(exchange)
  local disk = minikafka.SimDisk { exchange = exchange }
  local log <close> = minikafka.open(LOG, { io = disk })
  log:append { { key = "a", value = "1" }, { key = "b", value = "1" } }
  log:roll()
  log:append_kv("a", "2")
  log:roll()
  log:append_kv("c", "1")
  log:flush()

  local points = {}
  disk:trace(function(event)
    if not harmless[event.op] then
      points[#points + 1] = { disk = disk:clone(), event = event }
    end
  end)
  minikafka.LogCompactor():compact(log)
  disk:trace(nil)
  points[#points + 1] = { disk = disk:clone(), event = { op = "the end" } }
  return points
end

-- Open the disks that a loss of power could leave (the first 60 of them).
local function lose_power(disk)
  for state in disk:crash_states { limit = 60 } do open(state) end
end

local between -- What a crash between two renames leaves.

for _, exchange in ipairs { true, false } do
  print(exchange and "BY EXCHANGING NAMES" or "BY TWO RENAMES")
  local shown
  for _, point in ipairs(crash_points(exchange)) do
    local event, found = point.event, show(point.disk)
    if event.op == "rename" and event.to == LOG then between = point.disk:clone() end
    lose_power(point.disk)

    local which = open(point.disk)
    local picture = ("  found   %s\n  opened  %s: %s"):format(found, show(point.disk), which)
    if picture ~= shown then
      print("crash before " .. event.op .. last(event.path))
      print(picture)
      shown = picture
    end
  end
  print("a loss of power at any of them: the old log or the new one")
end

-- The window of the chapter's own program, on real files.
for _, path in ipairs(between:list()) do
  os.execute(("mkdir -p '%s'"):format((directory .. path):match("^(.*)/")))
  local file <close> = assert(io.open(directory .. path, "wb"))
  file:write(between:read(path))
end
print("ON REAL FILES, BETWEEN THE RENAMES")
do
  local log <close> = minikafka.open(directory .. LOG)
  print("  opened  " .. records_of(log))
end

if not arg[1] then os.execute("rm -r '" .. directory .. "'") end
