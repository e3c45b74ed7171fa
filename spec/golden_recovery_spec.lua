-- What Apache Kafka leaves behind after a crash, and what it makes of that when
-- it starts again: from each of these directories our files end as Kafka's do,
-- but for the cases that docs/recovery.md names.

local minikafka = require "minikafka"
local tmp = require "spec.support.tmp"
local collector = require "spec.support.collector"
local json = require "spec.support.json"
local base64 = require "spec.support.base64"
local expect = require "spec.support.expect"

local folder = "spec/data/golden-recovery/"

-- Where we end otherwise, and how: an error that opening raises (and then no
-- file is changed), or the files that are not Kafka's. The page has this list.
local differences = {
  ["rec-bad-index"] = { files = "0.index" },
  ["rec-bad-timeindex"] = { files = "0.timeindex" },
  ["rec-flip-below-point"] = { code = "CORRUPT_SEGMENT" },
  ["rec-flip-clean"] = { code = "CORRUPT_SEGMENT" },
  ["rec-flip-first"] = { code = "CORRUPT_SEGMENT" },
  ["rec-no-timeindex"] = { files = "0.timeindex" },
  ["rec-odd-index"] = { files = "0.index" },
  ["rec-start-beyond-end"] = { files = "0.index 0.log 0.timeindex 6.index"
    .. " 6.log 6.timeindex 12.index 12.log 12.timeindex 500.index 500.log"
    .. " 500.timeindex" },
  ["rec-start-checkpoint"] = { files = "0.index 0.log 0.timeindex" },
  ["rec-torn-clean"] = { files = "12.index 12.log" },
  ["rec-torn-clean-2"] = { files = "12.log" },
  ["rec-torn-middle"] = { code = "CORRUPT_SEGMENT" },
  ["rec-zero-tail-clean"] = { files = "12.log" },
  ["swap-index-only"] = { files = "0.index" },
}

local words = { ["true"] = true, ["false"] = false }

local function options_of(line)
  local options = { clock = minikafka.ManualClock(line.now) }
  for name, text in pairs(line.set) do
    local value = words[text]
    if value == nil then
      value = math.tointeger(tonumber(text)) or text
    end
    options[name:gsub("%.", "_")] = value
  end
  options.cleanup_policy = nil -- Nothing is cleaned here.
  return options
end

-- Put Kafka's directory on the disk. Returns the case: the log's directory, how
-- to open it, and Kafka's files afterwards, by name.
local function unpack_case(name)
  local root = tmp.dir()
  local case = { dir = root .. "/t-0", after = {} }
  assert(os.execute("mkdir '" .. case.dir .. "'"))
  for line in json.lines(folder .. name .. ".jsonl") do
    if line.set then
      case.options = options_of(line)
    else
      local before = line.before and base64.decode(line.before)
      local after = line.same and before
        or line.after and base64.decode(line.after)
      if before then
        tmp.write(root .. "/" .. line.name, before)
      end
      case.after[line.name:match("^t%-0/(.*)") or line.name] = after or nil
    end
  end
  return case
end

local suffixes = { log = true, index = true, timeindex = true }

