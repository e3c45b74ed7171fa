-- Retention as the chapter has it: a prefix of closed segments, by time, by
-- size, or by hand.

local minikafka = require "minikafka"
local tmp = require "spec.support.tmp"
local state = require "spec.support.state"
local expect = require "spec.support.expect"

-- A log of one-record segments with these times, all closed but the last.
local function with_times(times, options)
  options = options or {}
  options.clock = options.clock or minikafka.ManualClock(0)
  local log = minikafka.open(tmp.path(), options)
  for i, timestamp_ms in ipairs(times) do
    log:append { key = "k" .. i, value = "v", timestamp_ms = timestamp_ms }
    if i < #times then
      log:roll()
    end
  end
  return log
end

local function retain(log, now_ms, options)
  return minikafka.RetentionManager(minikafka.ManualClock(now_ms)):apply(log,
    options)
end

local function bases(segments)
  local list = {}
  for i, segment in ipairs(segments) do
    list[i] = segment.base_offset
  end
  return list
end

local function total(segments)
  local size = 0
  for _, segment in ipairs(segments) do
    size = size + segment.size_bytes
  end
  return size
end

describe("retention by time", function()
  after_each(tmp.clean)

  it("takes what is older than the boundary, not what is at it", function()
    local log <close> = with_times { 0, 99, 100, 101, 300 }
    assert.same({ 0, 1 }, (retain(log, 200, { retention_ms = 100 })))
    assert.equal(2, log.log_start_offset)
    assert.same({ 2 }, (retain(log, 201, { retention_ms = 100 })))
    assert.same({}, (retain(log, 201, { retention_ms = 100 })))
  end)

  it("never takes the active segment", function()
    local log <close> = with_times { 0, 0 }
    assert.same({ 0 }, (retain(log, 1 << 40, { retention_ms = 0 })))
    assert.same({ 1 }, bases(log.segments))
    assert.same({ 1 }, { log:fetch(1)[1].offset })
  end)

  it("goes by the greatest time of a segment", function()
    local log <close> = with_times { 0, 0 }
    log:append { { value = "new", timestamp_ms = 500 },
      { value = "old", timestamp_ms = 1 } }
    log:roll()
    assert.same({ 0 }, (retain(log, 550, { retention_ms = 100 })))
    assert.same({ 1 }, (retain(log, 601, { retention_ms = 100 })))
  end)

  it("takes segments without times once the boundary is 0", function()
    local log <close> = with_times { -1, -1, 5 }
    assert.same({}, (retain(log, 99, { retention_ms = 100 })))
    assert.same({ 0, 1 }, (retain(log, 100, { retention_ms = 100 })))
  end)

  it("holds everything while the clock stands before it", function()
    local log <close> = with_times { 1000, 1000, 1000 }
    assert.same({}, (retain(log, 500, { retention_ms = 0 })))
    assert.same({}, (retain(log, 0, { retention_ms = math.maxinteger })))
    assert.same({}, (retain(log, -1000, { retention_ms = math.maxinteger })))
    assert.same({}, (retain(log, 1000, { retention_ms = 0 })))
    assert.same({ 0, 1 }, (retain(log, 1001, { retention_ms = 0 })))
  end)

  it("uses the log's clock where it has none of its own", function()
    local clock = minikafka.ManualClock(1000)
    local log <close> = with_times({ 0, 0 }, { clock = clock })
    local manager = minikafka.RetentionManager()
    assert.same({}, (manager:apply(log, { retention_ms = 1000 })))
    clock:advance_ms(1)
    assert.same({ 0 }, (manager:apply(log, { retention_ms = 1000 })))
  end)

  it("reads its clock once", function()
    local calls = 0
    local log <close> = with_times { 0, 0, 0, 0 }
    minikafka.RetentionManager(function()
      calls = calls + 1
      return 1000
    end):apply(log, { retention_ms = 0 })
    assert.equal(1, calls)
  end)
end)

describe("retention by size", function()
  after_each(tmp.clean)

  it("stops as soon as what is left fits", function()
    for delta, deleted in pairs { [-1] = { 0, 1 }, [0] = { 0 }, [1] = { 0 } } do
      local log <close> = with_times({ 0, 0, 0, 0 },
        { index_interval_bytes = 1 })
      local fits = total(log.segments) - log.segments[1].size_bytes
      assert.same(deleted, (retain(log, 0,
        { retention_bytes = fits + delta })))
    end
  end)

  it("counts indexes, and the active segment too", function()
    local log <close> = with_times { 0, 0, 0 }
    log:roll()
    local segment = log.segments[1]
    assert(segment.index_bytes > 0)
    assert.equal(segment.log_bytes + segment.index_bytes, segment.size_bytes)
    assert.same({}, (retain(log, 0, { retention_bytes = log.size_bytes })))
    assert.same({ 0 }, (retain(log, 0,
      { retention_bytes = log.size_bytes - 1 })))
  end)

  it("takes every closed segment for a budget too small", function()
    local log <close> = with_times { 0, 0, 0 }
    assert.same({ 0, 1 }, (retain(log, 0, { retention_bytes = 1 })))
    assert.same({ 2 }, bases(log.segments))
  end)

  it("goes on where time stopped", function()
    local log <close> = with_times { 0, 500, 0, 0 }
    local budget = log.segments[3].size_bytes + log.segments[4].size_bytes
    local deleted, result = retain(log, 500,
      { retention_ms = 100, retention_bytes = budget })
    assert.same({ 0, 1 }, deleted)
    assert.same({ 0, 1 }, result.deleted)
    assert.equal(2, log.log_start_offset)
  end)
end)

