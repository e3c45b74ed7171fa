-- The experiment of the chapter on retention and compaction, and what its
-- exercises have to show, with the chapter's own numbers.

local minikafka = require "minikafka"
local tmp = require "spec.support.tmp"
local expect = require "spec.support.expect"

local manual = minikafka.ManualClock

-- Append {key, value, time} triples as one batch.
local function append(log, ...)
  local records = {}
  for i, item in ipairs { ... } do
    records[i] = { key = item[1], value = item[2], timestamp_ms = item[3] }
  end
  return log:append(records)
end

describe("the chapter", function()
  after_each(tmp.clean)

  local function open()
    return minikafka.open(tmp.path(), { index_interval_bytes = 1 })
  end

  -- Three closed segments with these times, and an active one at 250.
  local function with_times(times)
    local log = open()
    for _, timestamp_ms in ipairs(times) do
      append(log, { nil, tostring(timestamp_ms), timestamp_ms })
      log:roll()
    end
    append(log, { nil, "250", 250 })
    return log
  end

  it("deletes the expired prefix in its experiment", function()
    local log <close> = with_times { 0, 50, 150 }

    local deleted = minikafka.RetentionManager(manual(300)):apply(log,
      { retention_ms = 100, retention_bytes = nil })

    assert.same({ 0, 1, 2 }, deleted)
    assert.equal(3, log.log_start_offset)
    assert.equal(4, log.log_end_offset)
    assert.same({ "3 -=250" }, expect.brief(log:fetch(3)))
    local raised = expect.error("OFFSET_OUT_OF_RANGE", log.fetch, log, 2)
    assert.equal(2, raised.requested)
    assert.equal(3, raised.log_start_offset)
    assert.equal(4, raised.log_end_offset)
  end)

  it("compacts keyed state in its experiment", function()
    local log <close> = open()
    append(log, { "a", "1", 0 }, { "b", "x", 1 })
    log:roll()
    append(log, { "a", "2", 2 }, { nil, "event", 3 })
    log:roll()
    append(log, { "active", "keep", 4 })

    local result = minikafka.LogCompactor(manual(10),
      { delete_retention_ms = 1000 }):compact(log)

    assert.same({ 0, 2 }, result.source_segments)
    assert.equal(4, result.records_before)
    assert.equal(3, result.records_after)
    assert.same({ "1 b=x", "2 a=2", "3 -=event", "4 active=keep" },
      expect.brief(log:fetch(0, 10)))
    assert.equal(0, log.log_start_offset)
    assert.equal(5, log.log_end_offset)
    assert.equal(2, #log.segments)
    assert.equal(0, log.segments[1].base_offset)
    assert.equal(4, log.segments[2].base_offset)
  end)

  it("deletes nothing behind an unexpired segment: exercise 1", function()
    local log <close> = with_times { 250, 0, 0 }

    local deleted = minikafka.RetentionManager(manual(300)):apply(log,
      { retention_ms = 100 })

    assert.same({}, deleted)
    assert.equal(0, log.log_start_offset)
    assert.equal(4, #log.segments)
  end)

  -- Compact a=1 at 0 and a=nil at 100 at a given time, 1000 ms of grace.
  local function compact_tombstone(now_ms)
    local log <close> = open()
    append(log, { "a", "1", 0 })
    append(log, { "a", nil, 100 })
    log:roll()
    local result = minikafka.LogCompactor(manual(now_ms),
      { delete_retention_ms = 1000 }):compact(log)
    assert.equal(2, log.log_end_offset)
    return expect.brief(log:fetch(0)), result.records_after
  end

  it("keeps a young tombstone at its offset: exercise 2", function()
    local records, after = compact_tombstone(500)
    assert.same({ "1 a=-" }, records)
    assert.equal(1, after)
  end)

  it("drops an old tombstone and its value: exercise 2", function()
    local records, after = compact_tombstone(2000)
    assert.same({}, records)
    assert.equal(0, after)
  end)
end)
