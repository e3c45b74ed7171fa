-- A read-only opener sees what is there and changes nothing, whatever it finds.

local minikafka = require "minikafka"
local tmp = require "spec.support.tmp"
local state = require "spec.support.state"
local expect = require "spec.support.expect"

local function open(options)
  options = options or {}
  options.clock = options.clock or minikafka.ManualClock(0)
  return minikafka.open(tmp.path(), options)
end

local function reader_of(dir)
  return minikafka.open(dir, { read_only = true })
end

local function put(log, count)
  for _ = 1, count do
    log:append { key = "k" .. log.log_end_offset % 5,
      value = "v" .. log.log_end_offset, timestamp_ms = log.log_end_offset }
  end
end

-- Read a directory of the given name, with everything in it left alone.
local function read_untouched(dir)
  local before = tmp.fingerprint(dir)
  local reader <close> = reader_of(dir)
  local text = state.text(state.of(reader))
  reader:close()
  assert.equal(before, tmp.fingerprint(dir))
  return text
end

describe("a read-only log", function()
  after_each(tmp.clean)

  it("B65: reads a directory that was closed", function()
    local log = open { segment_bytes = 400, index_interval_bytes = 100 }
    put(log, 30)
    local before = state.text(state.of(log))
    log:close()
    assert.equal(before, read_untouched(log.directory))
  end)

  it("B65: reads what a death left, torn or not, and mends nothing", function()
    local log <close> = open { index_interval_bytes = 1 }
    put(log, 5)
    local whole = state.text(state.of(log))
    put(log, 1)
    local size = log.active_segment.log_bytes
    local path = ("/%020d.log"):format(0)
    for cut = 0, 70, 10 do
      local dir = tmp.copy(log.directory)
      tmp.write(dir .. path, tmp.read(dir .. path):sub(1, size - 1 - cut))
      if cut < 70 then
        assert.equal(whole, read_untouched(dir))
      end
    end
    local dir = tmp.copy(log.directory)
    tmp.write(dir .. path, tmp.read(dir .. path):sub(1, size)
      .. ("\0"):rep(5000))
    assert.equal(state.text(state.of(log)), read_untouched(dir))
  end)

  it("B65: reads without indexes", function()
    local log = open { segment_bytes = 400, index_interval_bytes = 1 }
    put(log, 30)
    local before = state.text(state.of(log))
    log:close()
    for _, name in ipairs(tmp.list(log.directory)) do
      if name:find("index$") then
        assert(os.remove(log.directory .. "/" .. name))
      end
    end
    local reader <close> = reader_of(log.directory)
    assert.equal(before, state.text(state.of(reader)))
    assert.equal(17, (reader:offset_for_timestamp(17)))
  end)

  it("B65: leaves leftovers where they are", function()
    local log = open()
    put(log, 3)
    log:close()
    for _, suffix in ipairs { ".log.cleaned", ".index.cleaned",
      ".log.deleted" } do
      tmp.write(("%s/%020d%s"):format(log.directory, 0, suffix), "junk")
    end
    assert.truthy(read_untouched(log.directory):find("v2", 1, true))
  end)

  it("B65: refuses everything that changes a log", function()
    local log <close> = open()
    put(log, 3)
    log:roll()
    put(log, 1)
    local before = tmp.fingerprint(log.directory)
    local reader <close> = reader_of(log.directory)
    for _, change in ipairs {
      function() reader:append { value = "v" } end,
      function() reader:append_kv("k", "v") end,
      function() reader:roll() end,
      function() reader:delete_records(1) end,
      function() reader:truncate_to(1) end,
      function() reader:delete_closed_segments { 0 } end,
      function() reader:appender():append_kv("k", "v") end,
    } do
      expect.error("READ_ONLY", change)
    end
    assert.equal(before, tmp.fingerprint(log.directory))
    assert.equal(4, #reader:fetch(0))
  end)

  it("is NOT_FOUND where nothing is, and makes nothing", function()
    local parent = tmp.dir()
    expect.error("NOT_FOUND", reader_of, parent .. "/missing")
    assert.same({}, tmp.list(parent))
  end)

  it("reads an empty directory as an empty log", function()
    local log = open()
    log:close()
    local reader <close> = reader_of(log.directory)
    assert.equal(0, reader.log_end_offset)
    assert.same({}, (reader:fetch(0)))
  end)

  it("sees appends, rolls and closes of the writer", function()
    local log = open { segment_bytes = 300 }
    local reader <close> = reader_of(log.directory)
    assert.equal(0, reader.log_end_offset)
    for round = 1, 12 do
      put(log, round)
      if round % 4 == 0 then
        log:roll()
      end
      reader:refresh()
      assert.equal(log.log_end_offset, reader.log_end_offset)
      assert.equal(state.text(state.of(log)), state.text(state.of(reader)))
    end
    local last = log.log_end_offset
    log:close()
    reader:refresh()
    assert.equal(last, reader.log_end_offset)
    assert.equal(last, #reader:fetch(0))
  end)

  it("looks for what is new when it reads at its end", function()
    local log <close> = open()
    put(log, 2)
    local reader <close> = reader_of(log.directory)
    local cursor <close> = reader:cursor()
    assert.equal(2, #state.collect(cursor))
    put(log, 3)
    assert.equal(3, #state.collect(cursor))
    put(log, 1)
    assert.equal("v5", reader:fetch(5)[1].value)
    assert.equal(6, reader.log_end_offset)
  end)

  it("fetches nothing that was taken away meanwhile", function()
    for _, mapped in ipairs { true, false } do
      local log <close> = open { mapped = mapped }
      put(log, 5)
      for offset = 5, 7 do
        log:roll()
        log:append { value = "old " .. offset }
      end
      local reader <close> = reader_of(log.directory)
      assert.equal(8, #reader:fetch(0))
      log:truncate_to(5)
      log:append_kv("k", "new 5", 5)
      log:append_kv("k", "new 6", 5)
      assert.same({ "6 k=new 6" }, expect.brief(reader:fetch(6, 1)))
      assert.same({ "4 k4=v4", "5 k=new 5", "6 k=new 6" },
        expect.brief(reader:fetch(4)))
      log:delete_records(3)
      expect.error("OFFSET_OUT_OF_RANGE", reader.fetch, reader, 2)
      log:roll()
      log:append_kv("k4", "newer", 5)
      minikafka.LogCompactor():compact(log)
      assert.same({ "3 k3=v3", "6 k=new 6", "7 k4=newer" },
        expect.brief(reader:fetch(3)))
    end
  end)

  it("has a cursor go on in what is there then, not in what it had", function()
    local log <close> = open()
    put(log, 5)
    local reader <close> = reader_of(log.directory)
    local cursor <close> = reader:cursor()
    local function read(most)
      local found = {}
      for offset, _, value in cursor do
        found[#found + 1] = offset .. "=" .. value
        if #found == most then
          break
        end
      end
      return table.concat(found, " ")
    end
    assert.equal("0=v0 1=v1", read(2))
    log:truncate_to(3)
    for offset = 3, 6 do
      log:append { value = "new " .. offset }
    end
    assert.equal("2=v2 3=new 3 4=new 4 5=new 5 6=new 6", read())
    log:truncate_to(6)
    expect.error("OFFSET_OUT_OF_RANGE", read)
  end)

  it("sees a retention and a compaction of the writer", function()
    local log <close> = open()
    put(log, 10)
    log:roll()
    put(log, 3)
    local reader <close> = reader_of(log.directory)
    assert.equal(13, #reader:fetch(0))
    minikafka.LogCompactor():compact(log)
    assert(#reader:fetch(0) >= 5) -- Superseded ones may be seen for a while.
    put(log, 1)
    reader:refresh()
    assert.equal(state.text(state.of(log)), state.text(state.of(reader)))
    log:delete_closed_segments { 0 }
    reader:refresh()
    assert.equal(10, reader.log_start_offset)
    expect.error("OFFSET_OUT_OF_RANGE", reader.fetch, reader, 9)
    assert.equal(4, #reader:fetch(10))
  end)
end)