-- Names of files that are not Kafka's, in order, without their zeros.
local function compare(case)
  local names, bases, differing = {}, {}, {}
  for name in pairs(case.after) do
    names[name] = true
  end
  for _, name in ipairs(tmp.list(case.dir)) do
    names[name] = suffixes[name:match("^%d+%.(%l+)")]
  end
  for name in pairs(names) do
    if case.after[name] ~= tmp.read(case.dir .. "/" .. name) then
      local base, suffix = name:match("^(%d+)(.*)")
      differing[#differing + 1] = ("%d%s"):format(base, suffix)
      bases[differing[#differing]] = name
    end
  end
  table.sort(differing, function(a, b) return bases[a] < bases[b] end)
  return table.concat(differing, " ")
end

local function cases()
  local names = {}
  for _, name in ipairs(tmp.list(folder)) do
    names[#names + 1] = name:match("^(.*)%.jsonl$")
  end
  return names
end

-- Every record, so that all that is left of the log is read.
local function read_all(log)
  local count = 0
  for _ in log:records() do
    count = count + 1
  end
  return count
end

-- The same directory on a simulated disk.
local function disk_of(name)
  local disk, options = minikafka.SimDisk(), nil
  for line in json.lines(folder .. name .. ".jsonl") do
    if line.set then
      options = options_of(line)
    elseif line.before then
      disk:write("/" .. line.name, base64.decode(line.before))
    end
  end
  return disk, options
end

-- Open the log of a disk, and say what that changes there, but for the lock.
local function open_and_list(disk, options)
  local harmless = { open = true, lock = true, close = true, read = true,
    stat = true, list = true, fsync = true, fsync_dir = true,
    fdatasync = true }
  local lines = {}
  disk:trace(function(event)
    if not harmless[event.op] and not event.path:find("minikafka.lock", 1, true)
    then
      lines[#lines + 1] = event.op .. " " .. event.path
    end
  end)
  options.io = disk
  local log = minikafka.open("/t-0", options)
  disk:trace(nil)
  return log, table.concat(lines, "\n")
end

describe("What Kafka left", function()
  setup(collector.relax)
  teardown(collector.restore)
  after_each(tmp.clean)

  for _, name in ipairs(cases()) do
    local difference = differences[name] or { files = "" }

    if difference.code then
      it("is refused, and stays as it is: " .. name, function()
        local case = unpack_case(name)
        -- What would go from a log that opens.
        for _, useless in ipairs { "99.index", "99.timeindex", "99.log.cleaned",
          "98.log.deleted" } do
          tmp.write(("%s/%018d%s"):format(case.dir, 0, useless), "")
        end
        local before = tmp.fingerprint(case.dir)
        expect.error(difference.code, minikafka.open, case.dir, case.options)
        os.remove(case.dir .. "/minikafka.lock")
        assert.equal(before, tmp.fingerprint(case.dir))
        case.options.read_only = true
        local log <close> = minikafka.open(case.dir, case.options)
        assert(read_all(log) > 0)
      end)
    else
      it("ends as Kafka has it: " .. name, function()
        local case = unpack_case(name)
        local log = minikafka.open(case.dir, case.options)
        local count = read_all(log)
        log:close()
        assert.equal(difference.files, compare(case))
        local again <close> = minikafka.open(case.dir, case.options)
        assert.equal(count, read_all(again))
        assert.equal(difference.files, compare(case))
      end)

      -- With a death in between: nothing is closed.
      it("is put in order by one opening: " .. name, function()
        local disk, options = disk_of(name)
        local log <close> = open_and_list(disk, options)
        local count = read_all(log)
        local died = disk:clone()
        local again <close>, changes = open_and_list(died, options)
        assert.equal("", changes)
        assert.equal(count, read_all(again))
      end)
    end
  end

  it("has a log start that a checkpoint beside it tells of", function()
    local case = unpack_case("rec-start-checkpoint")
    local log <close> = minikafka.open(case.dir, case.options)
    assert.equal(7, log.log_start_offset)
  end)

  it("keeps the log where the checkpoint is beyond its end", function()
    local case = unpack_case("rec-start-beyond-end")
    local log <close> = minikafka.open(case.dir, case.options)
    assert.equal(0, log.log_start_offset)
    assert.equal(18, log.log_end_offset)
  end)

  it("is told on the page about recovery, each difference of it", function()
    local page = assert(tmp.read("docs/recovery.md"))
    local told = {}
    for name in page:gmatch("\n| `([rs][%w-]+)`") do
      assert(not told[name], name)
      told[name] = true
    end
    for name in pairs(differences) do
      assert(told[name], name .. " is not told")
      told[name] = nil
    end
    assert.is_nil(next(told))
  end)
end)

-- A directory as Kafka would leave it: none of our files, and in the directory
-- above its note of what was on stable storage.
local function leave(point)
  local root = tmp.dir()
  local dir = root .. "/t-0"
  local log = minikafka.open(dir, { clock = minikafka.ManualClock(0) })
  for i = 1, 6 do
    log:append_kv("k" .. i, "v" .. i, i)
  end
  log:close()
  for _, name in ipairs(tmp.list(dir)) do
    if name:find("^minikafka") then
      os.remove(dir .. "/" .. name)
    end
  end
  tmp.write(root .. "/recovery-point-offset-checkpoint",
    ("0\n1\nt 0 %d\n"):format(point))
  return dir, dir .. "/00000000000000000000.log"
end

-- Change a byte of batch number `number`, all of which are alike.
local function spoil(path, number, at)
  local bytes = tmp.read(path)
  local i = (number - 1) * (#bytes // 6) + at
  tmp.write(path, bytes:sub(1, i - 1) .. string.char(bytes:byte(i) ~ 0x40)
    .. bytes:sub(i + 1))
end

local function open(dir, options)
  options = options or {}
  options.clock = minikafka.ManualClock(0)
  return minikafka.open(dir, options)
end

describe("Damage in the last segment that Kafka left", function()
  after_each(tmp.clean)

  it("is not cut off below what was on stable storage", function()
    -- A wrong checksum, and a size that reaches beyond the file.
    for _, at in ipairs { 70, 10 } do
      local dir, path = leave(6)
      spoil(path, 3, at)
      local before = tmp.read(path)
      local raised = expect.error("CORRUPT_SEGMENT", open, dir)
      assert.equal(path, raised.path)
      assert.equal(2, raised.offset)
      assert.equal(before, tmp.read(path))
      local reader <close> = open(dir, { read_only = true })
      assert.equal(2, reader.log_end_offset)
      minikafka.repair(dir, { apply = true })
      local log <close> = open(dir)
      assert.equal(6, log.log_end_offset)
      assert.equal(5, read_all(log))
    end
  end)

  it("is cut off above it, as Kafka does", function()
    local dir, path = leave(2)
    spoil(path, 3, 70)
    local log <close> = open(dir)
    assert.equal(2, log.log_end_offset)
  end)

  it("is told of where nothing but the last batch is lost", function()
    local dir, path = leave(6)
    spoil(path, 6, 70)
    local log <close> = open(dir)
    assert.equal(5, log.log_end_offset)
    local stats = log:stats()
    assert.equal(5, stats.lost_from_offset)
    assert.equal(6, stats.lost_to_offset)
  end)

  it("gives no segment a base that is out of all reach", function()
    local dir, path = leave(6)
    spoil(path, 6, 2)
    local names = table.concat(tmp.list(dir), " ")
    expect.error("CORRUPT_SEGMENT", open, dir)
    os.remove(dir .. "/minikafka.lock")
    assert.equal(names, table.concat(tmp.list(dir), " "))
  end)
end)
