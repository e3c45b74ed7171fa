-- Faults that users of logs and storage engines reported in public, as inputs
-- with the answer that is right. What is not here has a spec of its own:
-- args, damage, environment, errors, handles, lock, read_only and sparse.

local minikafka = require "minikafka"
local tmp = require "spec.support.tmp"
local state = require "spec.support.state"
local expect = require "spec.support.expect"

local manual = minikafka.ManualClock

local function open(options, dir)
  options = options or {}
  options.clock = options.clock or manual(1000)
  return minikafka.open(dir or tmp.path(), options)
end

local function put(log, key, value, timestamp_ms, headers)
  return log:append { key = key, value = value, timestamp_ms = timestamp_ms,
    headers = headers }
end

local function compact(log, now_ms, grace)
  return minikafka.LogCompactor(manual(now_ms),
    { delete_retention_ms = grace }):compact(log)
end

local function retain(log, now_ms, options)
  return (minikafka.RetentionManager(manual(now_ms)):apply(log, options))
end

local function brief(log)
  return expect.brief(log:fetch(log.log_start_offset))
end

local function fill(log, count)
  for _ = 1, count do
    local offset = log.log_end_offset
    log:append { key = "k" .. offset % 7, value = "v" .. offset,
      timestamp_ms = offset }
  end
end

local function remove_segment(dir, base_offset)
  for _, name in ipairs(tmp.list(dir)) do
    if name:find(("^%020d%%."):format(base_offset))
      and not name:find("snapshot") then
      assert(os.remove(dir .. "/" .. name))
    end
  end
end

describe("compaction cases", function()
  after_each(tmp.clean)

  it("B11: keyless records do not stop it, and stay", function()
    local log <close> = open()
    put(log, nil, "v1")
    put(log, "", "v2")
    put(log, "", "v3")
    put(log, "k", "v")
    put(log, "k", "w")
    log:roll()
    compact(log, 1000)
    assert.same({ "0 -=v1", "2 =v3", "4 k=w" }, brief(log))
  end)

  it("B11: keyless records are refused where the policy says so", function()
    local log = open()
    put(log, nil, "stored before")
    put(log, "k", "1")
    log:close()
    local again <close> = open({ cleanup_policy = "compact" },
      log.directory)
    expect.error("INVALID_RECORD", put, again, nil, "v")
    put(again, "k", "2")
    again:roll()
    compact(again, 1000)
    assert.same({ "0 -=stored before", "2 k=2" }, brief(again))
  end)

  it("B13: an empty value is data, a null value deletes", function()
    local log <close> = open()
    for _, headers in ipairs { {}, { { "h", "v" } } } do
      local suffix = #headers
      put(log, "k1" .. suffix, "x", 0, headers)
      put(log, "k1" .. suffix, "", 0, headers)
      put(log, "k2" .. suffix, "x", 0, headers)
      put(log, "k2" .. suffix, nil, 0, headers)
    end
    log:roll()
    assert.equal("", log:fetch(1)[1].value)
    assert.is_nil(log:fetch(3)[1].value)
    compact(log, 1 << 40, 1000)
    assert.same({ "1 k10=", "5 k11=" }, brief(log))
    assert.equal("", log:fetch(1)[1].value)
  end)

  it("B14: the end is known after everything before it went", function()
    local log = open()
    put(log, "k", "1", 0)
    put(log, "k", nil, 0)
    log:roll()
    compact(log, 9999, 0)
    compact(log, 9999, 0)
    local dir = tmp.copy(log.directory)
    remove_segment(dir, 2)
    local again <close> = open(nil, dir)
    assert.equal(2, again.log_end_offset)
    for offset = 0, 2 do
      local records, next_offset = again:fetch(offset)
      assert.same({}, records)
      assert.equal(2, next_offset)
    end
    assert.equal(2, (put(again, "k", "2")))
  end)
end)

