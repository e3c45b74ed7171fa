-- Compaction as the chapter has it: one compacted segment of what is latest.

local minikafka = require "minikafka"
local tmp = require "spec.support.tmp"
local state = require "spec.support.state"
local expect = require "spec.support.expect"

local function open(options)
  options = options or {}
  options.clock = options.clock or minikafka.ManualClock(1000)
  return minikafka.open(tmp.path(), options)
end

local function compact(log, now_ms, options)
  return minikafka.LogCompactor(minikafka.ManualClock(now_ms or 1000),
    options):compact(log)
end

local function bases(segments)
  local list = {}
  for i, segment in ipairs(segments) do
    list[i] = segment.base_offset
  end
  return list
end

local function brief(log)
  return expect.brief(log:fetch(log.log_start_offset))
end

-- Append records given as {key, value, time}, each a batch of its own.
local function put(log, ...)
  for _, item in ipairs { ... } do
    log:append { key = item[1], value = item[2], timestamp_ms = item[3] or 0 }
  end
end

describe("compaction", function()
  after_each(tmp.clean)

  it("keeps the latest record of a key, by offset", function()
    local log <close> = open()
    put(log, { "a", "old", 99 }, { "b", "1" }, { "a", "new", 5 })
    log:roll()
    local result = compact(log)
    assert.same({ "1 b=1", "2 a=new" }, brief(log))
    assert.equal(3, result.records_before)
    assert.equal(2, result.records_after)
    assert.same({ 0 }, result.source_segments)
    assert.same({ 0 }, result.new_segments)
    assert.same({}, result.deleted)
    assert(result.bytes_after < result.bytes_before)
    assert.equal(3, log.log_end_offset)
  end)

  it("counts the active segment for what is latest", function()
    local log <close> = open()
    put(log, { "a", "old" }, { "b", "kept" })
    log:roll()
    put(log, { "a", "new" }, { "a", "newer" })
    compact(log)
    assert.same({ "1 b=kept", "2 a=new", "3 a=newer" }, brief(log))
    assert.same({ 0, 2 }, bases(log.segments))
  end)

  it("does nothing without a closed segment", function()
    local log <close> = open()
    put(log, { "a", "1" }, { "a", "2" })
    local before = tmp.read(log.active_segment.path)
    local result = compact(log, 1000, { before_swap = function()
      error("called")
    end })
    assert.same({}, result.source_segments)
    assert.same({}, result.new_segments)
    assert.equal(0, result.records_before)
    assert.equal(0, result.records_after)
    assert.same({ "0 a=1", "1 a=2" }, brief(log))
    assert.equal(before, tmp.read(log.active_segment.path))
  end)

  it("makes one segment of all closed ones, needed or not", function()
    local log <close> = open()
    put(log, { "a", "1" })
    log:roll()
    put(log, { "b", "1" })
    log:roll()
    local called = 0
    local result = compact(log, 1000, { before_swap = function()
      called = called + 1
    end })
    assert.equal(1, called)
    assert.same({ 0, 1 }, result.source_segments)
    assert.equal(2, result.records_after)
    assert.same({ 0, 2 }, bases(log.segments))
    assert.same({ 0 }, compact(log).source_segments)
    assert.same({ 0, 2 }, bases(log.segments))
  end)

  it("keeps keyless records, empty keys and empty values apart", function()
    local log <close> = open()
    put(log, { nil, "event" }, { "", "old" }, { nil, nil }, { "", "" },
      { "\0", "1" }, { "\0\0", "2" }, { "\0", "3" })
    log:roll()
    compact(log, 1 << 40, { delete_retention_ms = 0 })
    assert.same({ "0 -=event", "2 -=-", "3 =", "5 \0\0=2", "6 \0=3" },
      brief(log))
    assert.is_nil(log:fetch(2)[1].key)
    assert.is_nil(log:fetch(2)[1].value)
    assert.equal("", log:fetch(3)[1].key)
    assert.equal("", log:fetch(3)[1].value)
  end)

  it("keeps a tombstone until it is older than its grace", function()
    for now_ms, kept in pairs { [1100] = true, [1101] = false, [50] = true } do
      local log <close> = open()
      put(log, { "a", "1", 0 }, { "a", nil, 100 }, { "z", "1", 0 })
      log:roll()
      compact(log, now_ms, { delete_retention_ms = 1000 })
      assert.same(kept and { "1 a=-", "2 z=1" } or { "2 z=1" }, brief(log))
    end
  end)

  it("gives a superseded tombstone no grace", function()
    local log <close> = open()
    put(log, { "a", nil, 1000 }, { "a", "back", 1000 })
    log:roll()
    compact(log, 1000, { delete_retention_ms = 1 << 40 })
    assert.same({ "1 a=back" }, brief(log))
  end)

  it("never brings an older value back", function()
    local log <close> = open()
    put(log, { "a", "1", 0 })
    log:roll()
    put(log, { "a", "2", 0 })
    log:roll()
    put(log, { "a", nil, 0 })
    compact(log, 1 << 40, { delete_retention_ms = 0 })
    assert.same({ "2 a=-" }, brief(log)) -- Active: stays, however old.
    log:roll()
    compact(log, 1 << 40, { delete_retention_ms = 0 })
    assert.same({}, brief(log))
    assert.equal(3, log.log_end_offset)
  end)

  it("takes the log's delete_retention_ms where it is not told", function()
    local log <close> = open { delete_retention_ms = 7 }
    put(log, { "a", nil, 0 }, { "z", "1", 0 })
    log:roll()
    compact(log, 7)
    assert.same({ "0 a=-", "1 z=1" }, brief(log))
    compact(log, 8)
    assert.same({ "1 z=1" }, brief(log))
  end)

  it("takes its options in one table, or none", function()
    local clock = minikafka.ManualClock(500)
    local log <close> = open { clock = clock, delete_retention_ms = 100 }
    put(log, { "a", nil, 450 }, { "b", nil, 0 }, { "z", "1" })
    log:roll()
    minikafka.LogCompactor():compact(log)
    assert.same({ "0 a=-", "2 z=1" }, brief(log))
    minikafka.LogCompactor { clock = minikafka.ManualClock(551),
      delete_retention_ms = 100 }:compact(log)
    assert.same({ "2 z=1" }, brief(log))
  end)

  it("reads its clock once", function()
    local calls = 0
    local log <close> = open()
    put(log, { "a", nil }, { "b", nil }, { "c", nil })
    log:roll()
    minikafka.LogCompactor(function()
      calls = calls + 1
      return 1000
    end):compact(log)
    assert.equal(1, calls)
  end)

  it("keeps what batches are made of", function()
    local log <close> = open()
    log:append({ { key = "a", value = "1", timestamp_ms = 5 },
      { key = "b", value = "2", timestamp_ms = 7,
        headers = { { "h", "1" }, { "n" } } },
      { key = "a", value = "3", timestamp_ms = 6 },
      { key = "c", value = "4", timestamp_ms = 3 } }, { leader_epoch = 4 })
    log:append { key = "c", value = "5", timestamp_ms = 1 }
    log:append { key = "gone", value = "6" }
    log:append { key = "gone", value = "7" }
    log:roll()
    compact(log)
    local shown = {}
    for batch in log:batches() do
      shown[#shown + 1] = ("%d-%d %d"):format(batch.base_offset,
        batch.last_offset, batch.record_count)
    end
    assert.same({ "0-3 2", "4-4 1", "6-6 1" }, shown)
    local epoch = (">i4"):unpack(tmp.read(log.segments[1].path), 13)
    assert.equal(4, epoch)
    assert.equal(state.records {
      { offset = 1, key = "b", value = "2", timestamp_ms = 7,
        headers = { { "h", "1" }, { "n" } } },
      { offset = 2, key = "a", value = "3", timestamp_ms = 6 },
    }, state.records(log:fetch(0, { end_offset = 4 })))
  end)

  it("leaves the log's start, and an empty segment there", function()
    local log <close> = open()
    put(log, { "a", "1" }, { "b", "2" }, { "b", nil }, { "a", nil })
    log:roll()
    compact(log, 1 << 40, { delete_retention_ms = 0 })
    assert.equal(0, log.log_start_offset)
    assert.equal(4, log.log_end_offset)
    assert.same({ 0, 4 }, bases(log.segments))
    assert.equal(-1, log.segments[1].max_timestamp_ms)
    assert.equal(0, log.segments[1].next_offset)
    local records, next_offset = log:fetch(0)
    assert.same({}, records)
    assert.equal(4, next_offset)
    assert.equal(4, log:append_kv("c", "3"))
  end)

  it("has its segment at the log's start after retention", function()
    local log <close> = open()
    put(log, { "x", "1" })
    log:roll()
    put(log, { "a", "1" }, { "a", "2" })
    log:roll()
    log:delete_closed_segments { 0 }
    compact(log)
    assert.equal(1, log.log_start_offset)
    assert.same({ 1, 3 }, bases(log.segments))
    assert.same({ "2 a=2" }, brief(log))
  end)

  it("keeps the start where records were deleted inside a batch", function()
    local log <close> = open()
    log:append { { key = "a", value = "1" }, { key = "b", value = "2" },
      { key = "c", value = "3" } }
    put(log, { "c", "4" })
    log:roll()
    log:delete_records(1)
    compact(log)
    assert.equal(1, log.log_start_offset)
    assert.same({ "1 b=2", "3 c=4" }, brief(log))
    expect.error("OFFSET_OUT_OF_RANGE", log.fetch, log, 0)
    assert(log.segments[1].base_offset <= 1)
    log:close()
    local again <close> = minikafka.open(log.directory)
    assert.equal(1, again.log_start_offset)
    assert.same({ "1 b=2", "3 c=4" }, brief(again))
  end)

  it("drops closed segments that lie below the start", function()
    local log <close> = open()
    put(log, { "a", "1" }, { "b", "2" })
    log:delete_records(2)
    log:roll()
    assert.same({ 0, 2 }, bases(log.segments))
    local result = compact(log)
    assert.same({ 0 }, result.source_segments)
    assert.same({}, result.new_segments)
    assert.equal(0, result.records_after)
    assert.same({ 2 }, bases(log.segments))
    assert.equal(2, log.log_start_offset)
    assert.equal(2, log:append_kv("c", "3"))
  end)

  it("leaves the active segment's bytes as they are", function()
    local log <close> = open { index_interval_bytes = 1 }
    put(log, { "a", "1" })
    log:roll()
    put(log, { "a", "2" }, { "a", "3" }, { "b", "4" })
    local before = tmp.read(log.active_segment.path)
    compact(log)
    assert.equal(before, tmp.read(log.active_segment.path))
    assert.equal(4, log:append_kv("c", "5"))
    assert.same({ "1 a=2", "2 a=3", "3 b=4", "4 c=5" }, brief(log))
  end)

  it("holds over a reopening, and over a death", function()
    local log = open { index_interval_bytes = 1 }
    for i = 0, 49 do
      put(log, { "k" .. i % 7, "v" .. i, i })
      if i % 10 == 9 then
        log:roll()
      end
    end
    put(log, { "k3", "active", 60 })
    compact(log)
    local before = state.text(state.of(log))
    local dead <close> = minikafka.open(tmp.copy(log.directory))
    assert.equal(before, state.text(state.of(dead)))
    log:close()
    local again <close> = minikafka.open(log.directory)
    assert.equal(before, state.text(state.of(again)))
    assert.equal(51, again:append_kv("k", "v"))
  end)

  it("leaves nothing beside the directory", function()
    local parent = tmp.dir()
    local log <close> = minikafka.open(parent .. "/log")
    put(log, { "a", "1" }, { "a", "2" })
    log:roll()
    compact(log)
    assert.same({ "log" }, tmp.list(parent))
    for _, name in ipairs(tmp.list(log.directory)) do
      assert(name:find("^%d+%.%l+$") or name:find("^minikafka%.%l+$")
        or name == "leader-epoch-checkpoint" or name == "partition.metadata",
        name)
    end
  end)

  it("keeps the directory locked", function()
    local log <close> = open()
    put(log, { "a", "1" }, { "a", "2" })
    log:roll()
    compact(log)
    expect.error("LOCKED", minikafka.open, log.directory)
  end)

  it("works in the directory's own place, however it was named", function()
    local parent = tmp.dir()
    for _, name in ipairs { parent .. "/a/", parent .. "/./b",
      parent .. "/c//" } do
      local log <close> = minikafka.open(name)
      put(log, { "a", "1" }, { "a", "2" })
      log:roll()
      compact(log)
      assert.same({ "1 a=2" }, brief(log))
    end
    assert.same({ "a", "b", "c" }, tmp.list(parent))
  end)

  it("goes through a symbolic link", function()
    local parent = tmp.dir()
    local real = minikafka.open(parent .. "/real")
    put(real, { "a", "1" }, { "a", "2" })
    real:roll()
    real:close()
    assert(os.execute(("ln -s real %s/link"):format(parent)))
    local log = minikafka.open(parent .. "/link")
    compact(log)
    log:close()
    local again <close> = minikafka.open(parent .. "/real")
    assert.same({ "1 a=2" }, brief(again))
    assert.same({ "link", "real" }, tmp.list(parent))
  end)

  it("is refused on a read-only log", function()
    local log <close> = open()
    put(log, { "a", "1" }, { "a", "2" })
    log:roll()
    local reader <close> = minikafka.open(log.directory,
      { read_only = true })
    expect.error("READ_ONLY", compact, reader)
    assert.same({ "0 a=1", "1 a=2" }, brief(log))
  end)

  it("prints what it did", function()
    local log <close> = open()
    put(log, { "a", "1" }, { "a", "2" })
    log:roll()
    assert(not tostring(compact(log)):find("^table: "))
  end)
end)

