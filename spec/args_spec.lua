-- Arguments: an integer is an integer, a string is a string, and a wrong one is
-- an argument error that names it.

local minikafka = require "minikafka"
local expect = require "spec.support.expect"
local tmp = require "spec.support.tmp"

local EXACT = 2 ^ 53

-- Every place that takes an integer: what names it, a call with it, and
-- whether a table of options may stand there instead.
local places = {
  { "offset", function(log, n) log:fetch(n) end },
  { "max_records", function(log, n) log:fetch(0, n) end, true },
  { "max_bytes", function(log, n) log:fetch(0, { max_bytes = n }) end },
  { "end_offset", function(log, n) log:fetch(0, { end_offset = n }) end },
  { "from", function(log, n) log:records(n) end, true },
  { "end_offset", function(log, n) log:records(0, { end_offset = n }) end },
  { "from", function(log, n) log:batches(n) end, true },
  { "from", function(log, n) log:cursor { from = n }:close() end },
  { "offset", function(log, n)
    local cursor <close> = log:cursor()
    cursor:seek(n)
  end },
  { "t", function(log, n)
    local cursor <close> = log:cursor()
    cursor:seek_time(n)
  end },
  { "offset", function(log, n) log:wait(n, 0) end },
  { "timeout_ms", function(log, n) log:wait(0, n) end },
  { "t", function(log, n) log:offset_for_timestamp(n) end },
  { "before_offset", function(log, n) log:delete_records(n) end },
  { "offset", function(log, n) log:truncate_to(n) end },
  { "base_offsets", function(log, n) log:delete_closed_segments { n } end },
  { "timestamp_ms", function(log, n) log:append { timestamp_ms = n } end },
  { "timestamp_ms", function(log, n) log:append_kv("k", "v", n) end },
  { "leader_epoch", function(log, n)
    log:append({ {} }, { leader_epoch = n })
  end },
  { "segment_bytes", function(log, n) log:configure { segment_bytes = n } end },
  { "batch_bytes", function(log, n)
    log:appender { batch_bytes = n }:close()
  end },
  { "linger_ms", function(log, n) log:appender { linger_ms = n }:close() end },
  { "retention_ms", function(log, n)
    minikafka.RetentionManager():apply(log, { retention_ms = n })
  end },
  { "retention_bytes", function(log, n)
    minikafka.RetentionManager():apply(log, { retention_bytes = n })
  end },
  { "delete_retention_ms", function(_, n)
    minikafka.LogCompactor { delete_retention_ms = n }
  end },
  { "start_ms", function(_, n) minikafka.ManualClock(n) end },
  { "n", function(_, n) minikafka.ManualClock():advance_ms(n) end },
  { "t", function(_, n) minikafka.ManualClock():set_ms(n) end },
  { "max_open_files", function(_, n)
    minikafka.open(tmp.path(), { max_open_files = n }):close()
  end },
}

-- No integers, whatever they look like. Nil is not among them: it may mean that
-- the argument was left out.
local wrongs = { 1.5, -0.5, 0 / 0, 1 / 0, -1 / 0, EXACT, -EXACT, 1e300, "7",
  "0x10", " 7 ", "7.0", "", true, false, {}, print, io.stdout,
  coroutine.create(print) }

-- Integers, some of them out of any range.
local integers = { 0, 0.0, -0.0, 1, 1.0, -1, -1.0, 1 << 31, 1 << 32,
  math.maxinteger, math.mininteger, math.mininteger + 1, EXACT - 1 }

-- What an integer may be refused with.
local range_codes = { INVALID_ARGUMENT = true, OFFSET_OUT_OF_RANGE = true,
  INVALID_TIMESTAMP = true }

-- A log with a few records, and one closed segment.
local function open()
  local log = minikafka.open(tmp.path(), { clock = minikafka.ManualClock(5) })
  log:append { { key = "a", value = "1" }, { key = "b", value = "2" } }
  log:roll()
  log:append { key = "c", value = "3" }
  return log
end

