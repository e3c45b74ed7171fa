-- Logs with holes: gaps in batches, batches that went, segments without a
-- record, and what reading and appending make of them.

local minikafka = require "minikafka"
local tmp = require "spec.support.tmp"
local state = require "spec.support.state"
local expect = require "spec.support.expect"

local options = { clock = minikafka.ManualClock(0), index_interval_bytes = 1 }

local function compact(log)
  minikafka.LogCompactor(minikafka.ManualClock(1 << 40),
    { delete_retention_ms = 0 }):compact(log)
end

-- Append keys as one batch; "x" is superseded by what `finish` appends.
local function batch(log, ...)
  local records = {}
  for i, key in ipairs { ... } do
    records[i] = { key = key, value = key .. log.log_end_offset + i - 1,
      timestamp_ms = log.log_end_offset + i - 1 }
  end
  return log:append(records)
end

local function offsets(records)
  local list = {}
  for i, record in ipairs(records) do
    list[i] = record.offset
  end
  return list
end

-- Run `check` on a log that `make` makes: as it is, reopened, and after a death.
local function in_all_states(make, check)
  local log <close> = make()
  check(log)
  local dead <close> = minikafka.open(tmp.copy(make().directory), options)
  check(dead)
  local closed = make()
  closed:close()
  local again <close> = minikafka.open(closed.directory, options)
  check(again)
end

describe("B48: an offset cleaned away at the end of a segment", function()
  after_each(tmp.clean)

  -- @0, a hole up to 24, @25, and the active segment with nothing in it.
  local function hole()
    local log = minikafka.open(tmp.path(), options)
    batch(log, "kept")
    for _ = 1, 3 do
      batch(log, "x", "x", "x", "x", "x", "x", "x", "x")
      log:roll()
    end
    batch(log, "x")
    log:roll()
    compact(log)
    return log
  end

  it("B48: reads on at the next record", function()
    in_all_states(hole, function(each)
      assert.equal(26, each.log_end_offset)
      for offset = 0, 25 do
        local expected = offset == 0 and { 0, 25 } or { 25 }
        local records, next_offset = each:fetch(offset)
        assert.same(expected, offsets(records))
        assert.equal(26, next_offset)
        assert.same(expected, offsets(state.collect(each:records(offset))))
        local cursor <close> = each:cursor { from = offset }
        assert.same(expected, offsets(state.collect(cursor)))
      end
      assert.same({}, (each:fetch(26)))
      expect.error("OFFSET_OUT_OF_RANGE", each.fetch, each, 27)
      expect.error("OFFSET_OUT_OF_RANGE", each.fetch, each, -1)
    end)
  end)

  it("B48: goes through segments without any record", function()
    in_all_states(function()
      local log = minikafka.open(tmp.path(), options)
      batch(log, "x")
      batch(log, "x")
      log:roll()
      batch(log, "x")
      compact(log) -- Two segments; the first has no record.
      log:roll()
      return log
    end, function(each)
      assert.same({ 2 }, offsets(each:fetch(0)))
      assert.same({ 2 }, offsets(each:fetch(1)))
      assert.same({}, (each:fetch(3)))
    end)
  end)
end)

