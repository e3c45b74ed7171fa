-- What a Kafka broker would make of the parent directory after a crash at any
-- point of a swap, or a loss of power there: it starts, it deletes nothing, and
-- one of the directories that it loads holds the whole log.
--
-- The broker's rules, as far as they matter: each directory in its log.dir must
-- be called `<topic>-<partition>`, or it does not start; two for one partition
-- keep it from starting, too; what ends in `-delete` it removes. In a partition
-- it removes files that end in `.deleted` and `.cleaned`, may remove `.swap`
-- ones, and fails at a `.log` or an index whose name has no number.

local minikafka = require "minikafka"
local collector = require "spec.support.collector"

local parent, name = "/data/", "orders-0"
local limit = 150 -- States of a loss of power, at each crash point.

-- ---- As a broker reads it ----

-- Take the name of a directory apart; raises where a broker would not start.
local function parse(directory)
  for _, suffix in ipairs { "-delete", "-future", "-stray" } do
    assert(directory:sub(-#suffix) ~= suffix, directory)
  end
  local topic, partition = directory:match("^(.*)%-([^-]*)$")
  assert(topic and topic ~= "", directory .. " is no partition")
  assert(partition:find("^%d+$") and tonumber(partition) < 2 ^ 31,
    directory .. " has no partition number")
  assert(#directory <= 255, directory .. " is too long")
  return topic, tonumber(partition)
end

local function check_file(file)
  for _, suffix in ipairs { "%.deleted", "%.cleaned", "%.swap" } do
    assert(not file:find(suffix .. "$") or file == "minikafka.swap", file)
  end
  if file:find("%.log$") or file:find("index$") then
    assert(file:find("^" .. ("%d"):rep(20) .. "%."), file)
  end
end

-- Return the directories, each a table from file names to bytes.
local function load_directories(disk)
  local directories, seen = {}, {}
  for _, path in ipairs(disk:list()) do
    local directory, file = path:match("^" .. parent .. "([^/]+)/([^/]+)$")
    assert(directory, path)
    check_file(file)
    if not directories[directory] then
      local partition = ("%s %d"):format(parse(directory))
      assert(not seen[partition], partition)
      seen[partition] = true
      directories[directory] = {}
    end
    directories[directory][file] = disk:read(path)
  end
  return directories
end

-- The bytes of all segments, in order, and where each begins.
local function log_of(files)
  local names, parts = {}, {}
  for file in pairs(files) do
    if file:find("%.log$") then
      names[#names + 1] = file
    end
  end
  table.sort(names)
  for i, file in ipairs(names) do
    parts[i] = file .. "\n" .. files[file]
  end
  return table.concat(parts, "\n")
end

-- ---- Crashes ----

local function make_disk(exchange)
  local disk = minikafka.SimDisk { exchange = exchange }
  local log = minikafka.open(parent .. name, { io = disk })
  log:append { { key = "a", value = "1" }, { key = "b", value = "1" } }
  log:roll()
  log:append_kv("a", "2")
  log:roll()
  log:append_kv("c", "1")
  log:flush()
  disk:write(parent .. name .. "/partition.metadata", "version: 0\n"
    .. "topic_id: 69O438ZkTSeqqclTtZO2KA\n")
  return disk, log
end

local function check(disk, whole)
  local directories = load_directories(disk)
  local live = directories[name]
  if live then
    assert(whole[log_of(live)], "the log's directory has less than the log")
    assert(live["partition.metadata"])
    return "live"
  end
  for directory, files in pairs(directories) do
    assert(whole[log_of(files)], directory .. " has less than the log")
    assert(files["partition.metadata"])
  end
  assert(next(directories), "no directory is left")
  return "siblings"
end

-- Return how often the log was found where.
local function crash_everywhere(exchange)
  local disk, log = make_disk(exchange)
  local whole = { [log_of(load_directories(disk)[name])] = true }
  local points, counts = { disk:clone() }, { live = 0, siblings = 0 }
  disk:trace(function()
    points[#points + 1] = disk:clone()
  end)
  minikafka.LogCompactor():compact(log)
  disk:trace(nil)
  points[#points + 1] = disk:clone()
  whole[log_of(load_directories(disk)[name])] = true
  for _, point in ipairs(points) do
    for state in point:crash_states { limit = limit } do
      local where = check(state, whole)
      counts[where] = counts[where] + 1
    end
  end
  log:close()
  return counts
end

describe("a Kafka broker", function()
  setup(collector.relax)
  teardown(collector.restore)

  it("starts on the parent after any crash of an exchange, with the log in place",
    function()
      local counts = crash_everywhere(true)
      assert.equal(0, counts.siblings)
      assert(counts.live > 1000)
    end)

  it("starts on the parent after any crash of two renames, and keeps the log",
    function()
      local counts = crash_everywhere(false)
      assert(counts.siblings > 0)
      assert(counts.live > 1000)
    end)

  it("can read the siblings' names, however long the log's own is", function()
    for _, size in ipairs { 1, 100, 225, 240, 249 } do
      local own = ("n"):rep(size) .. "-7"
      local disk = minikafka.SimDisk { exchange = false }
      local log <close> = minikafka.open(parent .. own, { io = disk })
      log:append_kv("a", "1")
      log:roll()
      local seen = {}
      disk:trace(function()
        for directory in pairs(load_directories(disk)) do
          local topic, partition = parse(directory)
          assert.equal(7, partition)
          seen[topic] = true
        end
      end)
      minikafka.LogCompactor():compact(log)
      disk:trace(nil)
      local count = 0
      for topic in pairs(seen) do
        assert(topic == ("n"):rep(size) or topic:find("^minikafka%."), topic)
        count = count + 1
      end
      assert.equal(3, count)
    end
  end)
end)