describe("retention", function()
  after_each(tmp.clean)

  it("takes nothing where nothing is asked", function()
    local log <close> = with_times { 0, 0 }
    assert.same({}, (retain(log, 1 << 40, {})))
    assert.same({ 0, 1 }, bases(log.segments))
  end)

  it("checks its arguments first", function()
    local log <close> = with_times { 0, 0 }
    local single <close> = with_times { 0 }
    for _, options in ipairs {
      { retention_ms = -1 }, { retention_ms = math.mininteger },
      { retention_bytes = 0 }, { retention_bytes = -1 },
      { retention_ms = 0, retention_bytes = 0 },
      { retention_ms = -1, retention_bytes = 1 },
    } do
      expect.error("INVALID_ARGUMENT", retain, log, 1 << 40, options)
      expect.error("INVALID_ARGUMENT", retain, single, 1 << 40, options)
    end
    local raised = expect.error("INVALID_ARGUMENT", retain, log, 0,
      { retention_msec = 1 })
    assert.equal("retention_ms", raised.nearest)
    expect.argument_error("retention_ms", retain, log, 0,
      { retention_ms = "1" })
    expect.argument_error("retention_bytes", retain, log, 0,
      { retention_bytes = 1.5 })
    assert.equal(0, log.log_start_offset)
  end)

  it("unlinks the files of what it takes", function()
    local log <close> = with_times { 0, 0, 9 }
    retain(log, 5, { retention_ms = 1 })
    for _, name in ipairs(tmp.list(log.directory)) do
      local base = name:match("^(%d+)%.")
      assert(not base or math.tointeger(tonumber(base)) >= 2, name)
    end
  end)

  it("holds what it did over a reopening", function()
    local log = with_times { 0, 0, 9 }
    retain(log, 5, { retention_ms = 1 })
    local before = state.text(state.of(log))
    log:close()
    local again <close> = minikafka.open(log.directory)
    assert.equal(before, state.text(state.of(again)))
    assert.equal(2, again.log_start_offset)
  end)

  it("goes by the survivors of a compaction", function()
    for _, reopen in ipairs { false, true } do
      local log = with_times { 0 }
      log:append { { key = "k", value = "obsolete", timestamp_ms = 1000 },
        { key = "l", value = "stays", timestamp_ms = 5 } }
      log:append { key = "k", value = "new", timestamp_ms = 10 }
      log:roll()
      assert.equal(1000, log.segments[1].max_timestamp_ms)
      minikafka.LogCompactor(minikafka.ManualClock(0)):compact(log)
      if reopen then
        log:close()
        log = minikafka.open(log.directory)
      end
      assert.equal(10, log.segments[1].max_timestamp_ms)
      assert.same({ 0 }, (retain(log, 200, { retention_ms = 100 })))
      log:close()
    end
  end)

  it("prints what it did", function()
    local log <close> = with_times { 0, 0 }
    local _, result = retain(log, 5, { retention_ms = 1 })
    local text = tostring(result)
    assert(#text > 0 and not text:find("^table: "))
  end)

  it("is refused on a read-only log", function()
    local log <close> = with_times { 0, 0 }
    local reader <close> = minikafka.open(log.directory,
      { read_only = true })
    expect.error("READ_ONLY", retain, reader, 5, { retention_ms = 1 })
  end)
end)

describe("log:delete_closed_segments", function()
  after_each(tmp.clean)

  it("takes a prefix, in any order, repeats and all", function()
    local log <close> = with_times { 0, 0, 0, 0 }
    assert.same({}, log:delete_closed_segments {})
    assert.same({ 0, 1 }, log:delete_closed_segments { 1, 0, 1 })
    assert.equal(2, log.log_start_offset)
    assert.same({ 2 }, log:delete_closed_segments { 2 })
    assert.same({ 3 }, bases(log.segments))
  end)

  it("refuses everything else, and removes nothing", function()
    local log <close> = with_times { 0, 0, 0, 0 }
    for _, set in ipairs { { 1 }, { 0, 2 }, { 0, 1, 2, 3 }, { 3 }, { 7 },
      { 0, -1 }, { 1, 2 }, { math.maxinteger } } do
      expect.error("INVALID_ARGUMENT", log.delete_closed_segments, log, set)
    end
    expect.argument_error("delete_closed_segments",
      log.delete_closed_segments, log, { "0" })
    expect.argument_error("delete_closed_segments",
      log.delete_closed_segments, log, 0)
    assert.same({ 0, 1, 2, 3 }, bases(log.segments))
    assert.equal(4, #log:fetch(0))
  end)
end)

describe("log:delete_records", function()
  after_each(tmp.clean)

  it("moves the start, also inside a batch", function()
    local log <close> = with_times { 0 }
    log:append { { value = "1" }, { value = "2" }, { value = "3" } }
    log:delete_records(2)
    assert.equal(2, log.log_start_offset)
    assert.same({ "2 -=2", "3 -=3" }, expect.brief(log:fetch(2)))
    expect.error("OFFSET_OUT_OF_RANGE", log.fetch, log, 1)
  end)

  it("does nothing at or below the start", function()
    local log <close> = with_times { 0, 0, 0 }
    log:delete_records(2)
    local before = state.text(state.of(log))
    for _, offset in ipairs { 2, 1, 0 } do
      log:delete_records(offset)
      assert.equal(before, state.text(state.of(log)))
    end
  end)

  it("raises beyond the end", function()
    local log <close> = with_times { 0, 0 }
    local raised = expect.error("OFFSET_OUT_OF_RANGE", log.delete_records,
      log, 3)
    assert.equal(3, raised.requested)
    assert.equal(2, raised.log_end_offset)
    assert.equal(0, log.log_start_offset)
  end)

  it("unlinks segments that are wholly below", function()
    local log <close> = with_times { 0, 0, 0, 0 }
    log:delete_records(2)
    assert.same({ 2, 3 }, bases(log.segments))
    local path = log.segments[1].path
    log:delete_records(4)
    assert.same({ 3 }, bases(log.segments))
    assert.is_nil(tmp.read(path))
    assert.equal(4, log.log_start_offset)
    assert.equal(4, log.log_end_offset)
    assert.same({}, (log:fetch(4)))
    assert.equal(4, log:append { value = "next" })
  end)

  it("holds over a reopening, and over a death", function()
    local log = with_times { 0 }
    log:append { { value = "1" }, { value = "2" }, { value = "3" } }
    log:delete_records(2)
    local dead <close> = minikafka.open(tmp.copy(log.directory))
    assert.equal(2, dead.log_start_offset)
    assert.equal(4, dead.log_end_offset)
    log:close()
    local again <close> = minikafka.open(log.directory)
    assert.equal(2, again.log_start_offset)
    assert.same({ "2 -=2", "3 -=3" }, expect.brief(again:fetch(2)))
  end)
end)

describe("log:truncate_to", function()
  after_each(tmp.clean)

  it("cuts the end off, and gives its offsets out again", function()
    local log <close> = with_times { 0, 1, 2, 3, 4 }
    log:truncate_to(2)
    assert.equal(2, log.log_end_offset)
    assert.same({ 0, 1, 2 }, bases(log.segments))
    assert.equal(0, log.active_segment.log_bytes)
    assert.equal(2, log:append { value = "again" })
    assert.same({ "0 k1=v", "1 k2=v", "2 -=again" },
      expect.brief(log:fetch(0)))
  end)

  it("takes a batch whole, and leaves a gap before the end", function()
    local log <close> = with_times { 0 }
    log:append { { value = "1" }, { value = "2" }, { value = "3" } }
    log:truncate_to(3)
    assert.equal(3, log.log_end_offset)
    assert.same({ "0 k1=v" }, expect.brief(log:fetch(0)))
    local records, next_offset = log:fetch(1)
    assert.same({}, records)
    assert.equal(3, next_offset)
    assert.equal(3, log:append { value = "after" })
    assert.same({ "3 -=after" }, expect.brief(log:fetch(1)))
  end)

  it("does nothing at or above the end", function()
    local log <close> = with_times { 0, 1 }
    local before = state.text(state.of(log))
    log:truncate_to(2)
    log:truncate_to(99)
    assert.equal(before, state.text(state.of(log)))
  end)

  it("makes the log empty below its start", function()
    local log <close> = with_times { 0, 0, 0, 0 }
    retain(log, 1, { retention_bytes = 1 })
    assert.equal(3, log.log_start_offset)
    log:truncate_to(1)
    assert.equal(1, log.log_start_offset)
    assert.equal(1, log.log_end_offset)
    assert.equal(1, log:append { value = "v" })
  end)

  it("takes lookups by time with it", function()
    local log <close> = with_times { 10, 20, 30 }
    log:truncate_to(1)
    assert.is_nil((log:offset_for_timestamp(11)))
    assert.same({ 0, 10 }, { log:offset_of_max_timestamp() })
  end)

  it("holds over a reopening, and over a death", function()
    local log = with_times { 0, 1, 2, 3 }
    log:truncate_to(1)
    local before = state.text(state.of(log))
    local dead <close> = minikafka.open(tmp.copy(log.directory))
    assert.equal(before, state.text(state.of(dead)))
    log:close()
    local again <close> = minikafka.open(log.directory)
    assert.equal(before, state.text(state.of(again)))
  end)
end)