describe("an argument that is an integer", function()
  after_each(tmp.clean)

  it("B71: may be nothing else, and the error names it", function()
    local log <close> = open()
    for _, place in ipairs(places) do
      for _, wrong in ipairs(wrongs) do
        if not (type(wrong) == "table" and place[3]) then
          expect.argument_error(place[1], place[2], log, wrong)
        end
      end
    end
    assert.equal(3, #log:fetch(0))
  end)

  it("B71: may be a float without a fraction", function()
    for _, place in ipairs(places) do
      local function outcome(n)
        local log <close> = open()
        local done, raised = pcall(place[2], log, n)
        return done or raised.code
      end
      assert.equal(outcome(0), outcome(-0.0), place[1])
      assert.equal(outcome(2), outcome(2.0), place[1])
    end
  end)

  it("B71: is taken, or refused for its range", function()
    for _, place in ipairs(places) do
      local log <close> = open()
      for _, n in ipairs(integers) do
        local done, raised = pcall(place[2], log, n)
        assert(done or minikafka.is_error(raised) and range_codes[raised.code],
          ("%s = %s: %s"):format(place[1], n, tostring(raised)))
      end
    end
  end)
end)

-- Is every number in a value, and in what it is made of, an integer?
local function check_integers(value, what)
  if type(value) == "number" then
    assert(math.type(value) == "integer", what)
  elseif type(value) == "table" then
    for name, part in pairs(value) do
      check_integers(name, what)
      check_integers(part, what .. "." .. tostring(name))
    end
  end
end

describe("what comes back", function()
  after_each(tmp.clean)

  it("B71: has integers only, whatever went in", function()
    local clock = minikafka.ManualClock(5.0)
    local log <close> = minikafka.open(tmp.path(), { clock = clock,
      segment_bytes = 1e6, min_cleanable_dirty_ratio = 0 })
    check_integers({ log:append { { timestamp_ms = 7.0 }, {} } }, "append")
    check_integers(log:append_kv("k", "v", 8.0), "append_kv")
    check_integers({ log:fetch(0.0, 2.0) }, "fetch")
    check_integers({ log:fetch(3.0) }, "fetch")
    check_integers({ log:offset_for_timestamp(7.0) }, "offset_for_timestamp")
    check_integers({ log:offset_of_max_timestamp() }, "of_max_timestamp")
    for offset, _, _, timestamp_ms in log:records(1.0, { end_offset = 3.0 }) do
      check_integers({ offset, timestamp_ms }, "records")
    end
    for batch in log:batches(1.0) do
      check_integers(batch, "batches")
    end
    local cursor <close> = log:cursor { from = 2.0 }
    check_integers(cursor.next_offset, "next_offset")
    clock:advance_ms(3.0)
    check_integers(clock:now_ms(), "now_ms")
    check_integers(minikafka.SystemClock():now_ms(), "now_ms")
    log:roll()
    check_integers(log.segments, "segments")
    check_integers(log:stats(), "stats")
    for _, field in ipairs { "log_start_offset", "log_end_offset", "size_bytes",
      "last_stable_offset", "high_watermark", "recovery_point" } do
      assert.equal("integer", math.type(log[field]), field)
    end
    local config = log.config
    config.min_cleanable_dirty_ratio = nil
    check_integers(config, "config")
    local raised = expect.error("OFFSET_OUT_OF_RANGE", log.fetch, log, 99.0)
    check_integers(raised, "error")
    check_integers(minikafka.LogCompactor(clock):compact(log), "result")
    check_integers({ minikafka.RetentionManager(clock):apply(log,
      { retention_ms = 1.0 }) }, "result")
  end)
end)

describe("an argument that is a string", function()
  after_each(tmp.clean)

  it("may not be a number", function()
    local log <close> = open()
    expect.argument_error("directory", minikafka.open, 5)
    expect.argument_error("key", log.append_kv, log, 5, "v")
    expect.argument_error("value", log.append_kv, log, "k", 5)
    expect.argument_error("cleanup_policy", log.configure, log,
      { cleanup_policy = 5 })
    expect.argument_error("compression", log.append, log, { {} },
      { compression = 5 })
    expect.argument_error("code", minikafka.is_error, "x", 5)
  end)

  it("B73: is no path if it has a zero byte, or nothing", function()
    local dir = tmp.path()
    expect.argument_error("directory", minikafka.open, dir .. "\0evil")
    expect.argument_error("directory", minikafka.open, "\0")
    expect.argument_error("directory", minikafka.open, "")
    assert.is_nil(tmp.read(dir))
  end)

  it("B73: is no word if it goes on after a zero byte", function()
    local log <close> = open()
    expect.error("INVALID_ARGUMENT", log.configure, log,
      { cleanup_policy = "delete\0" })
    local raised = expect.error("INVALID_ARGUMENT", log.configure, log,
      { cleanup_policy = "delete,nothing,compact" })
    assert.equal("cleanup_policy can't be 'delete,nothing,compact', only some of: delete, compact",
      raised.message)
    raised = expect.error("INVALID_ARGUMENT", log.configure, log, { compression_type = "none" })
    assert.equal("compression_type can't be 'none', only one of: uncompressed, gzip, " ..
      "snappy, lz4, zstd, producer", raised.message)
    expect.error("INVALID_ARGUMENT", log.append, log, { {} },
      { compression = "none\0" })
    expect.error("INVALID_ARGUMENT", log.fetch, log, 0,
      { ["max_bytes\0"] = 1 })
    expect.error("INVALID_ARGUMENT", log.append, log, { ["key\0"] = "k" })
  end)
end)

describe("a table of options", function()
  after_each(tmp.clean)

  it("may be left out, but be nothing else", function()
    local log <close> = open()
    for _, wrong in ipairs { 1, "text", true, print } do
      expect.argument_error("options", minikafka.open, tmp.path(), wrong)
      expect.argument_error("options", log.append, log, { {} }, wrong)
      expect.argument_error("options", log.fetch, log, 0, 1, wrong)
      expect.argument_error("options", log.records, log, 0, wrong)
      expect.argument_error("options", log.batches, log, 0, wrong)
      expect.argument_error("options", log.cursor, log, wrong)
      expect.argument_error("options", log.appender, log, wrong)
      expect.argument_error("settings", log.configure, log, wrong)
    end
    expect.argument_error("settings", log.configure, log)
  end)

  it("has names that are strings", function()
    local log <close> = open()
    for _, wrong in ipairs { 1, true, 1.5, print } do
      local options = { [wrong] = 1 }
      expect.argument_error("options", minikafka.open, tmp.path(), options)
      expect.argument_error("options", log.fetch, log, 0, options)
      expect.argument_error("options", log.configure, log, options)
    end
  end)

  it("is checked before anything is done", function()
    local dir = tmp.path()
    expect.error("INVALID_ARGUMENT", minikafka.open, dir, { segment_bytes = 1 })
    expect.error("INVALID_ARGUMENT", minikafka.open, dir, { max_open_files = 0 })
    expect.argument_error("create", minikafka.open, dir, { create = "yes" })
    expect.argument_error("mapped", minikafka.open, dir, { mapped = 1 })
    expect.argument_error("progress", minikafka.open, dir, { progress = 1 })
    expect.argument_error("clock", minikafka.open, dir, { clock = 1 })
    expect.argument_error("io", minikafka.open, dir, { io = "disk" })
    assert.is_nil(os.rename(dir, dir))
    local log <close> = open()
    local was = log.config.segment_bytes
    expect.error("INVALID_ARGUMENT", log.configure, log,
      { segment_bytes = was + 1, segment_ms = 0 })
    assert.equal(was, log.config.segment_bytes)
  end)
end)

describe("a clock", function()
  after_each(tmp.clean)

  it("is a function, or has now_ms", function()
    for _, clock in ipairs {
      function() return 7 end,
      { now_ms = function() return 7 end },
      setmetatable({}, { __index = { now_ms = function() return 7.0 end } }),
      minikafka.ManualClock(7),
      minikafka.open(tmp.path(), { clock = function() return 7 end }).clock,
    } do
      local log <close> = minikafka.open(tmp.path(), { clock = clock })
      assert.equal(clock, log.clock)
      log:append { {} }
      assert.equal(7, log:fetch(0)[1].timestamp_ms)
    end
  end)

  it("is nothing else", function()
    for _, wrong in ipairs { 1, "now", true, {}, io.stdout, { now_ms = 5 },
      { now_ms = {} } } do
      expect.argument_error("clock", minikafka.open, tmp.path(),
        { clock = wrong })
      expect.argument_error("clock", minikafka.LogCompactor, { clock = wrong })
    end
    for _, wrong in ipairs { 1, "now", true, io.stdout } do
      expect.argument_error("clock", minikafka.RetentionManager, wrong)
      expect.argument_error("clock", minikafka.LogCompactor, wrong)
    end
  end)

  it("gives integers", function()
    local time = 5
    local log <close> = minikafka.open(tmp.path(),
      { clock = function() return time end })
    for _, wrong in ipairs { 1.5, "5", {}, true, 0 / 0 } do
      time = wrong
      assert.has_error(function() log:append { {} } end)
    end
    time = nil
    assert.has_error(function() log:append { {} } end)
    time = 6
    assert.equal(0, log:append { {} })
  end)

  it("does not move backwards by itself", function()
    local clock = minikafka.ManualClock(5)
    expect.error("INVALID_ARGUMENT", clock.advance_ms, clock, -1)
    expect.error("INVALID_ARGUMENT", clock.advance_ms, clock, math.mininteger)
    expect.error("INVALID_ARGUMENT", clock.advance_ms, clock, math.maxinteger)
    assert.equal(5, clock:now_ms())
    clock:set_ms(3)
    assert.equal(3, clock:now_ms())
    assert.equal(0, minikafka.ManualClock():now_ms())
  end)
end)
