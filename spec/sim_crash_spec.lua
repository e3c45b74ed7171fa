-- Faults and crashes of a SimDisk, and what a log does about them.

local expect = require "spec.support.expect"
local minikafka = require "minikafka"
local random = require "spec.support.random"

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

describe("a fault", function()
  it("checks its options", function()
    local disk = minikafka.SimDisk()
    expect.argument_error("fault", disk.fail, disk)
    expect.argument_error("path", disk.fail, disk, { path = 1 })
    expect.argument_error("after", disk.fail, disk, { after = "1" })
    expect.argument_error("errno", disk.fail, disk, { errno = 5 })
    for name, bad in pairs{ op = "fsynk", flavour = "los", errno = "ENOSPACE",
      after = -1, times = 0, short = -1 } do
      expect.error("INVALID_ARGUMENT", disk.fail, disk, { [name] = bad })
    end
    local raised = expect.error("INVALID_ARGUMENT", disk.fail, disk, { op = "fsynk" })
    assert.equal("fsync", raised.nearest)
    expect.error("INVALID_ARGUMENT", disk.fail, disk, { op = "fsync", short = 1 })
    expect.error("INVALID_ARGUMENT", disk.fail, disk, { op = "read", delayed = true })
    expect.error("INVALID_ARGUMENT", disk.fail, disk, { op = "write", flavour = "lost" })
    raised = expect.error("INVALID_ARGUMENT", disk.fail, disk, { opp = "read" })
    assert.equal("op", raised.nearest)
    assert.equal(0, disk:stats().faults)
  end)

  it("hits what it names, after some and so often", function()
    local disk = minikafka.SimDisk()
    local log <close> = open(disk)
    local second <close> = minikafka.open("/second", { io = disk })
    disk:fail{ op = "write", path = "/log/*.log", after = 2, times = 1, errno = "EDQUOT" }
    append(second, "a", "b", "c", "d")
    append(log, "a", "b")
    local raised = expect.error("IO", append, log, "c")
    assert.equal("EDQUOT", raised.errno)
    assert.equal(LOG, raised.path)
    assert.equal("a b", values(log))
    assert.equal(1, disk:stats().faults)
    log:close()
    local again <close> = open(disk)
    append(again, "c")
    assert.equal("a b c", values(again))
  end)

  it("is EIO if it has no name", function()
    local disk = minikafka.SimDisk()
    disk:fail{ op = "mkdir" }
    assert.equal("EIO", expect.error("IO", open, disk).errno)
  end)

  it("of a sync makes the log refuse, as long as it lasts", function()
    for _, flavour in ipairs{ "lost", "reverted", "retryable" } do
      local disk = minikafka.SimDisk()
      local log = open(disk)
      append(log, "a")
      log:flush()
      append(log, "b")
      disk:fail{ op = "fdatasync", path = "*.log", times = 2, flavour = flavour }
      assert.equal("EIO", expect.error("IO", log.flush, log).errno)
      assert.is_true(log:stats().refusing)
      expect.error("IO", append, log, "c")
      pcall(log.close, log)
      log = open(disk)
      local found = values(log)
      assert.equal(flavour == "reverted" and "a" or "a b", found)
      append(log, "d")
      log:flush()
      assert.equal(found .. " d", values(log))
    end
  end)

  it("of fsync hits whichever call syncs a file", function()
    for _, sync in ipairs{
      function(log) log:flush() end,
      function(log) log:append({ value = "b" }, { durable = true }) end,
      function(log) log:roll() end,
    } do
      local disk = minikafka.SimDisk()
      local log <close> = open(disk)
      append(log, "a")
      disk:fail{ op = "fsync", path = "*.log", times = 1, errno = "EIO" }
      assert.equal("EIO", expect.error("IO", sync, log).errno)
      assert.equal(1, disk:stats().faults)
      append(log, "c")
    end
    local disk = minikafka.SimDisk()
    local log <close> = open(disk)
    disk:fail{ op = "fsync", path = "*.log", after = 2, times = 1, flavour = "retryable" }
    for i = 1, 5 do
      append(log, "a")
      assert.equal(i ~= 3, (pcall(log.flush, log)))
    end
  end)

  it("of a sync loses nothing that a later one was asked for", function()
    for _, flavour in ipairs{ "reverted", "retryable" } do
      local disk = minikafka.SimDisk()
      local log = open(disk)
      append(log, "a")
      disk:fail{ op = "fdatasync", path = "*.log", times = 1, flavour = flavour }
      expect.error("IO", log.flush, log)
      pcall(log.close, log)
      log = open(disk)
      append(log, "b")
      log:flush()
      local found = values(log)
      disk:crash{ keep = "lazy" }
      assert.equal(found, values(open(disk)))
    end
  end)

  it("may cut a write short: what arrived is taken back", function()
    for short = 0, 69, 23 do
      local disk = minikafka.SimDisk()
      local log = open(disk)
      append(log, "a")
      disk:fail{ op = "write", path = "*.log", short = short, times = 1 }
      assert.equal("ENOSPC", expect.error("IO", append, log, "b").errno)
      assert.equal("a", values(log))
      pcall(log.close, log)
      local again <close> = open(disk)
      append(again, "c")
      assert.equal("a c", values(again))
    end
  end)

  it("keeps what is written again where a delayed failure was, once synced", function()
    local disk = minikafka.SimDisk()
    local log = minikafka.open("/log", { io = disk, flush_messages = 1 })
    disk:fail{ op = "write", path = "*.log", delayed = true, times = 1 }
    expect.error("IO", log.append_kv, log, "k", "a")
    log:flush()
    assert.equal(1, log.recovery_point)
    for state in disk:crash_states() do
      assert.equal(1, #minikafka.open("/log", { io = state }):fetch(0))
    end
  end)

  it("may be told by the next sync only", function()
    local disk = minikafka.SimDisk()
    local log = open(disk)
    disk:fail{ op = "write", path = "*.log", delayed = true, times = 1 }
    append(log, "a")
    assert.equal("ENOSPC", expect.error("IO", log.flush, log).errno)
    assert.equal("a", values(log))
    append(log, "b")
    log:close()
    local again <close> = open(disk)
    assert.equal("a b", values(again))
  end)

  it("may be that the disk is full, of bytes or of files", function()
    local disk = minikafka.SimDisk{ capacity_bytes = 4096 }
    local log = open(disk)
    local raised
    for i = 1, 100 do
      local done
      done, raised = pcall(append, log, ("v"):rep(100) .. i)
      if not done then break end
    end
    assert.equal("ENOSPC", raised.errno)
    local count = log.log_end_offset
    assert.truthy(count > 10 and count < 40)
    assert.equal(count, #log:fetch(0))
    pcall(log.close, log)
    local reader <close> = open(disk, { read_only = true })
    assert.equal(count, reader.log_end_offset)

    disk = minikafka.SimDisk{ capacity_files = 1 }
    assert.equal("ENOSPC", expect.error("IO", open, disk).errno)
  end)

  it("is gone in a clone, and after a crash", function()
    local disk = minikafka.SimDisk()
    disk:fail{ op = "mkdir" }
    open(disk:clone()):close()
    expect.error("IO", open, disk)
    disk:crash()
    open(disk):close()
  end)
end)

describe("a crash", function()
  it("kills open handles; closing them is harmless and silent", function()
    local disk = minikafka.SimDisk()
    local log = open(disk)
    append(log, "a")
    local cursor = log:cursor()
    local out = log:appender{}
    out:append_kv("k", "never sent")
    disk:crash{ keep = "kill9" }
    for _, name in ipairs{ "roll", "flush", "refresh", "appender" } do
      expect.error("CRASHED", log[name], log)
    end
    expect.error("CRASHED", append, log, "b")
    expect.error("CRASHED", log.fetch, log, 0)
    expect.error("CRASHED", cursor)
    expect.error("CRASHED", out.flush, out)
    expect.error("CRASHED", function() return log.log_end_offset end)
    assert.truthy(tostring(log):find("crashed"))
    assert.truthy(#tostring(cursor) > 0)
    for _, handle in ipairs{ out, cursor, log } do
      handle:close()
      handle:close()
    end
    do
      local second = open(disk)
      disk:crash{ keep = "kill9" }
      local scope <close> = second -- luacheck: ignore
    end
    assert.equal("a", values(open(disk)))
  end)

  -- The first opening left the name of the file to chance.
  it("before a flush does not spoil that flush", function()
    local disk = minikafka.SimDisk()
    open(disk)
    disk:crash{ keep = "kill9" }
    local log = open(disk)
    append(log, "a")
    log:flush()
    disk:crash{ keep = "lazy" }
    assert.equal("a", values(open(disk)))
  end)

  it("goes on with what survived", function()
    local disk = minikafka.SimDisk{ seed = 9 }
    local log = open(disk)
    append(log, "a")
    log:flush()
    append(log, "b")
    disk:crash{ keep = "lazy" }
    assert.equal("lazy", disk.profile)
    assert.equal(1, disk:stats().crashes)
    log = open(disk)
    assert.equal("a", values(log))
    append(log, "c")
    disk:crash{ keep = "kill9" }
    assert.equal("a c", values(open(disk)))
    expect.argument_error("keep", disk.crash, disk, { keep = 1 })
    expect.argument_error("options", disk.crash, disk, "lazy")
    expect.error("INVALID_ARGUMENT", disk.crash, disk, { keep = "all" })
    expect.error("INVALID_ARGUMENT", disk.crash, disk, { kept = "lazy" })
  end)

  it("is drawn by the seed", function()
    local function survivors(seed)
      local disk = minikafka.SimDisk{ seed = seed }
      local log = open(disk)
      for i = 1, 20 do append(log, ("v"):rep(500) .. i) end
      disk:crash()
      return disk:hash()
    end
    local seen, count = {}, 0
    for seed = 1, 8 do
      local hash = survivors(seed)
      assert.equal(hash, survivors(seed))
      if not seen[hash] then count = count + 1 end
      seen[hash] = true
    end
    assert.truthy(count > 2)
  end)

  it("has states that can be looked at one by one", function()
    local disk = minikafka.SimDisk()
    local log = open(disk)
    append(log, "a")
    log:flush()
    append(log, "b")
    local seen, order, rank = {}, {}, 0
    local ranks = { kill9 = 1, lazy = 2, prefix = 3, ordered = 4, writeback = 5,
      hostile = 6 }
    for state in disk:crash_states{} do
      assert(not seen[state:hash()], "a state twice")
      seen[state:hash()] = true
      order[#order + 1] = state
      assert.truthy(ranks[state.profile] >= rank)
      rank = ranks[state.profile]
      local found <close> = open(state)
      assert.equal("a", values(found):sub(1, 1))
    end
    assert.equal("kill9", order[1].profile)
    assert.truthy(#order > 10)
    assert.equal("a b", values(log))

    local function count(options)
      local n = 0
      for _ in disk:crash_states(options) do n = n + 1 end
      return n
    end
    assert.equal(#order, count())
    assert.equal(3, count{ limit = 3 })
    assert.equal(0, count{ limit = 0 })
    assert.equal(1, count{ profile = "kill9" })
    assert.equal(2, count{ profile = "lazy" })
    assert.truthy(count{ tears = true } > #order)
    expect.argument_error("limit", disk.crash_states, disk, { limit = "1" })
    expect.error("INVALID_ARGUMENT", disk.crash_states, disk, { limit = -1 })
    expect.error("INVALID_ARGUMENT", disk.crash_states, disk, { limitt = 1 })
  end)

  it("has a row of states that a loop closes", function()
    local disk = minikafka.SimDisk()
    append(open(disk), "a")
    local next_state, _, _, row = disk:crash_states()
    assert.truthy(tostring(row):find("0 so far"))
    local done = pcall(function()
      for state in next_state, nil, nil, row do
        assert.equal("kill9", state.profile)
        error("leaves the loop")
      end
    end)
    assert.equal(false, done)
    assert.truthy(tostring(row):find("closed"))
    expect.error("CLOSED", next_state)
    row:close()
    local again, _, _, all = disk:crash_states{ limit = 1 }
    assert.truthy(again())
    assert.is_nil(again())
    assert.is_nil(again())
    local given, complete = all:info()
    assert.equal(1, given)
    assert.equal(false, complete)
  end)

  it("shares nothing with a clone", function()
    local disk = minikafka.SimDisk()
    local log <close> = open(disk)
    append(log, "a")
    local clone = disk:clone()
    assert.equal("kill9", clone.profile)
    append(log, "b")
    local copy = open(clone)
    append(copy, "c")
    assert.equal("a b", values(log))
    assert.equal("a c", values(copy))
    copy:close()
    clone:crash{ keep = "lazy" }
    assert.equal("a b", values(log))
  end)
end)

-- Random operations and crashes, beside a plain list of what was acknowledged.
describe("what a log has acknowledged", function()
  local options = { segment_bytes = 300, index_interval_bytes = 100 }

  -- What was appended by offset, how far it is safe, and what was deleted.
  local function new_world(seed, keep)
    local numbers = random.new(seed)
    local world = { keep = keep, appended = {}, safe = 0, start = 0,
      disk = minikafka.SimDisk{ seed = seed, page_bytes = 512 } }
    world.chance = function(n) return numbers:int(1, n) end
    world.log = open(world.disk, options)
    return world
  end

  -- All that is safe is there, and nothing that was not appended. The rest is
  -- forgotten, as far as it is lost.
  local function check(world)
    local found = {}
    for offset, key, value in world.log:records() do
      local wanted = world.appended[offset]
      if not wanted or wanted[1] ~= key or wanted[2] ~= value then
        error(("offset %d is not what was appended"):format(offset))
      end
      found[offset] = wanted
    end
    for offset in pairs(world.appended) do
      if offset >= world.start and offset < world.safe and not found[offset] then
        error(("offset %d is lost"):format(offset))
      end
    end
    world.appended = found
  end

  local steps = {
    append = function(world)
      local key, value = "k" .. world.chance(5), ("v"):rep(world.chance(50))
      local offset = world.log:append_kv(key, value)
      if world.appended[offset] then error("an offset is given twice") end
      world.appended[offset] = { key, value }
      if world.keep == "kill9" then world.safe = offset + 1 end
    end,
    flush = function(world)
      world.log:flush()
      world.safe = world.log.log_end_offset
    end,
    roll = function(world)
      world.log:roll()
    end,
    delete = function(world)
      local before = world.log.log_start_offset + world.chance(3)
      world.start = math.max(world.start, math.min(before, world.safe))
      if world.start > world.log.log_start_offset then
        world.log:delete_records(world.start)
      end
    end,
    crash = function(world)
      world.disk:crash{ keep = world.keep }
      if world.chance(2) == 1 then world.log:close() end
      world.log = open(world.disk, options)
      check(world)
    end,
  }
  local kinds = { "append", "append", "append", "append", "append", "flush",
    "roll", "delete", "crash", "crash" }

  local function run(seed, keep)
    local world = new_world(seed, keep)
    for _ = 1, 60 do steps[kinds[world.chance(#kinds)]](world) end
    check(world)
  end

  for _, keep in ipairs{ "kill9", "lazy", "prefix", "ordered", "writeback", "hostile" } do
    it("survives crashes that keep " .. keep, function()
      for seed = 1, 40 do
        local done, raised = pcall(run, seed, keep)
        if not done then error(("seed %d: %s"):format(seed, tostring(raised))) end
      end
    end)
  end

  it("never leaves a hole: what was only appended loses its end", function()
    local result = minikafka.explore{ profile = "hostile", fsync_links = false,
      run = function(disk)
        local log = minikafka.open("/log", { io = disk })
        for i = 0, 2 do
          log:append_kv("key", "value " .. i)
          log:roll()
        end
      end,
      check = function(disk)
        local log <close> = minikafka.open("/log", { io = disk })
        local count = 0
        for offset, _, value in log:records() do
          assert(offset == count and value == "value " .. count)
          count = count + 1
        end
        assert(log.log_end_offset == count)
      end }
    assert.truthy(result.distinct > 50)
  end)

  it("never leaves a truncation half done", function()
    for _, target in ipairs{ 0, 1, 2, 3, 5 } do
      local result = minikafka.explore{ profile = "hostile",
        nested = target == 1 and 1 or 0, limit = target == 1 and 20 or nil,
        setup = function(disk)
          local log <close> = minikafka.open("/log", { io = disk })
          for i = 0, 5 do
            log:append_kv("key", "value " .. i)
            if i % 2 == 1 then log:roll() end
          end
        end,
        run = function(disk)
          local log = minikafka.open("/log", { io = disk })
          log:truncate_to(target)
        end,
        check = function(disk)
          local log <close> = minikafka.open("/log", { io = disk })
          local count = 0
          for offset in log:records() do
            assert(offset == count)
            count = count + 1
          end
          assert(log.log_end_offset == count)
          assert(count == 6 or count == target)
        end }
      assert.truthy(result.distinct > 10)
    end
  end)
end)
