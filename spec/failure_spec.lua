-- Disks that fail while a log is open: it refuses changes, says why, and heals.

local minikafka = require "minikafka"
local tmp = require "spec.support.tmp"
local expect = require "spec.support.expect"

local DIRECTORY = "/logs/t-0"

local function open(disk, options)
  options = options or {}
  options.io = disk
  return minikafka.open(DIRECTORY, options)
end

-- The values in a log, with its end: "a b |2".
local function values(log)
  local list = {}
  for _, _, value in log:records() do
    list[#list + 1] = value
  end
  return table.concat(list, " ") .. " |" .. log.log_end_offset
end

-- Everything that would change a log.
local function changes(log)
  return {
    append = function() log:append_kv("k", "v", 1) end,
    durable = function()
      log:append({ value = "v" }, { durable = true })
    end,
    appender = function()
      local out = log:appender{}
      out:append_kv("k", "v", 1)
      out:flush()
    end,
    roll = function() log:roll() end,
    flush = function() log:flush() end,
    configure = function() log:configure{ segment_ms = 1000 } end,
    delete_records = function() log:delete_records(1) end,
    truncate_to = function() log:truncate_to(1) end,
    delete = function() log:delete_closed_segments{} end,
    retain = function()
      minikafka.RetentionManager():apply(log, { retention_ms = 1 })
    end,
    compact = function() minikafka.LogCompactor():compact(log) end,
  }
end

describe("a log that met a failed sync", function()
  it("refuses all changes, says why, and can be read", function()
    for name in pairs(changes()) do
      local disk = minikafka.SimDisk()
      local log = open(disk)
      log:append_kv("k", "a", 1)
      log:append_kv("k", "b", 1)
      disk:fail{ op = "fdatasync", path = "*.log" }
      expect.error("IO", log.flush, log)
      local raised = expect.error("IO", changes(log)[name])
      assert.equal("EIO", raised.errno, name)
      assert.truthy(raised.message:find("refuses changes", 1, true), name)
      assert.truthy(raised.path:find("%.log$"), name)
      assert.is_true(log:stats().refusing)
      assert.truthy(tostring(log):find("refuses changes", 1, true), name)
      assert.equal("a b |2", values(log))
      assert.equal(0, log.recovery_point)
    end
  end)

  -- The record is there, and no call has told of it.
  it("refuses after an append that could not be synced, for any reason",
    function()
      for _, op in ipairs{ "stat", "fdatasync" } do
        for _, options in ipairs{ {}, { flush_messages = 1 } } do
          local disk = minikafka.SimDisk()
          local log = open(disk, options)
          disk:fail{ op = op, errno = "EIO" }
          expect.error("IO", log.append, log, { value = "a" },
            { durable = not options.flush_messages })
          assert.is_true(log:stats().refusing, op)
          expect.error("IO", log.append, log, { value = "b" })
          assert.equal("a |1", values(log))
        end
      end
    end)

  it("heals at any change once the disk is well", function()
    for name in pairs(changes()) do
      local disk = minikafka.SimDisk()
      local log = open(disk)
      log:append_kv("k", "a", 1)
      log:append_kv("k", "b", 1)
      disk:fail{ op = "fdatasync", path = "*.log", times = 1 }
      expect.error("IO", log.flush, log)
      changes(log)[name]()
      assert.is_false(log:stats().refusing)
      assert.equal(1, log:stats().heals)
      log:flush()
      local found = values(log)
      disk:crash{ keep = "lazy" }
      assert.equal(found, values(open(disk)), name)
    end
  end)

  it("leaves alone what was synced when its segment was sealed", function()
    local disk = minikafka.SimDisk()
    local log = open(disk)
    for _, value in ipairs{ "a", "b", "c" } do
      log:append_kv("k", value, 1)
      if value ~= "c" then log:roll() end
    end
    disk:fail{ op = "fsync", path = "*2.log", times = 1 }
    expect.error("IO", log.flush, log)
    local written, synced = {}, {}
    disk:trace(function(event)
      if event.path:find("%.log$") then
        if event.op == "write" then written[event.path] = true end
        if event.op == "fdatasync" then synced[event.path] = true end
      end
    end)
    log:flush()
    disk:trace(nil)
    -- What was written again was synced, too.
    assert.truthy(next(written))
    assert.same(written, synced)
    assert.equal(3, log.recovery_point)
    for state in disk:crash_states{ tears = true } do
      assert.equal("a b c |3", values(open(state)))
    end
  end)

  it("does not miss what was deleted before", function()
    local disk = minikafka.SimDisk()
    local log = open(disk)
    log:append_kv("k", "a", 1)
    log:append_kv("k", "b", 1)
    log:delete_records(2)
    log:append_kv("k", "c", 1)
    disk:fail{ op = "fsync", path = "*.log", times = 1, flavour = "reverted" }
    expect.error("IO", log.flush, log)
    -- Deleted records and the one that was not flushed are gone from the file.
    assert.equal(2, expect.error("IO", log.flush, log).offset)
    assert.equal(1, log:stats().lost_offsets)
    log:append_kv("k", "d", 1)
    log:flush()
    assert.equal("d |4", values(log))
    log:close()
    local again <close> = open(disk)
    assert.equal("d |4", values(again))
  end)

  it("does not take the gap that a truncation left for a loss", function()
    local disk = minikafka.SimDisk()
    local log = open(disk)
    log:append_kv("k", "a", 1)
    log:append{ { value = "b" }, { value = "c" }, { value = "d" } }
    log:truncate_to(3)
    log:flush()
    assert.equal(3, log.recovery_point)
    log:append_kv("k", "e", 1)
    disk:fail{ op = "fsync", path = "*.log", times = 1, flavour = "reverted" }
    expect.error("IO", log.flush, log)
    assert.equal(3, expect.error("IO", log.flush, log).offset)
    assert.equal(1, log:stats().lost_offsets)
    log:append_kv("k", "f", 1)
    assert.equal("a f |5", values(log))
    log:close()
    local again <close> = open(disk)
    assert.equal("a f |5", values(again))
  end)

  it("does not go on as if a truncation had not begun that the state tells", function()
    local disk = minikafka.SimDisk()
    local log = open(disk)
    for _, value in ipairs{ "a", "b", "c" } do log:append_kv("k", value, 1) end
    log:flush()
    disk:fail{ op = "fsync_dir", times = 1, errno = "ENOSPC" }
    disk:fail{ op = "fdatasync", path = "minikafka.state.tmp", after = 1, times = 1,
      errno = "ENOSPC" }
    expect.error("IO", log.truncate_to, log, 2)
    assert.is_true(log:stats().refusing)
    log:append_kv("k", "d", 1)
    assert.equal("a b d |3", values(log))
    -- The process dies.
    assert.equal("a b d |3", values(open(disk:clone())))
  end)

  it("ends a truncation where it was to end, whatever is lost before it", function()
    for _, flavour in ipairs{ "lost", "reverted", "retryable" } do
      local disk = minikafka.SimDisk()
      local log = open(disk)
      log:append_kv("k", "a", 1)
      log:flush()
      log:append_kv("k", "b", 1)
      log:append{ { value = "c" }, { value = "d" }, { value = "e" } }
      disk:fail{ op = "fdatasync", path = "*.log", times = 1, flavour = flavour }
      expect.error("IO", log.truncate_to, log, 4)
      local _, raised = pcall(log.flush, log)
      if flavour == "reverted" then
        assert.equal(1, expect.error("IO", error, raised).offset)
        assert(tostring(raised):find("from offset 1 up to 1,", 1, true), raised)
        assert.equal(1, log:stats().lost_offsets)
      end
      local wanted = flavour == "reverted" and "a |4" or "a b |4"
      assert.equal(wanted, values(log))
      log:close()
      local again <close> = open(disk)
      assert.equal(wanted, values(again))
    end
  end)

  it("reads over what a truncation lost, though healing took several attempts", function()
    for after = 0, 1 do
      local disk = minikafka.SimDisk()
      local log = open(disk)
      log:append_kv("k", "a", 1)
      log:append_kv("k", "b", 1)
      disk:fail{ op = "fdatasync", path = "*.log", times = 1, flavour = "reverted" }
      expect.error("IO", log.truncate_to, log, 1)
      disk:fail{ op = "fdatasync", path = "*.log", after = after, times = 1, errno = "ENOSPC" }
      for _ = 1, 9 do pcall(log.flush, log) end
      assert.is_false(log:stats().refusing)
      log:append_kv("k", "c", 1)
      assert.equal("c |2", values(log))
      log:close()
      local again <close> = open(disk)
      assert.equal("c |2", values(again))
    end
  end)

  it("shows nothing that was deleted while a truncation below it is not made", function()
    for _, what in ipairs{ "truncate", "unlink", "fdatasync" } do
      local disk = minikafka.SimDisk()
      local log = open(disk)
      for _, value in ipairs{ "a", "b", "c" } do log:append_kv("k", value, 1) end
      log:delete_records(2)
      log:roll()
      log:append_kv("k", "d", 1)
      disk:fail{ op = what, path = "*.log", times = 1 }
      expect.error("IO", log.truncate_to, log, 1)
      assert.equal(2, log.log_start_offset)
      for offset in log:records() do assert(offset >= 2, offset) end
      log:flush()
      assert.equal(" |1", values(log))
      assert.equal(1, log:append_kv("k", "e", 1))
      log:close()
      local again <close> = open(disk)
      assert.equal("e |2", values(again))
    end
  end)

  it("B38: is not believed when a second sync says yes", function()
    for _, flavour in ipairs{ "lost", "reverted", "retryable" } do
      local disk = minikafka.SimDisk()
      local log = open(disk)
      log:append_kv("k", "a", 1)
      log:flush()
      log:append_kv("k", "b", 1)
      disk:fail{ op = "fdatasync", path = "*.log", times = 1,
        flavour = flavour }
      expect.error("IO", log.flush, log)
      assert.equal(1, log.recovery_point)
      local done, raised = pcall(log.flush, log)
      if flavour == "reverted" then
        assert.truthy(minikafka.is_error(raised, "IO"))
        assert.equal(1, raised.offset)
        assert.equal(1, log:stats().lost_offsets)
      else
        assert.is_true(done)
      end
      local found = flavour == "reverted" and "a |2" or "a b |2"
      assert.equal(found, values(log))
      log:close()
      for state in disk:crash_states() do
        assert.equal(found, values(open(state)), flavour)
      end
    end
  end)
end)

describe("a full disk", function()
  it("takes no append, and every removal", function()
    local disk = minikafka.SimDisk{ capacity_bytes = 50000 }
    local log <close> = open(disk, { segment_bytes = 5000 })
    local raised
    repeat
      local done
      done, raised = pcall(log.append_kv, log, "k", ("v"):rep(500), 1)
    until not done
    assert.equal("ENOSPC", raised.errno)
    local last = log.log_end_offset
    disk:write("/ballast", ("b"):rep(50000 - disk:stats().used_bytes))
    assert.equal(last, #log:fetch(0))
    log:flush()
    assert.equal(last, log.recovery_point)
    log:delete_records(20)
    assert.equal(20, log.log_start_offset)
    assert.equal(last, log:append_kv("k", "w", 1))
    assert.equal(last + 1 - 20, #log:fetch(20))
  end)

  it("keeps no log from being opened", function()
    local disk = minikafka.SimDisk{ capacity_bytes = 30000 }
    local log = open(disk, { segment_bytes = 5000 })
    while pcall(log.append_kv, log, "k", ("v"):rep(500), 1) do end
    disk:write("/ballast", ("b"):rep(30000 - disk:stats().used_bytes))
    local found = values(log)
    disk:crash{ keep = "kill9" }
    log = open(disk)
    assert.equal(found, values(log))
    log:close()
    log = open(disk)
    assert.equal(found, values(log))
    disk:write("/ballast", "")
    assert.equal(found, values(log))
    log:append_kv("k", "w", 1)
  end)

  it("lets a log go on that would preallocate", function()
    local disk = minikafka.SimDisk{ capacity_bytes = 30000 }
    local options = { segment_bytes = 20000, preallocate = true }
    local log = open(disk, { segment_bytes = 5000, preallocate = true })
    for _ = 1, 20 do log:append_kv("k", ("v"):rep(500), 1) end
    log:configure(options)
    disk:write("/ballast", ("b"):rep(30000 - disk:stats().used_bytes))
    log:truncate_to(0)
    assert.equal(0, log.log_end_offset)
    assert.equal(0, log:append_kv("k", "v", 1))
    disk:crash{ keep = "kill9" }
    log = open(disk, options)
    assert.equal(1, log.log_end_offset)
    log:roll()
    assert.equal(1, log:append_kv("k", "w", 1))
    log:close()
  end)
end)

describe("a directory that changes under a log", function()
  after_each(tmp.clean)

  local function begin()
    local log = minikafka.open(tmp.path())
    log:append_kv("k", "a", 1)
    log:flush()
    log:append_kv("k", "b", 1)
    return log
  end

  it("may be moved away, and back", function()
    for _, call in ipairs{ "flush", "roll" } do
      local log <close> = begin()
      local away = tmp.path()
      assert(os.rename(log.directory, away))
      assert.equal("ESTALE", expect.error("IO", log[call], log).errno)
      expect.error("IO", log.append_kv, log, "k", "c", 1)
      expect.error("IO", log.delete_records, log, 1)
      assert.equal(nil, tmp.read(log.directory .. "/minikafka.state"))
      assert(os.rename(away, log.directory))
      log:append_kv("k", "c", 1)
      log:flush()
      assert.equal("a b c |3", values(log))
    end
  end)

  it("is not taken for another one of the same name", function()
    local log = begin()
    assert(os.rename(log.directory, tmp.path()))
    local other = minikafka.open(log.directory)
    other:append_kv("k", "x", 1)
    other:close()
    local before = tmp.fingerprint(log.directory)
    assert.equal("ESTALE", expect.error("IO", log.flush, log).errno)
    expect.error("IO", log.append_kv, log, "k", "c", 1)
    expect.error("IO", log.roll, log)
    pcall(log.close, log)
    assert.equal(before, tmp.fingerprint(log.directory))
  end)

  it("may lose the active segment: that is told", function()
    local log = begin()
    assert(os.remove(log.active_segment.path))
    assert.equal("ESTALE", expect.error("IO", log.flush, log).errno)
    assert.equal("CORRUPT_SEGMENT",
      select(2, pcall(log.append_kv, log, "k", "c", 1)).code)
    assert.is_true(log:stats().refusing)
    assert.equal("a b |2", values(log))
    pcall(log.close, log)
  end)
end)

describe("a removal that failed", function()
  it("is not done by a later loss of power, once the log was opened", function()
    local disk = minikafka.SimDisk()
    local log = open(disk)
    log:append_kv("k", "a", 1)
    log:roll()
    log:append_kv("k", "b", 1)
    log:flush()
    disk:fail{ op = "fsync_dir", times = 2 }
    expect.error("IO", log.delete_records, log, 1)
    assert.is_true(log:stats().refusing)
    disk:crash{ keep = "kill9" }
    assert.equal("a b |2", values(open(disk)))
    for state in disk:crash_states() do
      assert.equal("a b |2", values(open(state)))
    end
  end)

  it("gives no deleted records back where one of their files stayed", function()
    local disk = minikafka.SimDisk()
    local log = open(disk)
    for _, value in ipairs{ "a", "b" } do
      log:append{ { value = value }, { value = value } }
      log:roll()
    end
    log:append_kv("k", "c", 1)
    disk:fail{ op = "unlink", path = "*2.log", times = 1 }
    expect.error("IO", log.delete_records, log, 4)
    log:truncate_to(1)
    log:append_kv("k", "d", 1)
    assert.equal("d |2", values(open(disk:clone())))
    log:roll()
    log:append_kv("k", "e", 1)
    assert.equal("d e |3", values(log))
    -- Nor is the truncation done while the file can't be removed.
    log:roll()
    log:append_kv("k", "f", 1)
    disk:fail{ op = "unlink", path = "*2.log", times = 2 }
    expect.error("IO", log.delete_records, log, 3)
    expect.error("IO", log.truncate_to, log, 1)
    assert.equal("f |4", values(log))
    log:truncate_to(1)
    assert.equal(" |1", values(log))
  end)
end)

describe("a swap that was put back", function()
  -- Two syncs of the parent directory fail: of the swap, and of its way back.
  local function swap_and_back(exchange)
    local disk = minikafka.SimDisk{ exchange = exchange }
    local log = open(disk)
    for _, value in ipairs{ "a", "b" } do
      log:append_kv("k", value, 1)
      log:roll()
    end
    disk:fail{ op = "fsync_dir", path = "/logs", times = 2 }
    expect.error("IO", changes(log).compact)
    return disk, log
  end

  it("takes nothing with it that was flushed later", function()
    for _, exchange in ipairs{ true, false } do
      for _, act in ipairs{ "roll", "delete_records", "truncate_to" } do
        local disk, log = swap_and_back(exchange)
        changes(log)[act]()
        log:append({ value = "c" }, { durable = true })
        local wanted = values(log) .. log.log_start_offset
        for state in disk:crash_states() do
          local found = open(state)
          assert.equal(wanted, values(found) .. found.log_start_offset, act)
        end
      end
    end
  end)
end)

describe("a swap that could be neither ended nor undone", function()
  it("keeps no reader from what was there before", function()
    -- The renames of a swap that fail: without an exchange the second and the
    -- way back; or the sync of the names, and the first or second step back.
    for _, case in ipairs{ { false, "rename", 1, 2 }, { false, "sync", 2, 1 },
      { false, "sync", 3, 1 }, { true, "sync", 1, 1 } } do
      local exchange, what, after, times = table.unpack(case)
      local disk = minikafka.SimDisk{ exchange = exchange }
      local options = { max_open_files = 1, mapped = false }
      local log = open(disk, options)
      for i = 0, 9 do
        log:append_kv("k" .. i % 2, "v" .. i, 1)
        if i % 3 == 2 then log:roll() end
      end
      local before = values(log)
      disk:fail{ op = exchange and "exchange" or "rename", path = "/logs/*0", after = after,
        times = times }
      if what == "sync" then disk:fail{ op = "fsync_dir", path = "/logs", times = 1 } end
      expect.error("IO", changes(log).compact)
      assert.is_true(log:stats().refusing)
      for attempt = 1, 2 do
        assert.equal(before, values(log))
        assert.equal(0, log:offset_for_timestamp(1))
        local path = "/logs/copy-" .. attempt
        if pcall(log.copy_to, log, path) then
          assert.equal(2, attempt)
          assert.equal(before, values(minikafka.open(path, { io = disk })))
        end
        -- The first attempt to heal fails half-way.
        disk:fail{ op = "stat", path = "/logs/log-start-offset-checkpoint", times = 1 }
        expect.error("IO", log.flush, log)
      end
      log:flush()
      local found = values(log)
      assert(found == before or found == "v8 v9 |10", found)
      log:append_kv("k", "w", 1)
      log:close()
      local again <close> = open(disk)
      assert.equal((found:gsub(" |10", " w |11")), values(again))
    end
  end)
end)

describe("a state that is stored without a sync", function()
  it("gives nothing back of what an earlier death left", function()
    local disk = minikafka.SimDisk()
    local log = open(disk)
    log:append_kv("k", "a", 1)
    -- The truncation dies once the state that tells of it is on its way.
    local left
    disk:trace(function(event)
      if event.op == "rename" and not left then left = disk:clone() end
    end)
    log:truncate_to(0)
    local cut = left:read(DIRECTORY .. "/minikafka.state.tmp")
    local fresh = minikafka.SimDisk()
    fresh:write(DIRECTORY .. "/minikafka.state.tmp", cut)
    log = open(fresh)
    log:append({ value = "b" }, { durable = true })
    for state in fresh:crash_states() do
      assert.equal("b |1", values(open(state)))
    end
  end)
end)

describe("a roll that failed", function()
  it("leaves no segment that comes back when the power fails", function()
    for start = 0, 1 do
      local disk = minikafka.SimDisk()
      local options = { segment_bytes = 200, preallocate = true }
      local log = open(disk, options)
      log:append({ value = "a" }, { durable = true })
      log:delete_records(start)
      disk:fail{ op = "allocate", times = 1 }
      expect.error("IO", log.roll, log)
      log:append_kv("k", "b", 1)
      if start == 1 then log:roll() end
      for state in disk:crash_states() do
        local found = open(state, options)
        assert.equal(start, found.log_start_offset)
        if start == 1 then assert.equal("b |2", values(found)) end
      end
    end
  end)
end)

describe("an opening after a failed sync", function()
  -- What was flushed, "a" and "b", and one more record, whose sync failed.
  local function die_unhealed()
    local disk = minikafka.SimDisk()
    local log = open(disk)
    log:append_kv("k", "a", 1)
    log:roll()
    log:append_kv("k", "b", 1)
    log:flush()
    log:append_kv("k", "c", 1)
    disk:fail{ op = "fsync", path = "*.log", flavour = "lost", times = 1 }
    expect.error("IO", log.flush, log)
    disk:crash{ keep = "kill9" }
    return disk
  end

  it("tears nothing that was flushed, wherever it ends", function()
    local disk = die_unhealed()
    local seen = 0
    disk:trace(function(event)
      if not event.op:find("sync") then return end
      for state in disk:clone():crash_states{ tears = true, limit = 60 } do
        local found = values(open(state))
        assert(found == "a b |2" or found == "a b c |3", found)
        seen = seen + 1
      end
    end)
    assert.equal("a b c |3", values(open(disk)))
    assert(seen > 100)
  end)

  it("gives a log that refuses changes, if its sync fails, too", function()
    for after = 0, 1 do
      local disk = die_unhealed()
      disk:fail{ op = "fsync", path = "*.log*", after = after, times = 1 }
      local log = open(disk)
      assert.is_true(log:stats().refusing)
      assert.equal("a b c |3", values(log))
      log:flush()
      disk:crash{ keep = "lazy" }
      assert.equal("a b c |3", values(open(disk)))
    end
  end)
end)
