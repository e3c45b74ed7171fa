-- Reading: fetch, records, cursors, batches and wait, their limits, and what
-- becomes of a reader while the log changes.

local minikafka = require "minikafka"
local tmp = require "spec.support.tmp"
local state = require "spec.support.state"
local expect = require "spec.support.expect"

local function open(options)
  options = options or {}
  options.clock = options.clock or minikafka.ManualClock(1000)
  return minikafka.open(tmp.path(), options)
end

-- `count` records k<i>=v<i>, `per_batch` a batch, at times of their offsets.
local function fill(log, count, per_batch)
  local records = {}
  for _ = 1, count do
    local number = log.log_end_offset + #records
    records[#records + 1] = { key = "k" .. number, value = "v" .. number,
      timestamp_ms = number }
    if #records == (per_batch or 1) then
      log:append(records)
      records = {}
    end
  end
end

local function offsets(records)
  local list = {}
  for i, record in ipairs(records) do
    list[i] = record.offset
  end
  return list
end

describe("log:fetch", function()
  after_each(tmp.clean)

  it("gives records from an offset on, and where to go on", function()
    local log <close> = open()
    fill(log, 10, 3)
    fill(log, 1)
    local records, next_offset = log:fetch(4, 3)
    assert.same({ 4, 5, 6 }, offsets(records))
    assert.equal(7, next_offset)
    records, next_offset = log:fetch(next_offset)
    assert.same({ 7, 8, 9 }, offsets(records))
    assert.equal(10, next_offset)
    assert.equal("integer", math.type(next_offset))
    assert.equal("k4", log:fetch(4)[1].key)
    assert.equal("v4", log:fetch(4)[1].value)
  end)

  it("gives nothing at the end", function()
    local log <close> = open()
    local records, next_offset = log:fetch(0)
    assert.same({}, records)
    assert.equal(0, next_offset)
    fill(log, 3)
    records, next_offset = log:fetch(3)
    assert.same({}, records)
    assert.equal(3, next_offset)
  end)

  it("gives 500 records where nothing is said", function()
    local log <close> = open()
    fill(log, 600, 100)
    local records, next_offset = log:fetch(0)
    assert.equal(500, #records)
    assert.equal(500, next_offset)
    assert.equal(500, #log:fetch(1, { end_offset = 600 }))
    assert.equal(600, #log:fetch(0, 1000))
  end)

  it("raises outside of the log, telling its bounds", function()
    local log <close> = open()
    fill(log, 10)
    log:delete_records(4)
    for _, offset in ipairs { 3, 0, -1, 11, math.maxinteger,
      math.mininteger } do
      local raised = expect.error("OFFSET_OUT_OF_RANGE", log.fetch, log,
        offset)
      assert.equal(offset, raised.requested)
      assert.equal(4, raised.log_start_offset)
      assert.equal(10, raised.log_end_offset)
      expect.error("OFFSET_OUT_OF_RANGE", log.fetch, log, offset, 0)
    end
    assert.same({ 4 }, offsets(log:fetch(4, 1)))
  end)

  it("refuses negative limits before it looks at the range", function()
    local log <close> = open()
    fill(log, 3)
    for _, offset in ipairs { 0, 99 } do
      expect.error("INVALID_ARGUMENT", log.fetch, log, offset, -1)
      expect.error("INVALID_ARGUMENT", log.fetch, log, offset, 1,
        { max_bytes = -1 })
    end
  end)

  it("takes its options without max_records", function()
    local log <close> = open()
    fill(log, 5)
    assert.same({ 1, 2 }, offsets(log:fetch(1, { end_offset = 3 })))
    assert.same({ 1, 2 }, offsets(log:fetch(1, nil, { end_offset = 3 })))
  end)

  it("ends before end_offset, which the log end cuts", function()
    local log <close> = open()
    fill(log, 9, 3)
    assert.same({ 2, 3, 4 }, offsets(log:fetch(2, 10, { end_offset = 5 })))
    assert.same({ 7, 8 }, offsets(log:fetch(7, 10, { end_offset = 99 })))
    for _, end_offset in ipairs { 4, 3, 0, -5 } do
      local records, next_offset = log:fetch(4, 10,
        { end_offset = end_offset })
      assert.same({}, records)
      assert.equal(4, next_offset)
    end
    local records, next_offset = log:fetch(4, 0)
    assert.same({}, records)
    assert.equal(4, next_offset)
  end)

  it("counts max_bytes as records are stored", function()
    local log <close> = open()
    -- Length, attributes, time, offset, key length, value length, header
    -- count: 7 bytes and the value's.
    log:append { { value = "123" }, { value = "123" }, { value = "123" } }
    for max_bytes, count in pairs { [0] = 1, [1] = 1, [10] = 1, [19] = 1,
      [20] = 2, [29] = 2, [30] = 3, [1 << 40] = 3, [math.maxinteger] = 3 } do
      local records, next_offset = log:fetch(0, { max_bytes = max_bytes })
      assert.equal(count, #records)
      assert.equal(count, next_offset)
    end
  end)

  it("reads on through all segments", function()
    local log <close> = open { segment_bytes = 300 }
    fill(log, 60)
    assert(#log.segments > 10)
    assert.equal(60, #log:fetch(0))
    assert.equal(45, #log:fetch(15))
  end)

  it("names the nearest option for an unknown one", function()
    local log <close> = open()
    local raised = expect.error("INVALID_ARGUMENT", log.fetch, log, 0,
      { maxbytes = 1 })
    assert.equal("max_bytes", raised.nearest)
  end)

  it("refuses wrong types", function()
    local log <close> = open()
    for _, wrong in ipairs { "0", 0.5, {}, true, 0 / 0 } do
      expect.argument_error("fetch", log.fetch, log, wrong)
    end
    expect.argument_error("fetch", log.fetch, log)
    expect.argument_error("max_bytes", log.fetch, log, 0, { max_bytes = "1" })
    expect.argument_error("end_offset", log.fetch, log, 0,
      { end_offset = 1.5 })
  end)

  it("gives a table that prints", function()
    local log <close> = open()
    fill(log, 2)
    assert.truthy(tostring(log:fetch(0)[1]):find("k0", 1, true))
  end)
end)

describe("log:records", function()
  after_each(tmp.clean)

  it("walks the log from its start", function()
    local log <close> = open { segment_bytes = 300 }
    fill(log, 20, 2)
    log:delete_records(3)
    local expected = {}
    for i = 3, 19 do
      expected[#expected + 1] = { offset = i, key = "k" .. i,
        value = "v" .. i, timestamp_ms = i }
    end
    assert.equal(state.records(expected),
      state.records(state.collect(log:records())))
    assert.equal(10, #state.collect(log:records(10)))
    assert.equal(4, #state.collect(log:records(10, { end_offset = 14 })))
    assert.equal(0, #state.collect(log:records(20)))
  end)

  it("gives headers and times", function()
    local log <close> = open()
    log:append { key = "k", value = "v", timestamp_ms = 9,
      headers = { { "h", "1" }, { "n" } } }
    local seen
    for offset, key, value, timestamp_ms, headers in log:records() do
      seen = { offset, key, value, timestamp_ms, headers[1][1], headers[1][2],
        headers[2][1], headers[2][2] }
    end
    assert.same({ 0, "k", "v", 9, "h", "1", "n" }, seen)
  end)

  it("ends where the log ended when it began", function()
    local log <close> = open()
    fill(log, 3)
    local seen = {}
    for offset in log:records() do
      seen[#seen + 1] = offset
      fill(log, 1)
    end
    assert.same({ 0, 1, 2 }, seen)
    assert.equal(6, log.log_end_offset)
  end)

  it("raises outside of the log", function()
    local log <close> = open()
    fill(log, 3)
    for _, from in ipairs { 4, -1 } do
      expect.error("OFFSET_OUT_OF_RANGE", function()
        state.collect(log:records(from))
      end)
    end
  end)

  it("may be left and begun again", function()
    local log <close> = open()
    fill(log, 5)
    for _ = 1, 3 do
      local next_record, a, b, closing <close> = log:records(1)
      assert.equal(1, (next_record(a, b)))
      assert.is_not_nil(closing)
    end
  end)
end)

describe("log:batches", function()
  after_each(tmp.clean)

  it("begins with the batch that holds the log start", function()
    local log <close> = open()
    fill(log, 12, 4)
    log:delete_records(6)
    local seen = {}
    local position = log:batches(8)().position
    for batch in log:batches() do
      seen[#seen + 1] = { batch.base_offset, batch.last_offset,
        batch.record_count, batch.codec }
      if batch.base_offset == 8 then
        assert.equal(position, batch.position)
        assert.equal(log.active_segment.log_bytes,
          batch.position + batch.size_bytes)
      end
    end
    assert.same({ { 4, 7, 4, "none" }, { 8, 11, 4, "none" } }, seen)
  end)

  it("ends at end_offset", function()
    local log <close> = open()
    fill(log, 12, 4)
    local count = 0
    for batch in log:batches(0, { end_offset = 8 }) do
      count = count + 1
      assert(batch.base_offset < 8)
    end
    assert.equal(2, count)
  end)
end)

describe("a cursor", function()
  after_each(tmp.clean)

  it("goes on where it stopped", function()
    local log <close> = open()
    fill(log, 5)
    local cursor <close> = log:cursor { from = 1 }
    assert.equal(1, cursor.next_offset)
    local seen = {}
    for offset in cursor do
      seen[#seen + 1] = offset
      if offset == 2 then
        break
      end
    end
    assert.equal(3, cursor.next_offset)
    for offset, key, value in cursor do
      seen[#seen + 1] = offset
      assert.equal("k" .. offset, key)
      assert.equal("v" .. offset, value)
    end
    assert.same({ 1, 2, 3, 4 }, seen)
    assert.equal(0, #state.collect(cursor))
    fill(log, 2)
    assert.equal(2, #state.collect(cursor))
    assert.equal(7, cursor.next_offset)
  end)

  it("begins at the log start where nothing is said", function()
    local log <close> = open()
    fill(log, 5)
    log:delete_records(2)
    local cursor <close> = log:cursor()
    assert.equal(2, cursor.next_offset)
    assert.equal(3, #state.collect(cursor))
  end)

  it("seeks an offset, and refuses one outside", function()
    local log <close> = open()
    fill(log, 5)
    local cursor <close> = log:cursor()
    cursor:seek(3)
    assert.equal(3, cursor.next_offset)
    assert.same({ 3, 4 }, offsets(state.collect(cursor)))
    cursor:seek(0)
    assert.equal(5, #state.collect(cursor))
    cursor:seek(5)
    assert.equal(0, #state.collect(cursor))
    for _, wrong in ipairs { 6, -1 } do
      expect.error("OFFSET_OUT_OF_RANGE", cursor.seek, cursor, wrong)
    end
    assert.equal(5, cursor.next_offset)
    expect.error("OFFSET_OUT_OF_RANGE", log.cursor, log, { from = 6 })
  end)

  it("seeks a time", function()
    local log <close> = open { segment_bytes = 300 }
    for i = 0, 19 do
      log:append { value = "v", timestamp_ms = i * 10 }
    end
    local cursor <close> = log:cursor()
    cursor:seek_time(95)
    assert.equal(10, cursor.next_offset)
    cursor:seek_time(0)
    assert.equal(0, cursor.next_offset)
    cursor:seek_time(191)
    assert.equal(20, cursor.next_offset)
  end)

  it("is closed once, and then says so", function()
    local log <close> = open()
    fill(log, 2)
    local cursor = log:cursor()
    cursor:close()
    cursor:close()
    expect.error("CLOSED", cursor.seek, cursor, 0)
    expect.error("CLOSED", state.collect, cursor)
    assert.truthy(tostring(cursor):find("closed", 1, true))
  end)

  it("says that its log is closed", function()
    local log = open()
    fill(log, 2)
    local cursor <close> = log:cursor()
    log:close()
    expect.error("CLOSED", state.collect, cursor)
  end)

  it("reads across a compaction, each survivor once", function()
    local log <close> = open()
    for i = 0, 59 do
      log:append { key = "k" .. i % 20, value = "v" .. i, timestamp_ms = 1 }
      if i % 10 == 9 then
        log:roll()
      end
    end
    local cursor <close> = log:cursor()
    for offset in cursor do
      if offset == 5 then
        break
      end
    end
    minikafka.LogCompactor():compact(log)
    local rest = offsets(state.collect(cursor))
    local kept = {}
    for i, offset in ipairs(rest) do
      assert(offset > (rest[i - 1] or 5))
      if offset >= 40 then
        kept[#kept + 1] = offset
      end
    end
    assert.equal(20, #kept)
    assert.equal(60, cursor.next_offset)
  end)

  it("raises where retention took its place", function()
    local log <close> = open { segment_bytes = 200 }
    fill(log, 200)
    local cursor <close> = log:cursor()
    for offset in cursor do
      if offset == 1 then
        break
      end
    end
    log:delete_records(190)
    local last = 1
    local raised = expect.error("OFFSET_OUT_OF_RANGE", function()
      for offset in cursor do
        assert.equal(last + 1, offset) -- What it had read ahead.
        last = offset
      end
    end)
    assert.equal(last + 1, raised.requested)
    assert.equal(190, raised.log_start_offset)
    cursor:seek(190)
    assert.equal(10, #state.collect(cursor))
  end)

  it("raises where its records were deleted inside a segment", function()
    local log <close> = open()
    fill(log, 200)
    local cursor <close> = log:cursor()
    local next_record, a, b, closing <close> = log:records()
    for offset in cursor do
      if offset == 1 then
        break
      end
    end
    next_record(a, b)
    log:delete_records(190)
    local raised = expect.error("OFFSET_OUT_OF_RANGE", state.collect, cursor)
    assert(raised.requested < 190)
    expect.error("OFFSET_OUT_OF_RANGE", state.collect, next_record, a, b)
    assert.is_not_nil(closing)
    assert.equal(10, #state.collect(log:records()))
  end)

  it("raises where truncation took its place", function()
    local log <close> = open()
    fill(log, 10)
    local cursor <close> = log:cursor { from = 10 }
    log:truncate_to(4)
    local raised = expect.error("OFFSET_OUT_OF_RANGE", state.collect, cursor)
    assert.equal(10, raised.requested)
    assert.equal(4, raised.log_end_offset)
  end)
end)

describe("log:wait", function()
  after_each(tmp.clean)

  it("is true where there is more", function()
    local log <close> = open()
    fill(log, 1)
    assert.is_true(log:wait(0, 0))
    assert.is_true(log:wait(-1, 0))
  end)

  it("is false at once where nobody else could append", function()
    local log <close> = open()
    fill(log, 1)
    assert.is_false(log:wait(1, 0))
    assert.is_false(log:wait(1, 3600000))
    -- A simulated disk is this program's own.
    local disk = minikafka.SimDisk()
    local writer <close> = minikafka.open("/log", { io = disk })
    local reader <close> = minikafka.open("/log",
      { io = disk, read_only = true })
    assert.is_false(reader:wait(0, 3600000))
    fill(writer, 1)
    assert.is_true(reader:wait(0, 3600000))
    assert.is_false(reader:wait(1, 3600000))
  end)

  it("is false after its time where a writer writes nothing", function()
    local log <close> = open()
    fill(log, 1)
    local reader <close> = minikafka.open(log.directory,
      { read_only = true })
    assert.is_false(reader:wait(1, 20))
    fill(log, 1)
    assert.is_true(reader:wait(1, 3600000))
    assert.same({ 1 }, offsets(reader:fetch(1)))
  end)
end)
