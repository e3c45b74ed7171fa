-- Error objects: what they carry, how they read, and how what a callback raises
-- comes out again.

local minikafka = require "minikafka"
local expect = require "spec.support.expect"
local tmp = require "spec.support.tmp"

-- Something that no one else could have raised.
local function new_error()
  return setmetatable({}, { __tostring = function() return "mine" end })
end

-- `call` raises this very value.
local function raises(value, call, ...)
  local done, raised = pcall(call, ...)
  assert(not done, "nothing was raised")
  assert(rawequal(value, raised) or value ~= value and raised ~= raised,
    tostring(raised))
end

local function fill(log, count)
  for i = 1, count do
    log:append { key = "k" .. i % 3, value = "v" .. i, timestamp_ms = i }
  end
end

-- Three closed segments, and the active one.
local function open(options)
  local log = minikafka.open(tmp.path(), options)
  for _ = 1, 3 do
    fill(log, 3)
    log:roll()
  end
  fill(log, 2)
  return log
end

describe("an error object", function()
  after_each(tmp.clean)

  it("has a code, a message, and what locates the fault", function()
    local log <close> = open()
    local raised = expect.error("OFFSET_OUT_OF_RANGE", log.fetch, log, 99)
    assert.equal(99, raised.requested)
    assert.equal(0, raised.log_start_offset)
    assert.equal(11, raised.log_end_offset)
    raised = expect.error("OFFSET_OUT_OF_RANGE", log.fetch, log, -1)
    assert.equal(-1, raised.requested)
    raised = expect.error("NOT_FOUND", minikafka.open, tmp.path(),
      { create = false })
    assert.equal("string", type(raised.path))
    raised = expect.error("INVALID_TIMESTAMP", log.append, log,
      { {}, { timestamp_ms = -7 } })
    assert.equal(2, raised.record_index)
  end)

  it("has nothing that does not apply", function()
    local log <close> = open()
    local raised = expect.error("INVALID_RECORD", log.append, log, {})
    local names = {}
    for name in pairs(raised) do
      names[#names + 1] = name
    end
    table.sort(names)
    assert.same({ "code", "message" }, names)
  end)

  it("is one sentence as a string", function()
    local log <close> = open()
    local raised = expect.error("INVALID_RECORD", log.append, log, {})
    local sentence = tostring(raised)
    assert.truthy(sentence:find(raised.message, 1, true))
    assert.truthy(sentence:find("INVALID_RECORD", 1, true))
    raised.message, raised.code = nil, nil
    assert.equal("string", type(tostring(raised)))
  end)

  it("tells the line that called, as Lua's own messages do", function()
    local log <close> = open()
    local function fetch() return (log:fetch(99)) end
    local function loop() for _ in log:records(99) do error("no") end end
    for _, call in ipairs { fetch, loop } do
      local raised = expect.error("OFFSET_OUT_OF_RANGE", call)
      local info = debug.getinfo(call, "S")
      assert.equal(info.short_src .. ":" .. info.linedefined, raised.raised_at)
      assert.equal(("%s: %s (OFFSET_OUT_OF_RANGE)"):format(raised.raised_at, raised.message),
        tostring(raised))
    end
    local co = coroutine.create(fetch)
    local _, raised = coroutine.resume(co)
    assert.truthy(raised.raised_at)
  end)

  it("is told from everything else", function()
    local log <close> = open()
    local raised = expect.error("INVALID_RECORD", log.append, log, {})
    assert.is_true(minikafka.is_error(raised))
    assert.is_true(minikafka.is_error(raised, nil))
    assert.is_true(minikafka.is_error(raised, "INVALID_RECORD"))
    assert.is_false(minikafka.is_error(raised, "IO"))
    assert.is_false(minikafka.is_error(raised, ""))
    local fake = { code = "IO", message = "no" }
    for _, other in ipairs { fake, setmetatable({}, { __index = fake }), "IO",
      7, true, print, log } do
      assert.is_false(minikafka.is_error(other))
      assert.is_false(minikafka.is_error(other, "IO"))
    end
    assert.is_false(minikafka.is_error(nil))
    expect.argument_error("is_error", minikafka.is_error)
  end)

  it("B73: shows a name whole, whatever bytes it has", function()
    local log <close> = open()
    local raised = expect.error("INVALID_ARGUMENT", log.fetch, log, 0,
      { ["max\0bytes"] = 1 })
    assert.equal("max_bytes", raised.nearest)
    assert.truthy(raised.message:find("max\0bytes", 1, true))
  end)
end)

describe("an unknown name", function()
  after_each(tmp.clean)

  it("is not told what it cannot mean, but all that there is, if that is little", function()
    local log <close> = open()
    for expected, call in pairs {
      ["unknown option 'clock'"] = function() log:configure { clock = 1 } end,
      ["unknown option 'segment_byte': did you mean 'segment_bytes'?"] =
        function() log:configure { segment_byte = 1 } end,
      ["unknown profile 'x': there are kill9, lazy, prefix, ordered, writeback, hostile"] =
        function() minikafka.SimDisk { profile = "x" } end,
    } do
      local raised = expect.error("INVALID_ARGUMENT", call)
      assert.equal(expected, raised.message)
      assert.equal("string", type(raised.nearest))
    end
  end)

  it("is answered with the nearest known one, everywhere", function()
    local log <close> = open()
    local out <close> = log:appender()
    local manager = minikafka.RetentionManager()
    for _, case in ipairs {
      { "segment_bytes", minikafka.open, tmp.path(), { segment_byte = 1 } },
      { "segment_bytes", minikafka.open, tmp.path(), { ["segment.bytes"] = 1 } },
      { "clock", minikafka.open, tmp.path(), { clokc = 1 } },
      { "retention_ms", log.configure, log, { retention = 1 } },
      { "read_committed", log.fetch, log, 0, { isolation = "committed" } },
      { "end_offset", log.records, log, 0, { endoffset = 1 } },
      { "isolation", log.batches, log, 0, { Isolation = 1 } },
      { "from", log.cursor, log, { form = 1 } },
      { "linger_ms", log.appender, log, { linger = 1 } },
      { "leader_epoch", log.append, log, { {} }, { epoch = 1 } },
      { "none", log.append, log, { {} }, { compression = "non" } },
      { "key", log.append, log, { kee = "k" } },
      { "value", log.append, log, { {}, { val = "k" } } },
      { "timestamp_ms", out.append, out, { timestamp = 1 } },
      { "retention_bytes", manager.apply, manager, log, { retention_byte = 1 } },
      { "before_swap", minikafka.LogCompactor, { before_swp = print } },
      { "full", log.truncate_to, log, 0, { fulll = true } },
      { "tombstones", minikafka.workload, { tombstone = 1 } },
    } do
      local raised = expect.error("INVALID_ARGUMENT", table.unpack(case, 2))
      assert.equal(case[1], raised.nearest)
      assert.truthy(raised.message:find(case[1], 1, true))
    end
    assert.equal(11, log.log_end_offset)
  end)
end)

-- Every place that calls a function of the caller's: an operation that does, on
-- a log that has `callback` for a clock, and how to say what it does instead.
local function with_clock(operation)
  return function(callback)
    local active = false
    local log <close> = open { clock = function()
      if active then
        return callback()
      end
      return 5
    end }
    active = true
    local function restore()
      active = false
    end
    return operation(log, restore)
  end
end

local callbacks = {
  ["a clock at append"] = with_clock(function(log)
    log:append { {} }
  end),
  ["a clock at append_kv"] = with_clock(function(log)
    log:append_kv("k", "v")
  end),
  ["a clock at an appender's append"] = with_clock(function(log)
    local out = log:appender()
    out:append_kv("k", "v")
  end),
  ["a clock of retention's own"] = function(callback)
    local log <close> = open()
    minikafka.RetentionManager(callback):apply(log, { retention_ms = 1 })
  end,
  ["a clock of retention's log"] = with_clock(function(log)
    minikafka.RetentionManager():apply(log, { retention_ms = 1 })
  end),
  ["a clock of compaction's own"] = function(callback)
    local log <close> = open()
    minikafka.LogCompactor { clock = { now_ms = callback } }:compact(log)
  end,
  ["a clock at opening"] = function(callback)
    minikafka.open(tmp.path(), { clock = callback }):close()
  end,
  ["progress of a recovery"] = function(callback)
    local log <close> = open()
    local dir = tmp.copy(log.directory)
    assert(os.remove(dir .. "/minikafka.state"))
    minikafka.open(dir, { progress = callback }):close()
  end,
  ["before_swap"] = function(callback)
    local log <close> = open()
    minikafka.LogCompactor { before_swap = callback }:compact(log)
  end,
}

describe("what a callback raises", function()
  after_each(tmp.clean)

  it("B69: comes out unchanged, whatever it is", function()
    for name, place in pairs(callbacks) do
      for _, value in ipairs { "text", 7, 1.5, 0 / 0, true, false, new_error(),
        print, coroutine.create(print), io.stdout } do
        local called = false
        raises(value, place, function()
          called = true
          error(value, 0)
        end)
        assert.is_true(called, name)
      end
      local done, raised = pcall(place, function() error() end)
      assert.is_false(done, name)
      assert.is_nil(raised)
    end
  end)

  it("B70: is a yield, too", function()
    for name, place in pairs(callbacks) do
      local routine = coroutine.wrap(function()
        return pcall(place, function() coroutine.yield(1) end)
      end)
      local done, raised = routine()
      assert.is_false(done, name)
      assert.truthy(tostring(raised):find("yield", 1, true), name)
    end
  end)

  it("B69: leaves the log as it was, and usable", function()
    local failing = false
    local log <close> = open { clock = function()
      return failing and error("clock", 0) or 5
    end }
    local before = #log:fetch(0)
    local compactor = minikafka.LogCompactor {
      before_swap = function() error("hook", 0) end }
    failing = true
    raises("clock", log.append, log, { { key = "k" } })
    raises("clock", log.append_kv, log, "k", "v")
    raises("clock", minikafka.RetentionManager().apply,
      minikafka.RetentionManager(), log, { retention_ms = 0 })
    failing = false
    raises("hook", compactor.compact, compactor, log)
    assert.equal(before, #log:fetch(0))
    local routine = coroutine.wrap(function()
      local offset = log:append_kv("k", "v")
      minikafka.LogCompactor():compact(log)
      return offset
    end)
    assert.equal(11, routine())
    assert.equal(1, #log.closed_segments)
  end)

  it("is the first, when closing meets another", function()
    local hook = new_error()
    local log = open()
    local compactor = minikafka.LogCompactor { before_swap = function()
      log:close()
      error(hook)
    end }
    raises(hook, compactor.compact, compactor, log)
    expect.error("CLOSED", log.fetch, log, 0)
  end)
end)

describe("leaving a scope", function()
  after_each(tmp.clean)

  -- A process that may write 10 KiB a file, and is not killed for trying more.
  it("raises what closing met, unless an error is on its way", function()
    local text = tmp.child(([[
      local minikafka = require "minikafka"
      local log = minikafka.open(%q, { mapped = false })
      local function leave(value)
        local _, raised = pcall(function()
          local out <close> = log:appender()
          out:append_kv("k", ("v"):rep(15000))
          if value then
            error(value, 0)
          end
        end)
        return minikafka.is_error(raised) and raised.errno or raised
      end
      print(leave("mine"), leave())
    ]]):format(tmp.path()), "trap '' XFSZ; ulimit -f 20; exec")
    assert.equal("mine\tEFBIG\n", text)
  end)
end)

describe("inside a callback", function()
  after_each(tmp.clean)

  it("B83: the log can be read", function()
    local log <close> = open()
    local seen = 0
    minikafka.LogCompactor { before_swap = function()
      assert.equal(11, #log:fetch(0))
      for _ in log:records() do
        seen = seen + 1
      end
      local cursor <close> = log:cursor { from = 5 }
      assert.equal(5, cursor())
      assert.equal(4, #log.segments)
      assert.equal(11, log.log_end_offset)
      assert.equal(0, (log:offset_for_timestamp(0)))
      collectgarbage()
    end }:compact(log)
    assert.equal(11, seen)
  end)

  it("B83: the log can be read, also while it is being closed", function()
    local closing, seen = false, nil
    local log
    log = open { clock = function()
      if closing then
        seen = #log:fetch(0)
        expect.error("BUSY", log.append_kv, log, "k", "v")
        log:close() -- It is on its way.
        debug.getmetatable(log).__gc(log)
        seen = seen + log.log_end_offset
      end
      return 5
    end }
    log:append_kv("k", "v")
    closing = true
    log:close()
    assert.equal(24, seen)
    expect.error("CLOSED", log.fetch, log, 0)
    log:close()
    local again <close> = minikafka.open(log.directory)
    assert.equal(12, #again:fetch(0))
  end)

  it("B83: nothing that changes the log is done", function()
    local log <close> = open()
    local refused = 0
    local function refuse(call, ...)
      expect.error("BUSY", call, ...)
      refused = refused + 1
    end
    local manager = minikafka.RetentionManager()
    local other = minikafka.LogCompactor()
    minikafka.LogCompactor { before_swap = function()
      refuse(log.append, log, { {} })
      refuse(log.append_kv, log, "k", "v")
      refuse(log.roll, log)
      refuse(log.configure, log, { segment_ms = 5 })
      refuse(log.delete_records, log, 1)
      refuse(log.truncate_to, log, 1)
      refuse(log.delete_closed_segments, log, { 0 })
      refuse(manager.apply, manager, log, { retention_ms = 0 })
      refuse(other.compact, other, log)
      local routine = coroutine.wrap(function()
        refuse(log.append_kv, log, "k", "v")
      end)
      routine()
    end }:compact(log)
    assert.equal(10, refused)
    assert.equal(11, log.log_end_offset)
  end)

  it("B83: the log may be closed, which ends the operation", function()
    local log = open()
    expect.error("CLOSED", function()
      minikafka.LogCompactor { before_swap = function()
        log:close()
        expect.error("CLOSED", log.fetch, log, 0)
        collectgarbage()
      end }:compact(log)
    end)
    local again <close> = minikafka.open(log.directory)
    assert.equal(11, #again:fetch(0))
    assert.equal(3, #again.closed_segments)
  end)

  it("B83: the log stays while its last name goes", function()
    local log = open()
    local dir = log.directory
    local compactor = minikafka.LogCompactor { before_swap = function()
      log = nil
      collectgarbage()
      collectgarbage()
    end }
    do
      local result = compactor:compact(log)
      assert.equal(3, #result.source_segments)
    end
    collectgarbage()
    collectgarbage()
    local again <close> = minikafka.open(dir)
    assert.equal(1, #again.closed_segments)
  end)

  it("B77: the coroutine in progress is the one that runs", function()
    local running, traced
    local log
    do
      local routine = coroutine.create(function()
        log = open { clock = { now_ms = function()
          running, traced = coroutine.running(), debug.traceback()
          return 5
        end } }
      end)
      assert(coroutine.resume(routine))
      assert.equal("dead", coroutine.status(routine))
    end
    collectgarbage()
    collectgarbage()
    log:append_kv("k", "v")
    assert.equal(coroutine.running(), running)
    local other = coroutine.create(function()
      log:append { {} }
      minikafka.LogCompactor():compact(log)
    end)
    assert(coroutine.resume(other))
    assert.equal(other, running)
    assert.truthy(traced:find("compact", 1, true))
    log:close()
  end)
end)

describe("a name whose time has not come", function()
  after_each(tmp.clean)

  it("is there, and says that it is not supported", function()
    local log <close> = open()
    for _, name in ipairs { "clean", "plan", "apply", "why", "hold", "release",
      "holders", "transaction", "end_transaction",
      "set_high_watermark", "expire_producers", "assign_epoch",
      "end_offset_for_epoch", "truncate_to_epoch" } do
      local raised = expect.error("UNSUPPORTED", log[name], log)
      assert.truthy(raised.message:find(name, 1, true))
    end
    for name in pairs { LogDir = 1, LogCleaner = 1, simulate = 1,
      report = 1, draw = 1 } do
      expect.error("UNSUPPORTED", minikafka[name])
    end
    for _, name in ipairs { "retention", "compaction", "cleaner", "sequence",
      "prefix", "filter" } do
      expect.error("UNSUPPORTED", minikafka.policy[name])
    end
    assert.equal(11, #log:fetch(0))
  end)

  it("is an option, too", function()
    local log <close> = open()
    for name, value in pairs { producer_id = 1, producer_epoch = 0,
      base_sequence = 0, transactional = true, offsets = "keep",
      compression = "zstd" } do
      expect.error("UNSUPPORTED", log.append, log, { {} }, { [name] = value })
    end
    local committed = { isolation = "read_committed" }
    expect.error("UNSUPPORTED", log.fetch, log, 0, committed)
    expect.error("UNSUPPORTED", log.records, log, 0, committed)
    expect.error("UNSUPPORTED", log.cursor, log, committed)
    expect.error("UNSUPPORTED", log.truncate_to, log, 0, { full = true })
    local zstd = { compression_type = "zstd" }
    expect.error("UNSUPPORTED", log.configure, log, zstd)
    expect.error("UNSUPPORTED", minikafka.open, tmp.path(), zstd)
    log:configure { compression_type = "uncompressed" }
    local uncommitted = { isolation = "read_uncommitted" }
    assert.equal(11, #log:fetch(0, uncommitted))
    log:truncate_to(11, { full = false })
    assert.equal(11, log.log_end_offset)
  end)

  it("is told by features()", function()
    local features = minikafka.features()
    for _, name in ipairs { "gzip", "snappy", "lz4", "zstd" } do
      assert.equal("boolean", type(features[name]))
    end
  end)
end)
