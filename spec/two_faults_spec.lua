-- Two faults at once: damage that meets what a death left. Each alone is looked
-- at elsewhere.

local minikafka = require "minikafka"
local expect = require "spec.support.expect"

local DIR = "/logs/orders-0"

local function open(disk, read_only)
  return minikafka.open(DIR, { io = disk, index_interval_bytes = 0, read_only = read_only })
end

local function file(base, suffix) return ("%s/%020d.%s"):format(DIR, base, suffix) end

-- A closed log with segments at 0, 5 and 8, all of it flushed.
local function make_disk()
  local disk = minikafka.SimDisk()
  local log <close> = open(disk)
  for i = 0, 11 do
    if i == 5 or i == 8 then log:roll() end
    log:append_kv("key" .. i, ("v%02d"):format(i), i)
  end
  return disk
end

local function copy_without(disk, path)
  local copy = minikafka.SimDisk()
  for _, each in ipairs(disk:list()) do
    if each ~= path then copy:write(each, disk:read(each)) end
  end
  return copy
end

local function append_bytes(disk, path, bytes) disk:write(path, disk:read(path) .. bytes) end

local harmless = { open = true, lock = true, close = true, read = true, stat = true,
  list = true, fsync = true, fsync_dir = true, fdatasync = true }

-- Open the log, and say what that changes, but for the lock.
local function open_and_list(disk)
  local changes = {}
  disk:trace(function(event)
    if not harmless[event.op] and not event.path:find("lock$") then
      changes[#changes + 1] = event.op .. " " .. event.path
    end
  end)
  local log = open(disk)
  disk:trace(nil)
  return log, table.concat(changes, "\n")
end

-- The offsets that can be read, whatever is damaged between them.
local function readable(log)
  local found, from = {}, log.log_start_offset
  while from < log.log_end_offset do
    local ok, caught = pcall(function()
      for offset, _, value in log:records(from) do
        assert.equal(("v%02d"):format(offset), value)
        found[#found + 1] = offset
        from = offset + 1
      end
      from = log.log_end_offset
    end)
    if not ok then
      assert(minikafka.is_error(caught), caught)
      from = from + 1
    end
  end
  return table.concat(found, " ")
end

local ALL = "0 1 2 3 4 5 6 7 8 9 10 11"

-- What the disk is given, or another one in its place, and what can be read then.
local cases = {
  { "a torn tail, and a wrong index of a closed segment", function(disk)
    append_bytes(disk, file(8, "log"), "torn")
    disk:damage(file(5, "timeindex"), { cut = 10 })
  end, ALL },
  { "a torn tail, and zeros behind an index of a closed segment", function(disk)
    append_bytes(disk, file(8, "log"), "torn")
    append_bytes(disk, file(5, "timeindex"), ("\0"):rep(24))
  end, ALL },
  { "a torn tail, and a wrong index of the active segment", function(disk)
    append_bytes(disk, file(8, "log"), "torn")
    disk:damage(file(8, "timeindex"), { cut = 10 })
  end, ALL },
  { "an index that a swap left, and a wrong one of the active segment", function(disk)
    disk:write(file(8, "index.cleaned"), disk:read(file(8, "index")))
    disk:damage(file(8, "timeindex"), { cut = 3 })
  end, ALL },
  { "an index that a swap left, and damage in the active segment", function(disk)
    disk:write(file(8, "index.deleted"), disk:read(file(8, "index")))
    disk:damage(file(8, "log"), { flip = 8 * 100 })
  end, "0 1 2 3 4 5 6 7 8 10 11" },
  { "a swap that was made, and an index that another one left", function(disk)
    local bytes = disk:read(file(5, "log"))
    local others = copy_without(disk, file(5, "log"))
    others:write(file(5, "log.swap"), bytes)
    others:write(file(0, "index.cleaned"), others:read(file(0, "index")))
    return others
  end, ALL },
  { "a swap that was made, and an index that stands there twice", function(disk)
    local bytes = disk:read(file(5, "log"))
    local others = copy_without(disk, file(5, "log"))
    others:write(file(5, "log.swap"), bytes)
    others:write(file(5, "index.swap"), others:read(file(5, "index")))
    others:write(file(5, "index.cleaned"), "part")
    return others
  end, ALL },
  { "several damaged batches at the end of what is stable", function(disk)
    local size = #disk:read(file(8, "log")) // 4
    disk:damage(file(8, "log"), { zero = { size, 3 * size } })
  end, "0 1 2 3 4 5 6 7 8" },
  { "several damaged batches at the end of what is stable, and a torn tail", function(disk)
    local size = #disk:read(file(8, "log")) // 4
    disk:damage(file(8, "log"), { zero = { size, 3 * size } })
    append_bytes(disk, file(8, "log"), "torn")
  end, "0 1 2 3 4 5 6 7 8" },
  { "snapshots with names that Kafka does not give them", function(disk)
    disk:write(file(5, "snapshot.cleaned"), "x")
    disk:write(file(8, "snapshot.swap"), "x")
  end, ALL },
}

describe("Two faults at once", function()
  for _, case in ipairs(cases) do
    it("do not keep one opening from putting all in order: " .. case[1], function()
      local disk = make_disk()
      disk = case[2](disk) or disk
      local log <close> = open(disk)
      assert.equal(case[3], readable(log))
      assert.equal(12, log.log_end_offset)
      local died = disk:clone() -- The process dies here, a second one opens.
      local again <close>, changes = open_and_list(died)
      assert.equal("", changes)
      assert.equal(case[3], readable(again))
      assert.equal(12, again.log_end_offset)
    end)
  end

  -- What an index has depends on the interval, and on where the last opening
  -- had begun to read.
  local function opens_once(disk, interval, count)
    local function open_with(found)
      return minikafka.open(DIR, { io = found, index_interval_bytes = interval })
    end
    local log <close> = open_with(disk)
    local values, changes = {}, {}
    for offset, _, value in log:records() do values[#values + 1] = offset .. value end
    assert.equal(count, #values)
    local died = disk:clone()
    died:trace(function(event)
      if not harmless[event.op] and not event.path:find("lock$") then
        changes[#changes + 1] = event.op .. " " .. event.path
      end
    end)
    local again <close> = open_with(died)
    died:trace(nil)
    assert.equal("", table.concat(changes, "\n"))
    for _, finding in ipairs(again:verify()) do assert.equal("note", finding.severity) end
  end

  -- Segments at 0, 3 and, where it says so, 6; flushed up to offset 2.
  local function half_flushed(interval, count)
    local disk = minikafka.SimDisk()
    local log = minikafka.open(DIR, { io = disk, index_interval_bytes = interval })
    for i = 0, 1 do log:append_kv("key", ("v%02d"):format(i), i) end
    log:close()
    log = minikafka.open(DIR, { io = disk, index_interval_bytes = interval })
    local state = disk:read(DIR .. "/minikafka.state")
    for i = 2, count - 1 do
      if i % 3 == 0 then log:roll() end
      log:append_kv("key", ("v%02d"):format(i), i)
    end
    disk:write(DIR .. "/minikafka.state", state) -- A loss of power takes its name.
    return disk:clone() -- The process dies here.
  end

  it("leave a wrong index and another interval to one opening", function()
    for _, interval in ipairs { 0, 1, 100, 4096 } do
      for _, other in ipairs { 0, 1, 100, 4096 } do
        local disk = half_flushed(interval, 5)
        disk:damage(file(0, "timeindex"), { zero = { 0, 12 } })
        opens_once(disk, other, 5)
        disk = half_flushed(interval, 2)
        disk:write(file(0, "timeindex"), "")
        append_bytes(disk, file(0, "log"), "torn")
        opens_once(disk, other, 2)
      end
    end
  end)

  it("leave a torn tail and another interval to one opening", function()
    for _, interval in ipairs { 0, 1, 100, 4096 } do
      local disk = make_disk()
      append_bytes(disk, file(8, "log"), "torn")
      opens_once(disk, interval, 12)
    end
  end)

  it("leave what a sync did not prove and another interval to one opening", function()
    for _, interval in ipairs { 0, 1, 100, 4096 } do
      for _, other in ipairs { 0, 1, 100, 4096 } do
        for _, suffix in ipairs { "index", "timeindex", "none" } do
          local disk = half_flushed(interval, 3)
          disk:write(DIR .. "/minikafka.unproven", "")
          opens_once(suffix == "none" and disk or copy_without(disk, file(0, suffix)), other, 3)
        end
      end
    end
  end)

  it("leave the last time entry of a closed segment to one opening", function()
    -- Each opening proves what is there, and its process dies.
    local function prove(disk, act)
      disk:write(DIR .. "/minikafka.unproven", "")
      local log = minikafka.open(DIR, { io = disk })
      act(log)
      return disk:clone()
    end
    local disk = minikafka.SimDisk()
    minikafka.open(DIR, { io = disk }):append_kv("key", "v00", 0)
    disk = prove(disk:clone(), function(log)
      log:roll()
      log:append_kv("key", "v01", 1)
    end)
    disk:write(file(0, "timeindex"), "") -- A loss of power takes it.
    disk = prove(disk, function() end)
    append_bytes(disk, file(1, "log"), "torn")
    opens_once(disk, 4096, 2)
  end)

  it("leave a truncation that was cut off, far above what was flushed, to one opening", function()
    for _, interval in ipairs { 0, 4096 } do
      for _, other in ipairs { 0, 4096 } do
        local disk = half_flushed(interval, 8)
        local log = minikafka.open(DIR, { io = disk, index_interval_bytes = interval })
        disk:fail { op = "truncate", errno = "EIO", times = 9 }
        expect.error("IO", log.truncate_to, log, 4)
        opens_once(disk:clone(), other, 4) -- It dies here, too.
      end
    end
  end)

  -- As the recorded run 056 has it.
  it("leave nothing of the last segments to trust behind a torn tail", function()
    local disk = make_disk()
    append_bytes(disk, file(8, "log"), "torn")
    local log <close> = open(disk)
    assert.equal(4, log:stats().truncated_bytes)
    assert.equal(0, log.recovery_point)
    local died = disk:clone()
    died:damage(file(0, "log"), { flip = 8 * 100 })
    local good, raised = pcall(open, died)
    assert.is_false(good)
    assert(minikafka.is_error(raised, "CORRUPT_SEGMENT"), raised)
    log:flush()
    assert.equal(12, log.recovery_point)
  end)

  it("leave no wrong index behind, once the log is closed", function()
    local disk = make_disk()
    local sound = disk:read(file(8, "timeindex"))
    disk:damage(file(8, "timeindex"), { cut = 3 })
    open(disk):close()
    assert.equal(sound, disk:read(file(8, "timeindex")))
    disk:write(DIR .. "/minikafka.state", "")
    disk:damage(file(8, "log"), { cut = 10 })
    open(disk):close()
    assert.equal("", disk:read(file(8, "log")))
    assert.equal("", disk:read(file(8, "index")))
    assert.equal("", disk:read(file(8, "timeindex")))
  end)

  -- An active segment whose first batch is damaged looks empty, and a wrong base
  -- offset before it looks as if its roll had failed.
  it("do not remove a last segment that cannot be read", function()
    local disk = make_disk()
    disk:write(DIR .. "/minikafka.state", "")
    disk:damage(file(5, "log"), { flip = 8 * (2 * #disk:read(file(5, "log")) // 3 + 7) + 4 })
    disk:damage(file(8, "log"), { flip = 8 * 30 })
    local before = {}
    for _, path in ipairs(disk:list()) do before[path] = disk:read(path) end
    expect.error("CORRUPT_SEGMENT", open, disk)
    for path, bytes in pairs(before) do
      assert(bytes == disk:read(path) or path:find("lock$"), path)
    end
  end)

  it("do not remove an empty segment that the state knows", function()
    local disk = make_disk()
    local log = open(disk)
    log:roll()
    log:close()
    disk:write(file(8, "index.swap"), disk:read(file(8, "index")))
    disk:damage(file(8, "log"), { flip = 8 * (3 * #disk:read(file(8, "log")) // 4 + 7) + 4 })
    expect.error("CORRUPT_SEGMENT", open, disk)
    assert.equal("", disk:read(file(12, "log")))
    expect.error("CORRUPT_SEGMENT", open, disk)
  end)

  it("are survived by who makes an index anew behind a wrong offset", function()
    for bit = 0, 20 do
      local disk = make_disk()
      disk:damage(file(8, "index"), { cut = 3 })
      disk:damage(file(8, "log"),
        { flip = 8 * (#disk:read(file(8, "log")) // 4 + 7 - bit // 8) + bit % 8 })
      local log = open(disk)
      log:append_kv("key", "v12", 99)
      log:close()
      local again <close> = open(disk)
      assert.equal(13, again.log_end_offset)
      assert.equal("v08", again:fetch(8, 1)[1].value)
    end
  end)

  -- Another kind of thing than damage: somebody put a link in its place.
  it("do not pass over what has a segment's name and is no file", function()
    local disk = copy_without(make_disk(), file(8, "log"))
    disk:write(file(8, "log") .. "/inside", "x")
    expect.error("CORRUPT_SEGMENT", open, disk)
    local log <close> = open(disk, true)
    assert.equal(8, log.log_end_offset)
    minikafka.repair(DIR, { io = disk, apply = true })
    local mended <close> = open(disk)
    assert.equal("0 1 2 3 4 5 6 7", readable(mended))
    assert.equal(12, mended.log_end_offset)
  end)

  it("do not make a reader look for ever", function()
    local disk = minikafka.SimDisk()
    local log = open(disk)
    for i = 0, 4 do log:append_kv("key" .. i, ("v%02d"):format(i), i) end
    log:roll()
    log:close()
    disk:damage(file(0, "log"), { cut = 0 })
    disk:write(file(2, "log"), ("\0"):rep(80))
    disk:write(file(5, "index.deleted"), "")
    local reader <close> = open(disk, true)
    local looks = 0
    disk:trace(function(event)
      if event.op == "list" then looks = looks + 1 end
      assert(looks < 100, "it looks for ever")
    end)
    expect.error("CORRUPT_SEGMENT", function()
      for _ in reader:records() do end
    end)
  end)
end)

describe("A loss of power, and a disk that is full at the next opening", function()
  -- Records were lost before a log start that stays. What comes behind the gap
  -- would be taken for damage if the state did not tell of it.
  it("take no record that was acknowledged", function()
    local disk = minikafka.SimDisk()
    local log = open(disk)
    for i = 0, 2 do log:append_kv("k" .. i, "v", i) end
    log:flush()
    for i = 3, 4 do log:append_kv("k" .. i, "v", i) end
    log:delete_records(5)
    disk:crash{ keep = "lazy" }
    disk:fail{ op = "write", path = "*minikafka*", errno = "ENOSPC", times = 40 }
    log = open(disk)
    assert.equal(5, log.log_end_offset)
    local offset
    for _ = 1, 40 do
      local done, result = pcall(log.append_kv, log, "k5", "v", 5)
      if done then
        offset = result
        break
      end
      assert.equal("IO", result.code)
    end
    assert.equal(5, offset)
    disk:crash{ keep = "kill9" }
    local again <close> = open(disk)
    assert.equal("k5", again:fetch(5, 1)[1].key)
  end)
end)
