-- When a segment is closed and a new one begins.

local minikafka = require "minikafka"
local tmp = require "spec.support.tmp"
local state = require "spec.support.state"
local expect = require "spec.support.expect"

local function open(options)
  options.clock = options.clock or minikafka.ManualClock(0)
  return minikafka.open(tmp.path(), options)
end

local function bases(log)
  local list = {}
  for i, segment in ipairs(log.segments) do
    list[i] = segment.base_offset
  end
  return list
end

local function at(log, timestamp_ms)
  log:append { value = "v", timestamp_ms = timestamp_ms }
end

describe("log:roll", function()
  after_each(tmp.clean)

  it("closes the active segment", function()
    local log <close> = open {}
    at(log, 5)
    at(log, 3)
    log:roll()
    assert.same({ 0, 2 }, bases(log))
    assert.equal(1, #log.closed_segments)
    local closed, active = log.closed_segments[1], log.active_segment
    assert.equal(0, closed.base_offset)
    assert.equal(2, closed.next_offset)
    assert.equal(5, closed.max_timestamp_ms)
    assert.equal(2, active.base_offset)
    assert.equal(2, active.next_offset)
    assert.equal(-1, active.max_timestamp_ms)
    assert.equal(0, active.log_bytes)
    assert.equal(2, log.log_end_offset)
    assert.equal(("%s/%020d.log"):format(log.directory, 2), active.path)
    assert.equal("", tmp.read(active.path))
  end)

  it("does nothing to an empty active segment", function()
    local log <close> = open {}
    log:roll()
    assert.same({ 0 }, bases(log))
    at(log, 0)
    log:roll()
    log:roll()
    assert.same({ 0, 1 }, bases(log))
    local before = state.text(state.of(log))
    log:close()
    local again <close> = minikafka.open(log.directory)
    assert.equal(before, state.text(state.of(again)))
  end)
end)

describe("segment_bytes", function()
  after_each(tmp.clean)

  -- A batch of one record with a value of n bytes, n < 58, has 68 + n bytes.
  local function of_size(log, size)
    log:append { value = ("x"):rep(size - 68) }
  end

  it("may be filled exactly", function()
    local log <close> = open { segment_bytes = 240 }
    for _ = 1, 6 do
      of_size(log, 80)
    end
    assert.same({ 0, 3 }, bases(log))
    assert.equal(240, log.closed_segments[1].log_bytes)
    assert.equal(240, log.active_segment.log_bytes)
  end)

  it("is not outgrown by a byte", function()
    local log <close> = open { segment_bytes = 239 }
    for _ = 1, 6 do
      of_size(log, 80)
    end
    assert.same({ 0, 2, 4 }, bases(log))
  end)

  it("holds from here on when it is configured", function()
    local log <close> = open { segment_bytes = 240 }
    of_size(log, 80)
    of_size(log, 80)
    log:configure { segment_bytes = 159 }
    assert.equal(159, log.config.segment_bytes)
    of_size(log, 80)
    of_size(log, 80)
    assert.same({ 0, 2, 3 }, bases(log))
  end)

  it("is refused below 14, and names a wrong name", function()
    expect.error("INVALID_ARGUMENT", open, { segment_bytes = 13 })
    expect.error("INVALID_ARGUMENT", open, { segment_bytes = 1 << 31 })
    local raised = expect.error("INVALID_ARGUMENT", open,
      { segment_byte = 100 })
    assert.equal("segment_bytes", raised.nearest)
    local log <close> = open { segment_bytes = 14 }
    expect.error("INVALID_ARGUMENT", log.configure, log,
      { segment_bytes = 13 })
    assert.equal(14, log.config.segment_bytes)
    expect.error("RECORD_TOO_LARGE", log.append, log, { value = "v" })
  end)
end)

describe("segment_ms", function()
  after_each(tmp.clean)

  it("rolls when an append is later than the first by more", function()
    local log <close> = open { segment_ms = 1000 }
    at(log, 5000)
    at(log, 6000)
    assert.same({ 0 }, bases(log))
    at(log, 6001)
    assert.same({ 0, 2 }, bases(log))
    at(log, 10)
    at(log, 7001)
    assert.same({ 0, 2 }, bases(log))
    at(log, 7002)
    assert.same({ 0, 2, 5 }, bases(log))
  end)

  it("takes no notice of the clock where records have times", function()
    local clock = minikafka.ManualClock(0)
    local log <close> = open { segment_ms = 1000, clock = clock }
    at(log, 0)
    clock:advance_ms(100000)
    at(log, 1000)
    assert.same({ 0 }, bases(log))
  end)

  it("goes by the clock where the first record has no time", function()
    local clock = minikafka.ManualClock(5000)
    local log <close> = open { segment_ms = 1000, clock = clock }
    at(log, -1)
    clock:advance_ms(1000)
    at(log, -1)
    assert.same({ 0 }, bases(log))
    clock:advance_ms(1)
    at(log, -1)
    assert.same({ 0, 2 }, bases(log))
  end)

  it("does not roll an empty segment", function()
    local clock = minikafka.ManualClock(0)
    local log <close> = open { segment_ms = 10, clock = clock }
    clock:advance_ms(1000)
    at(log, 1000)
    assert.same({ 0 }, bases(log))
  end)

  it("counts from the first batch after a reopening, too", function()
    local log = open { segment_ms = 1000 }
    at(log, 500)
    at(log, 900)
    log:close()
    local again <close> = minikafka.open(log.directory,
      { segment_ms = 1000, clock = minikafka.ManualClock(0) })
    at(again, 1500)
    assert.same({ 0 }, bases(again))
    at(again, 1501)
    assert.same({ 0, 3 }, bases(again))
  end)
end)

describe("segment_index_bytes", function()
  after_each(tmp.clean)

  it("rolls when the offset index is full", function()
    local log <close> = open { segment_index_bytes = 36,
      index_interval_bytes = 0 }
    for _ = 1, 20 do
      at(log, 7)
    end
    assert.same({ 0, 5, 10, 15 }, bases(log))
    assert.equal(20, #log:fetch(0))
  end)

  it("rolls when the time index is full but for one entry", function()
    local log <close> = open { segment_index_bytes = 36,
      index_interval_bytes = 0 }
    for i = 1, 12 do
      at(log, i)
    end
    assert.same({ 0, 3, 6, 9 }, bases(log))
    assert.equal(12, #log:fetch(0))
  end)
end)

describe("log.segments", function()
  after_each(tmp.clean)

  it("are snapshots with everything that is promised", function()
    local log <close> = open { index_interval_bytes = 1 }
    at(log, 5)
    at(log, 6)
    local before = log.segments
    log:roll()
    assert.equal(1, #before)
    local on_disk = 0
    for _, segment in ipairs(log.segments) do
      for _, name in ipairs { "base_offset", "next_offset", "size_bytes",
        "log_bytes", "index_bytes", "max_timestamp_ms" } do
        assert.equal("integer", math.type(segment[name]))
      end
      assert.equal(segment.log_bytes, #tmp.read(segment.path))
      on_disk = on_disk + segment.size_bytes
    end
    assert.equal(on_disk, log.size_bytes)
    assert.equal(8 + 12, log.segments[1].index_bytes)
    assert(not tostring(log.segments[1]):find("^table: "))
  end)
end)