describe("retention cases", function()
  after_each(tmp.clean)

  it("B19: a time in the future holds what is behind it", function()
    for _, far in ipairs { 9000000000000, math.maxinteger,
      1700000000000000 } do
      local log <close> = open { segment_ms = math.maxinteger }
      for _, time in ipairs { 10, far, 20 } do
        put(log, "k", "v", time)
        log:roll()
      end
      put(log, "k", "v", 30)
      assert.same({ 0 }, retain(log, 5000, { retention_ms = 100 }))
      assert.same({}, retain(log, 5000, { retention_ms = 100 }))
      assert.same({}, retain(log, 0, { retention_ms = math.maxinteger }))
      assert.equal(1, log.log_start_offset)
      assert.same({ 1, 2 }, retain(log, 5000, { retention_bytes = 1 }))
    end
  end)

  it("B20: times are taken as given, and none is now", function()
    local now_ms = 1700000000000
    local log <close> = open { clock = manual(now_ms),
      segment_ms = math.maxinteger }
    put(log, "seconds", "v", 1700000000)
    put(log, "zero", "v", 0)
    put(log, "none", "v", -1)
    put(log, "omitted", "v")
    expect.error("INVALID_TIMESTAMP", put, log, "below", "v", -5)
    local times = {}
    for i, record in ipairs(log:fetch(0)) do
      times[i] = record.timestamp_ms
    end
    assert.same({ 1700000000, 0, -1, now_ms }, times)
    log:roll()
    assert.same({}, retain(log, now_ms, { retention_ms = 604800000 }))
  end)

  it("B21: a clock that goes back expires nothing", function()
    local clock = manual(1000)
    local log <close> = open { clock = clock, segment_ms = 100 }
    log:append { value = "at 1000" }
    clock:set_ms(500)
    log:append { value = "at 500" }
    assert.equal(1, #log.segments)
    log:roll()
    assert.same({}, retain(log, 500, { retention_ms = 100 }))
    assert.same({}, retain(log, 500, { retention_ms = 0 }))
    compact(log, 500, 100)
    assert.same({ "0 -=at 1000", "1 -=at 500" }, brief(log))
    assert.same({}, retain(log, 1100, { retention_ms = 100 }))
    assert.same({ 0 }, retain(log, 1101, { retention_ms = 100 }))
  end)

  it("B21: age counts on over a reopening", function()
    local clock = manual(0)
    local log = open { clock = clock }
    log:append { value = "at 0" }
    log:roll()
    clock:set_ms(90)
    log:close()
    clock:set_ms(91)
    local again <close> = open({ clock = clock }, log.directory)
    local manager = minikafka.RetentionManager()
    assert.same({}, (manager:apply(again, { retention_ms = 100 })))
    clock:set_ms(101)
    assert.same({ 0 }, (manager:apply(again, { retention_ms = 100 })))
  end)

  it("B24: a start beyond what is left is the end", function()
    local log <close> = open()
    for _ = 0, 11 do
      put(log, "k", "v", 0)
    end
    local size = log.active_segment.log_bytes // 12
    log:delete_records(10)
    local dir = tmp.copy(log.directory)
    local path = ("%s/%020d.log"):format(dir, 0)
    tmp.write(path, tmp.read(path):sub(1, size * 8))
    local again = open(nil, dir)
    assert.equal(10, again.log_start_offset)
    assert.equal(10, again.log_end_offset)
    assert(again.recovery_point <= 10)
    for offset = 0, 9 do
      expect.error("OFFSET_OUT_OF_RANGE", again.fetch, again, offset)
    end
    assert.equal(10, (put(again, "k", "new")))
    again:close()
    local third <close> = open(nil, dir)
    assert.same({ "10 k=new" }, brief(third))
    assert.equal(11, third.log_end_offset)
  end)

  it("B24: a start is kept where no segment is", function()
    local log <close> = open()
    fill(log, 10)
    log:delete_records(10)
    local dir = tmp.copy(log.directory)
    remove_segment(dir, 0)
    local again <close> = open(nil, dir)
    assert(again.log_start_offset >= 10)
    assert(put(again, "k", "v") >= 10)
  end)

  it("B42: an empty last file does not begin again at 0", function()
    local log <close> = open()
    fill(log, 100)
    log:roll()
    log:delete_closed_segments { 0 }
    local dir = tmp.copy(log.directory)
    tmp.write(("%s/%020d.log"):format(dir, 100), "")
    local again <close> = open(nil, dir)
    assert.equal(100, again.log_start_offset)
    assert.equal(100, (put(again, "k", "v")))
    local gone = tmp.copy(log.directory)
    remove_segment(gone, 100)
    local third <close> = open(nil, gone)
    assert.equal(100, third.log_start_offset)
    assert.equal(100, (put(third, "k", "v")))
  end)
end)

describe("reading cases", function()
  after_each(tmp.clean)

  it("B47: space that is reserved is not read, counted or kept", function()
    local settings = { preallocate = true, segment_bytes = 4096 }
    local log = open(settings)
    for i = 1, 3 do
      put(log, "k" .. i, "v", i)
    end
    local path, used = log.active_segment.path, log.active_segment.log_bytes
    assert.equal(3 * 71, used)
    assert.equal(log.active_segment.size_bytes, log.size_bytes)
    assert(log.size_bytes < 4096)
    assert.equal(3, #log:fetch(0, { max_bytes = 1 << 20 }))
    local dead <close> = open(settings, tmp.copy(log.directory))
    assert.equal(3, #dead:fetch(0))
    assert.equal(3, (put(dead, "k", "v")))
    log:roll()
    assert.equal(used, #tmp.read(path))
    put(log, "k1", "w", 4)
    compact(log, 1000)
    assert.equal(log.segments[1].log_bytes,
      #tmp.read(log.segments[1].path))
    assert.equal(3, #log:fetch(0))
    path = log.active_segment.path
    used = log.active_segment.log_bytes
    log:close()
    assert.equal(used, #tmp.read(path))
  end)

  it("B51: a record over the limit is given whole, alone", function()
    local log <close> = open()
    for _, size in ipairs { 10, 5000, 10 } do
      put(log, nil, ("x"):rep(size))
    end
    for _, limit in ipairs { 0, 1, 9, 10, 16 } do
      for offset, size in pairs { [0] = 10, [1] = 5000, [2] = 10 } do
        local records, next_offset = log:fetch(offset,
          { max_bytes = limit })
        assert.equal(1, #records)
        assert.equal(size, #records[1].value)
        assert.equal(offset + 1, next_offset)
      end
    end
    for _, limit in ipairs { 4999, 5000 } do
      assert.equal(1, #log:fetch(1, { max_bytes = limit }))
      assert.equal(1, #log:fetch(0, { max_bytes = limit }))
    end
    for _, limit in ipairs { 1 << 31, 1 << 32, math.maxinteger } do
      assert.equal(3, #log:fetch(0, { max_bytes = limit }))
      assert.equal(3, #log:fetch(0, limit))
    end
    expect.error("INVALID_ARGUMENT", log.fetch, log, 0, { max_bytes = -1 })
    expect.error("INVALID_ARGUMENT", log.fetch, log, 0,
      { max_bytes = math.mininteger })
  end)

  -- The lowest offset at or after each time in 0..high, "-" for none.
  local function whens(log, high)
    local found = {}
    for time = 0, high do
      found[#found + 1] = tostring(log:offset_for_timestamp(time) or "-")
    end
    return table.concat(found, " ")
  end

  it("B52: (1) times that ascend, in four batches and in one", function()
    for _, as_one in ipairs { false, true } do
      local log <close> = open()
      local records = {}
      for i, time in ipairs { 2, 4, 6, 8 } do
        records[i] = { value = "v", timestamp_ms = time }
      end
      if as_one then
        log:append(records)
      else
        for _, record in ipairs(records) do
          log:append(record)
        end
      end
      assert.equal("0 0 0 1 1 2 2 3 3 -", whens(log, 9))
    end
  end)

  it("B52: (2) times that do not ascend, over two segments", function()
    for _, interval in ipairs { 1, 1 << 20 } do
      local log <close> = open { index_interval_bytes = interval }
      for i, time in ipairs { 5, 9, 3, 7, 1, 8 } do
        put(log, "k", "v", time)
        if i == 3 then
          log:roll()
        end
      end
      assert.equal("0 0 0 0 0 0 1 1 1 1 -", whens(log, 10))
      log:delete_records(2)
      assert.equal("2 2 2 2 3 3 3 3 5 - -", whens(log, 10))
    end
  end)

  it("B52: (3) after a compaction took the answer", function()
    local log <close> = open { index_interval_bytes = 1 }
    put(log, "a", "1", 5)
    put(log, "b", "1", 3)
    put(log, "a", "2", 4)
    log:roll()
    compact(log, 1000)
    assert.equal("1 1 1 1 2 - -", whens(log, 6))
  end)

  it("B52: (4) after retention took everything", function()
    local log <close> = open()
    put(log, "a", "1", 5)
    log:delete_records(1)
    assert.equal("- -", whens(log, 1))
    put(log, "a", "1", 3)
    assert.equal("1 1 1 1 -", whens(log, 4))
  end)

  it("B52: (5) without any times", function()
    local log <close> = open()
    put(log, "a", "1", -1)
    put(log, "b", "1", -1)
    assert.equal("- -", whens(log, 1))
  end)

  it("B52: (6) times at the ends of what a time can be", function()
    local log <close> = open { segment_ms = math.maxinteger }
    put(log, "a", "1", 3)
    assert.is_nil((log:offset_for_timestamp(math.maxinteger)))
    put(log, "b", "1", math.maxinteger)
    assert.equal(1, (log:offset_for_timestamp(math.maxinteger)))
    for _, time in ipairs { -1, -2, math.mininteger } do
      assert.equal(0, (log:offset_for_timestamp(time)))
    end
  end)

  it("B55: a reader at the end while segments come", function()
    local log <close> = open()
    local cursor <close> = log:cursor()
    for offset = 0, 29 do
      put(log, "k", "v" .. offset)
      log:roll()
      local records = state.collect(cursor)
      assert.equal(1, #records)
      assert.equal("v" .. offset, records[1].value)
      assert.same({}, (log:fetch(offset + 1)))
    end
  end)

  it("B55: an iterator whose segment goes", function()
    for _, change in ipairs {
      function(log) log:delete_closed_segments { 0 } end,
      function(log) compact(log, 1000) end,
      function(log) log:delete_records(20) end,
      function(log) log:truncate_to(3) end,
    } do
      local log <close> = open()
      fill(log, 20)
      log:roll()
      fill(log, 5)
      local last = -1
      local done, raised = pcall(function()
        for offset, key, value in log:records() do
          assert(offset > last)
          assert.equal("k" .. offset % 7, key)
          assert.equal("v" .. offset, value)
          if offset == 1 then
            change(log)
          end
          last = offset
        end
      end)
      assert(done and last == log.log_end_offset - 1
        or done and last == 24
        or minikafka.is_error(raised, "OFFSET_OUT_OF_RANGE"),
        tostring(raised))
      assert(last >= 1)
    end
  end)
end)

describe("argument cases", function()
  after_each(tmp.clean)

  it("B71: the ends of the integers wrap nowhere", function()
    local log <close> = open()
    fill(log, 3)
    for _, offset in ipairs { math.mininteger, math.maxinteger, 1 << 31,
      -(1 << 31), 1 << 32 } do
      expect.error("OFFSET_OUT_OF_RANGE", log.fetch, log, offset)
      expect.error("OFFSET_OUT_OF_RANGE", log.cursor, log,
        { from = offset })
      assert.is_boolean(log:wait(offset, 0))
    end
    assert.equal(3, #log:fetch(0, math.maxinteger))
    assert.equal(3, #log:fetch(0, { end_offset = math.maxinteger }))
    assert.equal(0, #log:fetch(0, { end_offset = math.mininteger }))
    log:truncate_to(math.maxinteger)
    expect.error("OFFSET_OUT_OF_RANGE", log.delete_records, log,
      math.maxinteger)
    assert.equal(3, log.log_end_offset)
  end)

  it("B74: a length that a table claims is not believed", function()
    local log <close> = open()
    local liar = setmetatable({}, { __len = function()
      return 1 << 31
    end })
    assert.is_false((pcall(log.append, log, liar)))
    assert.is_false((pcall(log.append, log, { headers = liar, 1 })))
    assert.equal(0, log.log_end_offset)
  end)
end)