describe("LogCompactor", function()
  after_each(tmp.clean)

  it("refuses bad options when it is made", function()
    expect.error("INVALID_ARGUMENT", minikafka.LogCompactor,
      minikafka.ManualClock(), { delete_retention_ms = -1 })
    expect.error("INVALID_ARGUMENT", minikafka.LogCompactor,
      { delete_retention_ms = -1 })
    local raised = expect.error("INVALID_ARGUMENT", minikafka.LogCompactor,
      { delete_retention = 1 })
    assert.equal("delete_retention_ms", raised.nearest)
    expect.argument_error("delete_retention_ms", minikafka.LogCompactor,
      { delete_retention_ms = "1" })
    expect.argument_error("before_swap", minikafka.LogCompactor,
      { before_swap = 1 })
  end)
end)

describe("before_swap", function()
  after_each(tmp.clean)

  -- A log with something to compact, in a directory of its own.
  local function scene()
    local parent = tmp.dir()
    local log = minikafka.open(parent .. "/log",
      { clock = minikafka.ManualClock(0) })
    put(log, { "a", "1" }, { "a", "2" }, { "b", "3" })
    log:roll()
    put(log, { "b", "4" })
    return log, parent
  end

  local function with_hook(log, hook)
    return compact(log, 0, { before_swap = hook })
  end

  it("reads the old log, the new one is complete beside it", function()
    local log <close>, parent = scene()
    local before = state.text(state.of(log))
    local beside
    with_hook(log, function()
      assert.equal(before, state.text(state.of(log)))
      beside = #tmp.list(parent)
    end)
    assert(beside > 1)
    assert.same({ "1 a=2", "3 b=4" }, brief(log))
  end)

  it("may raise any value, and nothing has happened", function()
    local log <close>, parent = scene()
    local before = state.text(state.of(log))
    for _, value in ipairs { "text", {}, 42, print, true } do
      local done, raised = pcall(with_hook, log, function()
        error(value, 0)
      end)
      assert.is_false(done)
      assert.equal(value, raised)
      assert.equal(before, state.text(state.of(log)))
      assert.same({ "log" }, tmp.list(parent))
    end
    local done, raised = pcall(with_hook, log, function()
      error(nil)
    end)
    assert.is_false(done)
    assert.is_nil(raised)
    assert.equal(4, log:append_kv("c", "5"))
    with_hook(log)
    assert.same({ "1 a=2", "3 b=4", "4 c=5" }, brief(log))
  end)

  it("may not change the log", function()
    local log <close> = scene()
    local before = state.text(state.of(log))
    local tried = 0
    with_hook(log, function()
      for _, change in ipairs {
        function() log:append_kv("x", "y") end,
        function() log:append { value = "y" } end,
        function() log:roll() end,
        function() log:delete_records(1) end,
        function() log:truncate_to(1) end,
        function() log:delete_closed_segments { 0 } end,
        function() log:configure { segment_bytes = 100 } end,
        function() compact(log) end,
        function()
          minikafka.RetentionManager():apply(log, { retention_ms = 0 })
        end,
      } do
        expect.error("BUSY", change)
        tried = tried + 1
      end
      assert.equal(before, state.text(state.of(log)))
    end)
    assert.equal(9, tried)
    assert.same({ "1 a=2", "3 b=4" }, brief(log))
  end)

  it("gives CLOSED after a close inside it", function()
    local log, parent = scene()
    expect.error("CLOSED", with_hook, log, function()
      log:close()
    end)
    expect.error("CLOSED", log.fetch, log, 0)
    assert.same({ "log" }, tmp.list(parent))
    local again <close> = minikafka.open(parent .. "/log")
    assert.same({ "0 a=1", "1 a=2", "2 b=3", "3 b=4" }, brief(again))
  end)

  it("may not yield", function()
    local log <close> = scene()
    local before = state.text(state.of(log))
    local thread = coroutine.create(function()
      with_hook(log, coroutine.yield)
    end)
    assert.is_false((coroutine.resume(thread)))
    assert.equal("dead", coroutine.status(thread))
    assert.equal(before, state.text(state.of(log)))
    assert.equal(4, log:append_kv("c", "5"))
  end)
end)
