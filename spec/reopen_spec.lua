-- What closing and opening keep: everything. What a death keeps: every append
-- that returned.

local minikafka = require "minikafka"
local tmp = require "spec.support.tmp"
local state = require "spec.support.state"
local expect = require "spec.support.expect"

local function open(dir, options)
  options = options or {}
  options.clock = options.clock or minikafka.ManualClock(0)
  return minikafka.open(dir or tmp.path(), options)
end

local function put(log, from, to)
  for i = from, to do
    log:append { key = "k" .. i % 5, value = "v" .. i, timestamp_ms = i }
  end
end

-- Close and open again.
local function reopen(log, options)
  log:close()
  return open(log.directory, options)
end

-- Open a copy of the directory as it is now.
local function die(log, options)
  return open(tmp.copy(log.directory), options)
end

local ways = { ["a reopening"] = reopen, ["a death"] = die }

-- An `it` for each way to come back.
local function each_way(name, body)
  for way, come_back in pairs(ways) do
    it(name .. " over " .. way, function()
      body(come_back)
    end)
  end
end

describe("a log keeps", function()
  after_each(tmp.clean)

  each_way("its records and segments", function(come_back)
    local options = { segment_bytes = 400, index_interval_bytes = 100 }
    local log = open(nil, options)
    put(log, 0, 49)
    log:append { { key = "", value = "" }, { value = "\0" }, { key = "t",
      headers = { { "h", "1" }, { "n" } } } }
    local before = state.text(state.of(log))
    local again <close> = come_back(log, options)
    assert.equal(before, state.text(state.of(again)))
    assert.equal(53, again:append { value = "next" })
    assert.equal(54, again.log_end_offset)
  end)

  -- Zeros stand behind its end then, which are nobody's business.
  each_way("what was synced record by record", function(come_back)
    local log = open()
    for i = 1, 40 do
      log:append({ value = "v" .. i, timestamp_ms = i }, { durable = true })
    end
    local before = state.text(state.of(log))
    assert.equal(0, #log:verify())
    local reader <close> = open(log.directory, { read_only = true })
    assert.equal(before, state.text(state.of(reader)))
    local path = tmp.path()
    log:copy_to(path)
    local copy <close> = open(path)
    assert.equal(before, state.text(state.of(copy)))
    assert.equal(0, copy:stats().truncated_bytes)
    local again <close> = come_back(log)
    assert.equal(before, state.text(state.of(again)))
    assert.equal(0, #again:verify())
    assert.equal(40, again:append { value = "next" })
  end)

  each_way("being empty", function(come_back)
    local log = open()
    local again <close> = come_back(log)
    assert.equal(0, again.log_start_offset)
    assert.equal(0, again.log_end_offset)
    assert.equal(1, #again.segments)
    assert.equal(0, again:append { value = "v" })
  end)

  each_way("an empty active segment", function(come_back)
    local log = open()
    put(log, 0, 4)
    log:roll()
    local before = state.text(state.of(log))
    local again <close> = come_back(log)
    assert.equal(before, state.text(state.of(again)))
    assert.equal(2, #again.segments)
    assert.equal(5, again:append { value = "v" })
    assert.equal(2, #again.segments)
  end)

  each_way("its end when the last records were compacted away",
    function(come_back)
      local log = open()
      log:append { key = "k", value = "1", timestamp_ms = 0 }
      log:append { key = "k", timestamp_ms = 0 }
      log:roll()
      local compactor = minikafka.LogCompactor(minikafka.ManualClock(9999),
        { delete_retention_ms = 0 })
      compactor:compact(log)
      compactor:compact(log)
      local again <close> = come_back(log)
      assert.equal(2, again.log_end_offset)
      assert.equal(0, again.log_start_offset)
      for offset = 0, 2 do
        local records, next_offset = again:fetch(offset)
        assert.same({}, records)
        assert.equal(2, next_offset)
      end
      assert.equal(2, again:append { value = "v" })
    end)

  each_way("its start after retention", function(come_back)
    local log = open()
    put(log, 0, 2)
    log:roll()
    log:delete_closed_segments { 0 }
    local again <close> = come_back(log)
    assert.equal(3, again.log_start_offset)
    assert.equal(3, again.log_end_offset)
    assert.equal(3, again:append { value = "v" })
  end)

  each_way("its start after all records were deleted", function(come_back)
    local log = open()
    put(log, 0, 5)
    log:delete_records(6)
    local again <close> = come_back(log)
    assert.equal(6, again.log_start_offset)
    assert.equal(6, again.log_end_offset)
    assert.same({}, (again:fetch(6)))
    assert.equal(6, again:append { value = "v" })
    assert.same({ "6 -=v" }, expect.brief(again:fetch(6)))
  end)

  each_way("appends that were never flushed", function(come_back)
    local log = open()
    local out <close> = log:appender()
    for i = 0, 9 do
      log:append_kv(nil, "v" .. i)
    end
    out:append_kv(nil, "sent")
    out:flush()
    out:append_kv(nil, "only buffered")
    if come_back == reopen then
      out:flush()
    end
    local again <close> = come_back(log)
    assert.equal(come_back == reopen and 12 or 11, again.log_end_offset)
    assert.equal("sent", again:fetch(10)[1].value)
  end)

  each_way("being what it is, many times", function(come_back)
    local log = open(nil, { index_interval_bytes = 1 })
    for round = 0, 19 do
      put(log, round * 2, round * 2 + 1)
      log = come_back(log, { index_interval_bytes = 1,
        segment_bytes = 300 + round * 10 })
      assert.equal(round * 2 + 2, log.log_end_offset)
    end
    local records = log:fetch(0)
    assert.equal(40, #records)
    for i, record in ipairs(records) do
      assert.equal("v" .. i - 1, record.value)
    end
    log:close()
  end)
end)

describe("opening", function()
  after_each(tmp.clean)

  it("makes missing parents, unless told not to create", function()
    local dir = tmp.path() .. "/a/b/c"
    local raised = expect.error("NOT_FOUND", open, dir, { create = false })
    assert.truthy(raised.path)
    assert.is_nil(tmp.read(dir))
    expect.error("NOT_FOUND", open, dir, { read_only = true })
    local log = open(dir)
    log:append { value = "v" }
    log:close()
    local again <close> = open(dir, { create = false })
    assert.equal(1, again.log_end_offset)
    assert.equal(dir, again.directory)
  end)

  it("refuses a file in its place", function()
    local path = tmp.path()
    tmp.write(path, "a file")
    local raised = expect.error("IO", open, path)
    assert.equal("ENOTDIR", raised.errno)
    assert.equal("a file", tmp.read(path))
  end)

  it("names the nearest option for an unknown one", function()
    local path = tmp.path()
    local raised = expect.error("INVALID_ARGUMENT", open, path,
      { readonly = true })
    assert.equal("read_only", raised.nearest)
    expect.argument_error("segment_bytes", open, path,
      { segment_bytes = "100" })
    expect.argument_error("read_only", open, path, { read_only = 1 })
    expect.argument_error("open", minikafka.open)
    expect.argument_error("open", minikafka.open, {})
    assert.is_nil(os.rename(path, path))
  end)

  it("is PartitionLog.open, too", function()
    local log <close> = minikafka.PartitionLog.open(tmp.path())
    assert.equal(0, log:append { value = "v" })
  end)

  it("tells the settings in force", function()
    local log <close> = open(nil, { segment_bytes = 1000,
      cleanup_policy = "compact", min_cleanable_dirty_ratio = 0.25,
      preallocate = false })
    assert.equal(1000, log.config.segment_bytes)
    assert.equal("compact", log.config.cleanup_policy)
    assert.equal(0.25, log.config.min_cleanable_dirty_ratio)
    assert.is_false(log.config.preallocate)
    assert.equal(4096, log.config.index_interval_bytes)
    assert.equal(-1, log.config.retention_ms)
  end)

  it("flushes at the end, and marks it clean", function()
    local log = open()
    put(log, 0, 9)
    log:close()
    local again <close> = open(log.directory)
    assert.equal(10, again.recovery_point)
  end)
end)

describe("an old time", function()
  after_each(tmp.clean)

  -- The first batch of the active segment is 500 bytes after the last entry.
  it("does not disturb indexes that were cut at a close", function()
    local options = { index_interval_bytes = 100 }
    local log = open(nil, options)
    for i = 1, 30 do
      log:append { key = "k", value = ("x"):rep(40), timestamp_ms = 100 - i }
      if i % 10 == 0 then
        log = reopen(log, options)
      end
    end
    for time = 65, 101 do
      local offset = log:offset_for_timestamp(time)
      assert.equal(time <= 99 and 0 or nil, offset)
    end
    for offset = 0, 29 do
      assert.equal(offset, log:fetch(offset, 1)[1].offset)
    end
    log:close()
  end)
end)

describe("an index", function()
  -- Counting starts again with each opening, as Kafka has it: what is made anew
  -- has other entries.
  it("that was lost is made anew once", function()
    local disk = minikafka.SimDisk()
    local options = { io = disk, index_interval_bytes = 0 }
    local function look(expected)
      local log = open("/logs/t-0", options)
      local path, changes = log.segments[1].path:gsub("log$", "index"), 0
      disk:trace(function(event)
        if event.op == "write" and event.path == path then
          changes = changes + 1
        end
      end)
      assert.equal(7, log:fetch(7, 1)[1].offset)
      disk:trace(nil)
      assert.equal(expected, changes)
      log:close()
      return path
    end
    local log = open("/logs/t-0", options)
    put(log, 0, 4)
    log:close()
    log = open("/logs/t-0", options)
    put(log, 5, 9)
    log:roll()
    put(log, 10, 10)
    log:close()
    local path = look(0)
    disk:damage(path, { cut = 0 })
    look(1)
    look(0)
  end)
end)
