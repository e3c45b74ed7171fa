-- Lookup by time: whatever the indexes hold, the answer is that of a full scan.

local minikafka = require "minikafka"
local tmp = require "spec.support.tmp"
local collector = require "spec.support.collector"
local random = require "spec.support.random"
local expect = require "spec.support.expect"

local function open(options)
  options = options or {}
  options.clock = minikafka.ManualClock(0)
  return minikafka.open(tmp.path(), options)
end

-- The lowest offset at or after a time, by looking at every record.
local function scan(log, time)
  for offset, _, _, timestamp_ms in log:records() do
    if timestamp_ms >= time then
      return offset, timestamp_ms
    end
  end
end

local function scan_max(log)
  local found, max
  for offset, _, _, timestamp_ms in log:records() do
    if not max or timestamp_ms > max then
      found, max = offset, timestamp_ms
    end
  end
  return found, max
end

local function agrees(log, low, high)
  for time = low, high do
    local offset, timestamp_ms = scan(log, time)
    local got_offset, got_ms = log:offset_for_timestamp(time)
    assert.equal(offset, got_offset)
    assert.equal(timestamp_ms, got_ms)
  end
  local offset, timestamp_ms = scan_max(log)
  local got_offset, got_ms = log:offset_of_max_timestamp()
  assert.equal(offset, got_offset)
  assert.equal(timestamp_ms, got_ms)
end

local function append_times(log, times, per_batch)
  for i = 1, #times, per_batch do
    local records = {}
    for j = i, math.min(i + per_batch - 1, #times) do
      records[#records + 1] = { key = "k" .. j, value = "v",
        timestamp_ms = times[j] }
    end
    log:append(records)
  end
end

describe("log:offset_for_timestamp", function()
  setup(collector.relax)
  teardown(collector.restore)
  after_each(tmp.clean)

  it("finds the lowest offset at or after a time", function()
    local log <close> = open()
    append_times(log, { 2, 4, 6, 8 }, 1)
    for time, offset in pairs { 0, 0, 1, 1, 2, 2, 3, 3 } do
      assert.equal(offset, (log:offset_for_timestamp(time)))
    end
    assert.is_nil((log:offset_for_timestamp(9)))
    assert.equal("integer", math.type(log:offset_for_timestamp(5)))
    assert.equal(6, select(2, log:offset_for_timestamp(5)))
  end)

  it("finds nothing in an empty log", function()
    local log <close> = open()
    assert.is_nil((log:offset_for_timestamp(0)))
    assert.is_nil((log:offset_of_max_timestamp()))
    append_times(log, { 1 }, 1)
    log:delete_records(1)
    assert.is_nil((log:offset_for_timestamp(0)))
    assert.is_nil((log:offset_of_max_timestamp()))
  end)

  it("answers as a scan does, however records lie", function()
    local rng = random.new(7)
    for _, interval in ipairs { 0, 1, 200, 1 << 20 } do
      for _, per_batch in ipairs { 1, 3 } do
        local log <close> = open { segment_bytes = 700,
          index_interval_bytes = interval }
        local times = {}
        for i = 1, 60 do
          times[i] = rng:one_in(8) and -1 or rng:int(0, 90)
        end
        append_times(log, times, per_batch)
        agrees(log, 0, 91)
        log:delete_records(7)
        agrees(log, 0, 91)
        log:delete_records(31)
        agrees(log, 0, 91)
      end
    end
  end)

  it("answers alike after reopening", function()
    local log = open { segment_bytes = 700, index_interval_bytes = 100 }
    local times = {}
    for i = 1, 40 do
      times[i] = i * 37 % 41
    end
    append_times(log, times, 1)
    log:close()
    local again <close> = minikafka.open(log.directory,
      { segment_bytes = 700, index_interval_bytes = 100 })
    assert.equal(40, again.log_end_offset)
    agrees(again, 0, 42)
    append_times(again, { 50, 45, 50 }, 1)
    agrees(again, 0, 51)
  end)

  it("answers alike after a compaction and a truncation", function()
    local log <close> = open { segment_bytes = 500, index_interval_bytes = 1 }
    for i = 0, 59 do
      log:append { key = "k" .. i % 9, value = "v",
        timestamp_ms = i * 37 % 61 }
    end
    minikafka.LogCompactor():compact(log)
    agrees(log, 0, 62)
    log:truncate_to(57)
    agrees(log, 0, 62)
    append_times(log, { 70, 3, 65 }, 1)
    agrees(log, 0, 71)
  end)

  it("takes integers and nothing else", function()
    local log <close> = open()
    for _, wrong in ipairs { "1", 1.5, {}, true } do
      expect.argument_error("offset_for_timestamp", log.offset_for_timestamp,
        log, wrong)
    end
    expect.argument_error("offset_for_timestamp", log.offset_for_timestamp,
      log)
  end)
end)

describe("log:offset_of_max_timestamp", function()
  after_each(tmp.clean)

  it("finds the earliest record that has the greatest time", function()
    local log <close> = open()
    append_times(log, { 5, 9, 3, 9, 1 }, 2)
    assert.same({ 1, 9 }, { log:offset_of_max_timestamp() })
    log:delete_records(2)
    assert.same({ 3, 9 }, { log:offset_of_max_timestamp() })
    log:delete_records(4)
    assert.same({ 4, 1 }, { log:offset_of_max_timestamp() })
  end)
end)
