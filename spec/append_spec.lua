-- log:append, log:append_kv and the appender: what goes in, what is refused,
-- and that a refusal leaves nothing behind.

local minikafka = require "minikafka"
local tmp = require "spec.support.tmp"
local state = require "spec.support.state"
local batches = require "spec.support.batches"
local expect = require "spec.support.expect"

local now_ms = 1000

local function open(options)
  options = options or {}
  options.clock = options.clock or minikafka.ManualClock(now_ms)
  return minikafka.open(tmp.path(), options)
end

-- `call` fails with `code` and the log is as it was.
local function refuses(code, log, call, ...)
  local before = state.text(state.of(log))
  local raised = expect.error(code, call, ...)
  assert.equal(before, state.text(state.of(log)))
  return raised
end

local function refuses_argument(name, log, call, ...)
  local before = state.text(state.of(log))
  expect.argument_error(name, call, ...)
  assert.equal(before, state.text(state.of(log)))
end

local function batch_ranges(log)
  local ranges = {}
  for batch in log:batches() do
    ranges[#ranges + 1] = ("%d-%d"):format(batch.base_offset,
      batch.last_offset)
  end
  return ranges
end

describe("log:append", function()
  after_each(tmp.clean)

  it("gives the next offset to one record", function()
    local log <close> = open()
    assert.same({ 0, 0 }, { log:append { key = "k", value = "v" } })
    assert.same({ 1, 1 }, { log:append { value = "w" } })
    assert.equal(2, log.log_end_offset)
    assert.equal("integer", math.type(log:append { value = "x" }))
  end)

  it("makes one batch of a list", function()
    local log <close> = open()
    log:append { value = "first" }
    local first, last = log:append { { key = "a", value = "1" },
      { key = "b", value = "2" }, { key = "c", value = "3" } }
    assert.same({ 1, 3 }, { first, last })
    assert.same({ "0-0", "1-3" }, batch_ranges(log))
  end)

  it("stores what it is given, byte for byte", function()
    local log <close> = open()
    local all_bytes = {}
    for i = 0, 255 do
      all_bytes[i + 1] = string.char(i)
    end
    local records = {
      { key = "\0", value = table.concat(all_bytes), timestamp_ms = 0 },
      { key = "", value = "", timestamp_ms = 1 },
      { value = "keyless", timestamp_ms = -1 },
      { key = "tombstone", timestamp_ms = 1 << 62 },
      { timestamp_ms = 5 },
      { key = "h", value = "v", timestamp_ms = 6, headers = { { "a", "1" },
        { "a", "2" }, { "", "" }, { "null" }, { "\0", "\0" } } },
      { value = ("x"):rep(100000), timestamp_ms = 7 },
    }
    log:append(records)
    for i, record in ipairs(records) do
      record.offset = i - 1
    end
    assert.equal(state.records(records), state.records(log:fetch(0)))
    assert.is_nil(log:fetch(0)[1].headers)
    assert.equal(5, #log:fetch(0)[6].headers)
  end)

  it("takes the clock's time where a record has none", function()
    local clock = minikafka.ManualClock(70)
    local log <close> = open { clock = clock }
    log:append { { value = "a" }, { value = "b", timestamp_ms = 5 } }
    clock:advance_ms(10)
    log:append_kv(nil, "c")
    local records = log:fetch(0)
    assert.equal(70, records[1].timestamp_ms)
    assert.equal(5, records[2].timestamp_ms)
    assert.equal(80, records[3].timestamp_ms)
  end)

  it("reads its clock once", function()
    local calls = 0
    local log <close> = open { clock = function()
      calls = calls + 1
      return calls
    end }
    calls = 0
    log:append { { value = "a" }, { value = "b" }, { value = "c" } }
    assert.equal(1, calls)
    for _, record in ipairs(log:fetch(0)) do
      assert.equal(1, record.timestamp_ms)
    end
  end)

  it("ignores the offset of a record that was fetched", function()
    local log <close> = open()
    log:append { { key = "a", value = "1", headers = { { "h" } } },
      { key = "b" } }
    local fetched = log:fetch(0)
    local first, last = log:append(fetched)
    assert.same({ 2, 3 }, { first, last })
    assert.equal(4, log:append(fetched[2]))
    local again = log:fetch(2)
    fetched[1].offset, fetched[2].offset = 2, 3
    fetched[3] = { offset = 4, key = "b",
      timestamp_ms = fetched[2].timestamp_ms }
    assert.equal(state.records(fetched), state.records(again))
  end)

  it("takes a record without anything for a keyless null", function()
    local log <close> = open()
    log:append { {} }
    local record = log:fetch(0)[1]
    assert.equal(0, record.offset)
    assert.is_nil(record.key)
    assert.is_nil(record.value)
    assert.is_nil(record.headers)
  end)

  it("refuses an empty batch", function()
    local log <close> = open()
    refuses("INVALID_RECORD", log, log.append, log, {})
  end)

  it("refuses lists with holes or names in them", function()
    local log <close> = open()
    local record = { value = "v" }
    for _, list in ipairs {
      { record, nil, record },
      { [2] = record },
      { record, name = record },
      { record, key = "k" },
      { record, [0] = record },
      { record, [1.5] = record },
    } do
      refuses_argument("append", log, log.append, log, list)
    end
  end)

  it("refuses what is no record", function()
    local log <close> = open()
    for _, wrong in ipairs { 1, "text", true, print } do
      refuses_argument("append", log, log.append, log, wrong)
      refuses_argument("append", log, log.append, log, { wrong })
    end
    refuses_argument("append", log, log.append, log)
    refuses_argument("append", log, log.append, log, nil)
  end)

  it("refuses members of a wrong type, naming them", function()
    local log <close> = open()
    local good = { value = "v" }
    for name, wrongs in pairs {
      key = { 1, true, {}, 1.5 },
      value = { 1, false, {} },
      timestamp_ms = { "1", 1.5, {}, 0 / 0, 1 / 0, true },
      headers = { 1, "h", { "h" }, { { 1 } }, { { "a", 1 } }, { {} },
        { { "a", "b", "c" } }, { x = { "a" } }, { { "a" }, nil, { "b" } } },
    } do
      for _, wrong in ipairs(wrongs) do
        refuses_argument(name, log, log.append, log, { [name] = wrong })
        refuses_argument(name, log, log.append, log,
          { good, { [name] = wrong } })
      end
    end
  end)

  it("refuses times before -1, whatever else the batch has", function()
    local log <close> = open()
    for _, time in ipairs { -2, -1000, math.mininteger, math.mininteger + 1 } do
      refuses("INVALID_TIMESTAMP", log, log.append, log,
        { value = "v", timestamp_ms = time })
      refuses("INVALID_TIMESTAMP", log, log.append, log,
        { { value = "v" }, { value = "v", timestamp_ms = time } })
      refuses("INVALID_TIMESTAMP", log, log.append_kv, log, "k", "v", time)
    end
  end)

  it("refuses a batch over max_message_bytes, to the byte", function()
    local log <close> = open { max_message_bytes = 100 }
    local overhead = 61 + 7
    assert.equal(0, log:append { value = ("x"):rep(100 - overhead) })
    refuses("RECORD_TOO_LARGE", log, log.append, log,
      { value = ("x"):rep(101 - overhead) })
    refuses("RECORD_TOO_LARGE", log, log.append, log,
      { { value = ("x"):rep(20) }, { value = ("x"):rep(20) } })
    refuses("RECORD_TOO_LARGE", log, log.append_kv, log, nil,
      ("x"):rep(101 - overhead))
    assert.equal(100, log.active_segment.log_bytes)
  end)

  it("refuses a batch over segment_bytes without rolling", function()
    local log <close> = open { segment_bytes = 200 }
    log:append { value = "small" }
    refuses("RECORD_TOO_LARGE", log, log.append, log,
      { value = ("x"):rep(200) })
    assert.equal(1, #log.segments)
  end)

  it("refuses a keyless record where the policy is compact", function()
    local log <close> = open { cleanup_policy = "compact" }
    log:append { key = "", value = "an empty key is a key" }
    refuses("INVALID_RECORD", log, log.append, log, { value = "v" })
    refuses("INVALID_RECORD", log, log.append, log,
      { { key = "k" }, { value = "v" } })
    refuses("INVALID_RECORD", log, log.append_kv, log, nil, "v")
  end)

  it("keeps times within the limits that are set", function()
    local log <close> = open { message_timestamp_before_max_ms = 100,
      message_timestamp_after_max_ms = 10 }
    for _, time in ipairs { 900, 1010, -1 } do
      log:append { value = "v", timestamp_ms = time }
    end
    for _, time in ipairs { 899, 1011, 0 } do
      refuses("INVALID_TIMESTAMP", log, log.append, log,
        { value = "v", timestamp_ms = time })
    end
  end)

  it("stamps batches itself where told to", function()
    local log <close> = open { message_timestamp_type = "LogAppendTime" }
    log:append { { value = "a", timestamp_ms = 5 },
      { value = "b", timestamp_ms = 1 << 40 } }
    for _, record in ipairs(log:fetch(0)) do
      assert.equal(now_ms, record.timestamp_ms)
    end
    assert.equal(now_ms, log.active_segment.max_timestamp_ms)
  end)

  it("names the nearest option for an unknown one", function()
    local log <close> = open()
    local raised = refuses("INVALID_ARGUMENT", log, log.append, log,
      { value = "v" }, { compresion = "gzip" })
    assert.equal("compression", raised.nearest)
    raised = refuses("INVALID_ARGUMENT", log, log.append, log,
      { value = "v" }, { durably = true })
    assert.equal("durable", raised.nearest)
  end)

  it("writes leader epoch 0, or the one it is given", function()
    local log <close> = open()
    log:append { value = "v" }
    log:append({ value = "w" }, { leader_epoch = 3 })
    local epochs = {}
    for _, batch in ipairs(batches.split(tmp.read(
      log.active_segment.path))) do
      epochs[#epochs + 1] = (">i4"):unpack(batch.bytes, 13)
    end
    assert.same({ 0, 3 }, epochs)
  end)

  it("is in the file once it has returned", function()
    local log <close> = open()
    log:append { key = "k", value = "found in the file" }
    assert.truthy(tmp.read(log.active_segment.path):find("found in the file",
      1, true))
  end)

  it("is on stable storage where that was asked for", function()
    local log <close> = open()
    log:append { value = "v" }
    assert(log.recovery_point <= 1)
    log:append({ value = "v" }, { durable = true })
    assert.equal(2, log.recovery_point)
    log:append { value = "v" }
    log:flush()
    assert.equal(3, log.recovery_point)
    local each <close> = open { flush_messages = 1 }
    each:append { value = "v" }
    assert.equal(1, each.recovery_point)
    local third <close> = open { flush_messages = 3 }
    third:append { { value = "v" }, { value = "v" } }
    third:append { value = "v" }
    assert.equal(3, third.recovery_point)
  end)
end)

describe("log:append_kv", function()
  after_each(tmp.clean)

  it("appends one record", function()
    local log <close> = open()
    assert.equal(0, log:append_kv("k", "v"))
    assert.equal(1, log:append_kv("k", nil, 5))
    assert.equal(2, log:append_kv(nil, "v", 6, { { "h", "1" }, { "n" } }))
    assert.equal(3, log:append_kv("", "", nil))
    assert.equal(state.records {
      { offset = 0, key = "k", value = "v", timestamp_ms = now_ms },
      { offset = 1, key = "k", timestamp_ms = 5 },
      { offset = 2, value = "v", timestamp_ms = 6,
        headers = { { "h", "1" }, { "n" } } },
      { offset = 3, key = "", value = "", timestamp_ms = now_ms },
    }, state.records(log:fetch(0)))
  end)

  it("wants a nil written out", function()
    local log <close> = open()
    refuses_argument("append_kv", log, log.append_kv, log)
    refuses_argument("append_kv", log, log.append_kv, log, "k")
  end)

  it("refuses wrong types", function()
    local log <close> = open()
    for _, wrong in ipairs { 1, true, {} } do
      refuses_argument("append_kv", log, log.append_kv, log, wrong, "v")
      refuses_argument("append_kv", log, log.append_kv, log, "k", wrong)
      refuses_argument("append_kv", log, log.append_kv, log, "k", "v", nil,
        { { "a", wrong } })
    end
    refuses_argument("append_kv", log, log.append_kv, log, "k", "v", "5")
    refuses_argument("append_kv", log, log.append_kv, log, "k", "v", 1.5)
  end)
end)

describe("an appender", function()
  after_each(tmp.clean)

  it("makes one batch of what it is given, at flush", function()
    local log <close> = open()
    local out <close> = log:appender()
    assert.equal(0, select("#", out:append { key = "a", value = "1" }))
    assert.equal(0, select("#", out:append_kv("b", "2")))
    out:append { { value = "3" }, { value = "4" } }
    assert.equal(0, log.log_end_offset)
    assert.same({}, (log:fetch(0)))
    assert.same({ 0, 3 }, { out:flush() })
    assert.same({ "0-3" }, batch_ranges(log))
    assert.same({ "0 a=1", "1 b=2", "2 -=3", "3 -=4" },
      expect.brief(log:fetch(0)))
  end)

  it("has nothing to tell of a flush without records", function()
    local log <close> = open()
    local out <close> = log:appender()
    assert.is_nil((out:flush()))
    assert.equal(0, log.log_end_offset)
  end)

  it("sends a batch before it outgrows batch_bytes", function()
    local log <close> = open()
    local out <close> = log:appender { batch_bytes = 300 }
    for i = 1, 40 do
      out:append_kv("key" .. i, ("v"):rep(30))
    end
    assert(log.log_end_offset > 30)
    out:flush()
    assert.equal(40, log.log_end_offset)
    local count = 0
    for batch in log:batches() do
      assert(batch.size_bytes <= 300)
      assert(batch.record_count > 1 or batch.last_offset == 39)
      count = count + 1
    end
    assert(count > 4)
  end)

  it("sends a record larger than a batch by itself", function()
    local log <close> = open()
    local out <close> = log:appender { batch_bytes = 100 }
    out:append_kv("a", "small")
    out:append_kv("b", ("x"):rep(500))
    out:append_kv("c", "small")
    out:flush()
    assert.same({ "0-0", "1-1", "2-2" }, batch_ranges(log))
  end)

  it("sends at the first call after linger_ms", function()
    local clock = minikafka.ManualClock(0)
    local log <close> = open { clock = clock }
    local out <close> = log:appender { linger_ms = 10 }
    out:append_kv("a", "1")
    clock:advance_ms(9)
    out:append_kv("b", "2")
    assert.equal(0, log.log_end_offset)
    clock:advance_ms(1)
    assert.equal(0, log.log_end_offset)
    out:append_kv("c", "3")
    assert(log.log_end_offset >= 2)
  end)

  it("sends before any other append to its log", function()
    local log <close> = open()
    local out <close> = log:appender()
    local other <close> = log:appender()
    out:append_kv("a", "1")
    log:append_kv("b", "2")
    out:append_kv("c", "3")
    log:append { key = "d", value = "4" }
    out:append_kv("e", "5")
    other:append_kv("f", "6")
    other:flush()
    assert.same({ "0 a=1", "1 b=2", "2 c=3", "3 d=4", "4 e=5", "5 f=6" },
      expect.brief(log:fetch(0)))
  end)

  it("sends when it is closed, or its scope is left", function()
    local log <close> = open()
    local out = log:appender()
    out:append_kv("a", "1")
    out:close()
    assert.equal(1, log.log_end_offset)
    do
      local scoped <close> = log:appender()
      scoped:append_kv("b", "2")
    end
    assert.equal(2, log.log_end_offset)
    out:close()
    expect.error("CLOSED", out.append_kv, out, "c", "3")
    expect.error("CLOSED", out.append, out, { value = "3" })
    expect.error("CLOSED", out.flush, out)
  end)

  it("commits nothing when it is collected", function()
    local log <close> = open()
    do
      local out = log:appender()
      out:append_kv("a", "1")
    end
    collectgarbage()
    collectgarbage()
    assert.equal(0, log.log_end_offset)
    assert.equal(0, log:append_kv("b", "2"))
  end)

  it("keeps its batch when it refuses a record", function()
    local log <close> = open { max_message_bytes = 1000 }
    local out <close> = log:appender()
    out:append_kv("a", "1")
    expect.error("INVALID_TIMESTAMP", out.append_kv, out, "b", "2", -2)
    expect.error("RECORD_TOO_LARGE", out.append_kv, out, "b",
      ("x"):rep(2000))
    expect.error("INVALID_TIMESTAMP", out.append, out, { { value = "c" },
      { value = "d", timestamp_ms = -2 } })
    out:append_kv("e", "3")
    assert.same({ 0, 1 }, { out:flush() })
    assert.same({ "0 a=1", "1 e=3" }, expect.brief(log:fetch(0)))
  end)

  it("stamps records when they are given to it", function()
    local clock = minikafka.ManualClock(5)
    local log <close> = open { clock = clock }
    local out <close> = log:appender()
    out:append_kv("a", "1")
    clock:set_ms(9)
    out:append_kv("b", "2")
    out:flush()
    assert.equal(5, log:fetch(0)[1].timestamp_ms)
    assert.equal(9, log:fetch(0)[2].timestamp_ms)
  end)

  it("names the nearest option for an unknown one", function()
    local log <close> = open()
    local raised = expect.error("INVALID_ARGUMENT", log.appender, log,
      { batch_byte = 10 })
    assert.equal("batch_bytes", raised.nearest)
  end)
end)
