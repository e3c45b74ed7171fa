-- SimDisk: what scripts can do with a disk, and what a log on it does then.

local expect = require "spec.support.expect"
local minikafka = require "minikafka"

local LOG = "/log/00000000000000000000.log"

local function open(disk, options)
  options = options or {}
  options.io = disk
  return minikafka.open("/log", options)
end

local function append(log, ...)
  for _, value in ipairs{ ... } do log:append_kv("k", value, 0) end
end

local function values(log)
  local list = {}
  for _, _, value in log:records() do list[#list + 1] = value end
  return table.concat(list, " ")
end

-- What the call has done to the disk: "op path", a line each.
local function trace_of(disk, call)
  local lines = {}
  disk:trace(function(event)
    lines[#lines + 1] = event.op .. " " .. event.path
  end)
  call()
  disk:trace(nil)
  return lines
end

describe("SimDisk", function()
  it("is made with nothing, or with options", function()
    local disk = minikafka.SimDisk()
    assert.equal("hostile", disk.profile)
    assert.equal(0, disk.clock:now_ms())
    assert.same({}, disk:list())
    disk = minikafka.SimDisk{ seed = -3, profile = "lazy", sector_bytes = 16,
      page_bytes = 512, capacity_bytes = 1000, capacity_files = 10,
      fsync_links = true, exchange = false,
      clock = minikafka.ManualClock(8) }
    assert.equal("lazy", disk.profile)
    assert.equal(8, disk.clock:now_ms())
    assert.equal(true, minikafka.features().sim_disk)
  end)

  it("checks them", function()
    local SimDisk = minikafka.SimDisk
    expect.argument_error("options", SimDisk, 1)
    expect.argument_error("seed", SimDisk, { seed = "1" })
    expect.argument_error("exchange", SimDisk, { exchange = 1 })
    expect.argument_error("clock", SimDisk, { clock = 1 })
    expect.argument_error("profile", SimDisk, { profile = 1 })
    local raised = expect.error("INVALID_ARGUMENT", SimDisk, { sed = 1 })
    assert.equal("seed", raised.nearest)
    raised = expect.error("INVALID_ARGUMENT", SimDisk, { profile = "hostil" })
    assert.equal("hostile", raised.nearest)
    for name, value in pairs{ page_bytes = 1000, sector_bytes = 8,
      capacity_bytes = -1, capacity_files = -1 } do
      expect.error("INVALID_ARGUMENT", SimDisk, { [name] = value })
      expect.error("INVALID_ARGUMENT", SimDisk, { [name] = 0 })
    end
    expect.argument_error("io", minikafka.open, "/log", { io = {} })
    expect.argument_error("io", minikafka.open, "/log",
      { io = minikafka.SystemClock() })
  end)

  it("prints", function()
    local disk = minikafka.SimDisk{ profile = "ordered" }
    disk:write("/a", "four")
    assert.truthy(tostring(disk):find("ordered: 1 file, 4 bytes", 1, true))
    assert.truthy(tostring(disk:stats()):find("files +="))
    disk:close()
    assert.equal("minikafka.SimDisk (closed)", tostring(disk))
  end)

  it("may be closed, twice and by a scope; logs on it go on", function()
    local disk = minikafka.SimDisk()
    local log = open(disk)
    do
      local scope <close> = disk -- luacheck: ignore
    end
    disk:close()
    for name, arguments in pairs{ list = {}, read = { "/a" }, stats = {},
      write = { "/a", "" }, clone = {}, crash = {}, crash_states = {},
      trace = {}, fail = { {} }, damage = { "/a", { cut = 0 } }, hash = {} } do
      expect.error("CLOSED", disk[name], disk, table.unpack(arguments))
    end
    expect.error("CLOSED", function() return disk.clock end)
    expect.error("CLOSED", minikafka.open, "/log", { io = disk })
    append(log, "a")
    assert.equal("a", values(log))
    log:close()
  end)

  it("stays alive while something stands on it", function()
    local log = open(minikafka.SimDisk{ clock = minikafka.ManualClock(5) })
    local clock = minikafka.SimDisk().clock
    collectgarbage()
    collectgarbage()
    log:append_kv("k", "v")
    assert.equal(5, log:fetch(0)[1].timestamp_ms)
    clock:advance_ms(3)
    assert.equal(3, clock:now_ms())
  end)
end)

describe("a disk's clock", function()
  it("is the default clock of its logs", function()
    local disk = minikafka.SimDisk()
    assert.equal(disk.clock, disk.clock)
    local log <close> = open(disk)
    assert.equal(disk.clock, log.clock)
    disk.clock:advance_ms(42)
    log:append_kv("k", "v")
    assert.equal(42, log:fetch(0)[1].timestamp_ms)
    local other = minikafka.ManualClock(7)
    local second <close> = minikafka.open("/second", { io = disk, clock = other })
    second:append_kv("k", "v")
    assert.equal(7, second:fetch(0)[1].timestamp_ms)
  end)

  it("is copied with the disk if it is its own, shared if it was given", function()
    local disk = minikafka.SimDisk()
    disk.clock:set_ms(10)
    local clone = disk:clone()
    clone.clock:advance_ms(5)
    assert.equal(10, disk.clock:now_ms())
    assert.equal(15, clone.clock:now_ms())
    for state in clone:crash_states() do
      assert.equal(15, state.clock:now_ms())
    end
    local given = minikafka.ManualClock(1)
    disk = minikafka.SimDisk{ clock = given }
    assert.equal(given, disk.clock)
    assert.equal(given, disk:clone().clock)
    for state in disk:crash_states() do assert.equal(given, state.clock) end
  end)

  it("may be any clock: its errors come out, in a clone, too", function()
    local now, fails = 100, nil
    local clock = function()
      if fails then error(fails) end
      now = now + 1
      return now
    end
    local disk = minikafka.SimDisk{ clock = clock }
    assert.equal(clock, disk.clock)
    local log = open(disk)
    log:append_kv("k", "v")
    assert.equal(now, log:fetch(0)[1].timestamp_ms)
    log:close()
    local clone = disk:clone()
    log = open(clone)
    disk, clone = nil, nil -- luacheck: ignore
    collectgarbage()
    log:append_kv("k", "v")
    assert.equal(now, log:fetch(1)[1].timestamp_ms)
    fails = {}
    local _, raised = pcall(log.append_kv, log, "k", "v")
    assert.equal(fails, raised)
    local out <close> = log:appender{}
    _, raised = pcall(out.append_kv, out, "k", "v")
    assert.equal(fails, raised)
    fails = nil
    assert.equal(2, log.log_end_offset)
  end)
end)

describe("the contents of a disk", function()
  it("are read, written and listed", function()
    local disk = minikafka.SimDisk()
    disk:write("/b/c/d", "one\0two")
    disk:write("/a", "")
    assert.same({ "/a", "/b/c/d" }, disk:list())
    assert.equal("one\0two", disk:read("/b/c/d"))
    assert.equal("", disk:read("/a"))
    disk:write("/a", "more")
    disk:crash{ keep = "lazy" }
    assert.equal("more", disk:read("/a"))
    assert.equal("NOT_FOUND", expect.error("NOT_FOUND", disk.read, disk, "/x").code)
    local raised = expect.error("IO", disk.read, disk, "/b")
    assert.equal("EISDIR", raised.errno)
    assert.equal("/b", raised.path)
    expect.error("IO", disk.write, disk, "/a/b", "")
    expect.argument_error("path", disk.read, disk)
    expect.argument_error("path", disk.read, disk, "a")
    expect.argument_error("path", disk.read, disk, "/a\0b")
    expect.argument_error("bytes", disk.write, disk, "/a", 1)
  end)

  it("are the same where the hash is", function()
    local a, b = minikafka.SimDisk(), minikafka.SimDisk{ seed = 2 }
    assert.equal(a:hash(), b:hash())
    a:write("/x", "1")
    assert.not_equal(a:hash(), b:hash())
    b:write("/x", "1")
    assert.equal(a:hash(), b:hash())
  end)

  it("are damaged at will", function()
    local disk = minikafka.SimDisk()
    disk:write("/a", "\0\0\0\0")
    disk:damage("/a", { flip = 9 })
    assert.equal("\0\2\0\0", disk:read("/a"))
    disk:write("/a", "abcd")
    disk:damage("/a", { zero = { 1, 2 } })
    assert.equal("a\0\0d", disk:read("/a"))
    disk:damage("/a", { cut = 1 })
    assert.equal("a", disk:read("/a"))
    expect.error("NOT_FOUND", disk.damage, disk, "/x", { cut = 0 })
    for _, damage in ipairs{ { flip = 8 }, { flip = -1 }, { cut = 2 },
      { zero = { 0, 2 } }, {}, { cut = 0, flip = 0 }, { kut = 1 } } do
      expect.error("INVALID_ARGUMENT", disk.damage, disk, "/a", damage)
    end
    expect.argument_error("zero", disk.damage, disk, "/a", { zero = 1 })
    expect.argument_error("zero", disk.damage, disk, "/a", { zero = { 0 } })
    expect.argument_error("flip", disk.damage, disk, "/a", { flip = "1" })
    expect.argument_error("damage", disk.damage, disk, "/a")
    assert.equal("a", disk:read("/a"))
  end)

  it("that are damaged below a log are found", function()
    local disk = minikafka.SimDisk()
    local log = open(disk)
    append(log, "some value", "more")
    log:close()
    disk:damage(LOG, { flip = 8 * 65 })
    log = open(disk)
    local _, raised = pcall(log.fetch, log, 0)
    assert.truthy(raised.code:find("^CORRUPT_"))
    assert.equal(LOG, raised.path)
  end)

  it("are told by stats", function()
    local disk = minikafka.SimDisk()
    local log <close> = open(disk)
    append(log, "a", "b")
    log:flush()
    local stats = disk:stats()
    for name in pairs{ steps = 1, bytes_read = 1, bytes_written = 1, faults = 1,
      crashes = 1, used_bytes = 1, files = 1, directories = 1, pending = 1 } do
      assert.equal("integer", math.type(stats[name]), name)
    end
    assert.equal(#disk:list(), stats.files)
    assert.equal(1, stats.operations.fdatasync)
    assert.equal(0, stats.operations.rmdir)
    assert.truthy(stats.operations.write >= 2)
  end)
end)

describe("a trace", function()
  it("is told every operation, in order, before it is done", function()
    local disk = minikafka.SimDisk()
    local log <close> = open(disk)
    local events = {}
    disk:trace(function(event)
      events[#events + 1] = event
      if event.op == "write" and event.path == LOG then
        assert.equal(event.position, #disk:read(LOG))
      end
    end)
    append(log, "a", "b")
    log:flush()
    for i, event in ipairs(events) do
      assert.equal(events[1].step + i - 1, event.step)
      assert.equal("/", event.path:sub(1, 1))
      assert.truthy(#tostring(event) > 5)
    end
    assert.equal(disk:stats().steps, events[#events].step)
    local write = events[1]
    assert.same({ "write", LOG, 0, 70 },
      { write.op, write.path, write.position, write.size })
    assert.is_nil(write.to)
    assert.is_nil(write.errno)
    disk:trace(nil)
    local count = #events
    append(log, "c")
    assert.equal(count, #events)
    expect.argument_error("trace", disk.trace, disk, 1)
  end)

  it("knows where things go, and which will fail", function()
    local disk = minikafka.SimDisk()
    local renames, failing = 0, nil
    disk:trace(function(event)
      if event.op == "rename" then
        renames = renames + 1
        assert.equal("/log/minikafka.state", event.to)
      end
      failing = event.errno or failing
    end)
    local log <close> = open(disk)
    assert.truthy(renames > 0)
    assert.equal("ENOENT", failing)
    disk:fail{ op = "fdatasync", errno = "EROFS", times = 1 }
    append(log, "a")
    pcall(log.flush, log)
    assert.equal("EROFS", failing)
    disk:trace()
    pcall(log.close, log)
  end)

  it("is the same for the same script", function()
    local function run()
      local disk = minikafka.SimDisk{ seed = 3 }
      local lines = trace_of(disk, function()
        local log <close> = open(disk, { segment_bytes = 200 })
        for i = 1, 20 do log:append_kv("k" .. i % 3, "v" .. i) end
        minikafka.LogCompactor():compact(log)
        log:delete_records(5)
      end)
      local log = open(disk)
      disk:crash{ keep = "hostile" }
      log:close()
      return table.concat(lines, "\n"), disk:hash()
    end
    local lines, hash = run()
    assert.truthy(select(2, lines:gsub("\n", "")) > 100)
    local lines_again, hash_again = run()
    assert.equal(lines, lines_again)
    assert.equal(hash, hash_again)
  end)

  it("may raise any value, and the operation is not done", function()
    for _, value in ipairs{ { 1 }, "text", 7, false } do
      local disk = minikafka.SimDisk()
      local log = open(disk)
      append(log, "a")
      disk:trace(function(event)
        if event.op == "write" then error(value, 0) end
      end)
      local before = disk:read(LOG)
      local done, raised = pcall(append, log, "b")
      assert.equal(false, done)
      assert.equal(value, raised)
      assert.equal(before, disk:read(LOG))
      disk:trace(nil)
      assert.equal(1, log.log_end_offset)
      log:close()
      assert.equal("a", values(open(disk)))
    end
  end)

  it("makes a yield an error like any other", function()
    local disk = minikafka.SimDisk()
    local log = open(disk)
    disk:trace(function() coroutine.yield() end)
    coroutine.wrap(function()
      local done, raised = pcall(append, log, "a")
      assert.equal(false, done)
      assert.truthy(tostring(raised):find("yield"))
    end)()
    disk:trace(nil)
    pcall(log.close, log)
  end)

  it("works in coroutines, and for calls within calls", function()
    local disk = minikafka.SimDisk()
    local log <close> = open(disk)
    local other <close> = minikafka.open("/other", { io = disk })
    append(log, "a")
    log:roll()
    local seen = {}
    disk:trace(function(event) seen[event.path:match("^/[%w.]*")] = true end)
    minikafka.LogCompactor{ before_swap = function()
      coroutine.wrap(append)(other, "b")
      assert.truthy(seen["/other"])
    end }:compact(log)
    disk:trace(nil)
    assert.truthy(seen["/log"])
    assert.equal("a", values(log))
    assert.equal("b", values(other))
  end)

  it("may clone, read and enumerate the disk, and not change it", function()
    local disk = minikafka.SimDisk()
    local log <close> = open(disk)
    local clones, count = {}, 0
    disk:trace(function(event)
      if event.path ~= LOG then return end
      clones[#clones + 1] = disk:clone()
      assert.equal(disk:hash(), clones[#clones]:hash())
      for _ in disk:crash_states() do count = count + 1 end
      expect.error("BUSY", disk.write, disk, "/a", "")
      expect.error("BUSY", disk.crash, disk)
      expect.error("BUSY", disk.damage, disk, LOG, { cut = 0 })
      expect.error("BUSY", append, log, "x")
      expect.error("BUSY", log.close, log)
    end)
    append(log, "a", "b")
    disk:trace(nil)
    append(log, "c")
    assert.equal("a b c", values(log))
    assert.equal(2, #clones)
    assert.truthy(count > 4)
    assert.equal("a", values(open(clones[2])))
    assert.equal(0, open(clones[1]).log_end_offset)
  end)

  it("may read the log through a second, read-only handle", function()
    local disk = minikafka.SimDisk()
    local log <close> = open(disk)
    append(log, "a")
    local steps, seen = disk:stats().steps, {}
    disk:trace(function()
      steps = steps + 1
      local reader <close> = open(disk, { read_only = true })
      local now = values(reader)
      if seen[#seen] ~= now then seen[#seen + 1] = now end
    end)
    append(log, "b")
    log:roll()
    append(log, "c")
    minikafka.LogCompactor():compact(log)
    log:truncate_to(2)
    disk:trace(nil)
    assert.same({ "a", "a b", "a b c", "c", "" }, seen)
    assert.equal(steps, disk:stats().steps) -- To read was no step.
  end)

  it("may read the log itself, as it is before the operation", function()
    local disk = minikafka.SimDisk()
    local log = open(disk)
    append(log, "a")
    local steps, count, seen, kept = disk:stats().steps, 0, {}, nil
    disk:trace(function()
      count = count + 1
      local now = values(log)
      if seen[#seen] ~= now then seen[#seen + 1] = now end
      local first, last = log.log_start_offset, log.log_end_offset
      local records, next_offset = log:fetch(first)
      assert.equal(#now, math.max(0, 2 * #records - 1))
      assert.equal(last, next_offset)
      assert.equal(last, log.high_watermark)
      assert.is_false(log:wait(last, 3600000))
      local lowest = records[1] and records[1].offset
      assert.equal(lowest, (log:offset_for_timestamp(0)))
      assert.equal(lowest, (log:offset_of_max_timestamp()))
      assert.equal(#log.segments, #log.closed_segments + 1)
      local size = 0
      for batch in log:batches() do size = size + batch.size_bytes end
      assert.truthy(log.size_bytes >= size)
      assert.same({}, log:verify())
      kept = log:cursor()
      expect.error("BUSY", append, log, "x")
      expect.error("BUSY", log.roll, log)
      expect.error("BUSY", log.flush, log)
      expect.error("BUSY", log.truncate_to, log, 0)
      expect.error("BUSY", log.close, log)
      expect.error("BUSY", minikafka.LogCompactor().compact,
        minikafka.LogCompactor(), log)
    end)
    append(log, "b")
    log:roll()
    append(log, "c")
    minikafka.LogCompactor():compact(log)
    expect.error("CLOSED", kept)
    log:truncate_to(2)
    assert.same({ "a", "a b", "a b c", "c", "" }, seen)
    assert.equal(2, log.log_end_offset)
    count = 0
    log:close()
    assert.truthy(count > 0)
    assert.equal(5, #seen)
    disk:trace(nil)
    assert.truthy(disk:stats().steps > steps)
    expect.error("CLOSED", log.fetch, log, 2)
  end)

  it("is not told what the collector gives back", function()
    local disk = minikafka.SimDisk()
    local told = 0
    disk:trace(function() told = told + 1 end)
    open(disk)
    local before = told
    collectgarbage()
    collectgarbage()
    assert.equal(before, told)
    local log <close> = open(disk)
    assert.truthy(told > before)
    collectgarbage("stop")
    finally(function() collectgarbage("restart") end)
    local garbage = setmetatable({ minikafka.open("/garbage", { io = disk }) },
      { __mode = "v" })
    append(log, "a")
    log:roll()
    minikafka.LogCompactor{ before_swap = function()
      assert.truthy(garbage[1])
      before = told
      collectgarbage()
      collectgarbage()
      assert.is_nil(garbage[1])
      assert.equal(before, told)
    end }:compact(log)
    assert.truthy(told > before)
  end)
end)