describe("B49: a batch whose last records went", function()
  after_each(tmp.clean)

  -- A batch 0..9 of which 0..6 survive, then a batch at 10.
  local function scene()
    local log = minikafka.open(tmp.path(), options)
    batch(log, "a", "b", "c", "d", "e", "f", "g", "x", "y", "z")
    batch(log, "x", "y", "z")
    log:roll()
    compact(log)
    return log
  end

  it("B49: reads on behind its range, however small the limit", function()
    in_all_states(scene, function(log)
      local first = log:batches()()
      assert.same({ 0, 9, 7 }, { first.base_offset, first.last_offset,
        first.record_count })
      for offset = 7, 9 do
        for _, max_bytes in ipairs { 0, 1, first.size_bytes } do
          local records = log:fetch(offset, 1, { max_bytes = max_bytes })
          assert.same({ 10 }, offsets(records))
        end
      end
      local seen, offset = {}, 0
      while offset < log.log_end_offset do
        local records, next_offset = log:fetch(offset, 3)
        assert(next_offset > offset)
        table.move(offsets(records), 1, #records, #seen + 1, seen)
        offset = next_offset
      end
      assert.same({ 0, 1, 2, 3, 4, 5, 6, 10, 11, 12 }, seen)
    end)
  end)

  it("B49: goes on by the last record plus one, too", function()
    in_all_states(scene, function(log)
      local seen, offset = {}, 0
      repeat
        local records = log:fetch(offset, 2)
        for _, record in ipairs(records) do
          seen[#seen + 1] = record.offset
          offset = record.offset + 1
        end
      until #records == 0
      assert.same({ 0, 1, 2, 3, 4, 5, 6, 10, 11, 12 }, seen)
    end)
  end)
end)

describe("a log with gaps", function()
  after_each(tmp.clean)

  local function scene()
    local log = minikafka.open(tmp.path(), options)
    batch(log, "a", "x", "b", "x", "x")
    batch(log, "x", "x")
    batch(log, "x", "c", "x")
    log:roll()
    batch(log, "x", "d")
    compact(log)
    return log
  end

  it("appends at its end, and reads all of it", function()
    in_all_states(scene, function(log)
      assert.equal(12, log.log_end_offset)
      assert.equal(12, (batch(log, "e")))
      log:roll()
      assert.equal(13, (batch(log, "f")))
      assert.same({ 0, 2, 8, 10, 11, 12, 13 }, offsets(log:fetch(0)))
      assert.same({ 8, 10 }, offsets(log:fetch(3, 2)))
    end)
  end)

  it("looks times up across them", function()
    in_all_states(scene, function(log)
      for time, offset in pairs { [0] = 0, [1] = 2, [2] = 2, [3] = 8,
        [8] = 8, [9] = 10, [11] = 11 } do
        assert.equal(offset, (log:offset_for_timestamp(time)))
      end
      assert.is_nil((log:offset_for_timestamp(12)))
    end)
  end)

  it("is compacted again, and again", function()
    local log <close> = scene()
    for round = 1, 3 do
      batch(log, "d", "a")
      log:roll()
      compact(log)
      local last = log.log_end_offset - 1
      assert.same({ 2, 8, 10, last - 1, last }, offsets(log:fetch(0)))
      assert.equal(12 + round * 2, log.log_end_offset)
      assert.equal(0, log.log_start_offset)
    end
  end)

  it("deletes records up to a place inside one", function()
    in_all_states(function()
      local log = scene()
      log:delete_records(4)
      return log
    end, function(each)
      assert.equal(4, each.log_start_offset)
      assert.same({ 8, 10, 11 }, offsets(each:fetch(4)))
      expect.error("OFFSET_OUT_OF_RANGE", each.fetch, each, 3)
      assert.same({ 8, 10, 11 }, offsets(state.collect(each:records())))
    end)
  end)

  it("is cut at a place inside one", function()
    local log <close> = scene()
    log:truncate_to(6)
    assert.equal(6, log.log_end_offset)
    assert.same({ 0, 2 }, offsets(log:fetch(0)))
    assert.equal(6, (batch(log, "g")))
    assert.same({ 0, 2, 6 }, offsets(log:fetch(0)))
  end)

  it("begins with a gap at its very start", function()
    in_all_states(function()
      local log = minikafka.open(tmp.path(), options)
      batch(log, "x", "x", "x")
      batch(log, "x", "a")
      log:roll()
      batch(log, "x")
      compact(log)
      return log
    end, function(each)
      assert.equal(0, each.log_start_offset)
      assert.equal(0, each.segments[1].base_offset)
      assert.same({ 4, 5 }, offsets(each:fetch(0)))
      assert.same({ 4, 5 }, offsets(each:fetch(3)))
      assert.same({ 4 }, offsets(each:fetch(0, { end_offset = 5 })))
      assert.same({}, (each:fetch(0, { end_offset = 4 })))
    end)
  end)
end)
