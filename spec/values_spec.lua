-- Values that cross the binding: bytes of any kind, many at once, tables that
-- change under it, and what is printed.

local minikafka = require "minikafka"
local tmp = require "spec.support.tmp"

local function fill(log, first, last)
  for i = first, last do
    log:append { key = "k" .. i % 4, value = "v" .. i, timestamp_ms = i }
  end
end

-- Records 0..9 in two closed segments and the active one.
local function open(options)
  local log = minikafka.open(tmp.path(), options)
  fill(log, 0, 3)
  log:roll()
  fill(log, 4, 7)
  log:roll()
  fill(log, 8, 9)
  return log
end

describe("bytes", function()
  after_each(tmp.clean)

  local all_bytes = {}
  for i = 0, 255 do
    all_bytes[i + 1] = string.char(i)
  end
  all_bytes = table.concat(all_bytes)
  local texts = { "a\0b", "a\0c", "\0", "\0\0", "", "a", all_bytes }

  it("B73: go in and out as they are", function()
    local log <close> = minikafka.open(tmp.path())
    for _, text in ipairs(texts) do
      log:append { key = text, value = text, headers = { { text, text },
        { text } } }
    end
    for i, text in ipairs(texts) do
      local record = log:fetch(i - 1, 1)[1]
      assert.equal(text, record.key)
      assert.equal(text, record.value)
      assert.same({ { text, text }, { text } }, record.headers)
    end
    local i = 0
    for _, key, value, _, headers in log:records() do
      i = i + 1
      assert.equal(texts[i], key)
      assert.equal(texts[i], value)
      assert.equal(texts[i], headers[2][1])
    end
  end)

  it("B73: are different keys if they differ after a zero", function()
    local log <close> = minikafka.open(tmp.path())
    for _ = 1, 2 do
      for _, text in ipairs(texts) do
        log:append { key = text, value = text }
      end
    end
    log:roll()
    local result = minikafka.LogCompactor():compact(log)
    assert.equal(#texts * 2, result.records_before)
    assert.equal(#texts, result.records_after)
    for i, record in ipairs(log:fetch(0)) do
      assert.equal(texts[i], record.key)
    end
  end)

  it("B13: tell null from empty", function()
    local log <close> = minikafka.open(tmp.path())
    log:append { {}, { key = "" }, { value = "" }, { key = "", value = "" } }
    local records = log:fetch(0)
    assert.same({ offset = 0, timestamp_ms = records[1].timestamp_ms },
      records[1])
    assert.is_nil(records[2].value)
    assert.equal("", records[2].key)
    assert.is_nil(records[3].key)
    assert.equal("", records[3].value)
    local got = {}
    for _, key, value in log:records() do
      got[#got + 1] = tostring(key) .. "=" .. tostring(value)
    end
    assert.same({ "nil=nil", "=nil", "nil=", "=" }, got)
  end)
end)

describe("many", function()
  local mode

  -- An eager collector would look at all of them again and again.
  before_each(function()
    mode = collectgarbage("generational")
  end)

  after_each(function()
    collectgarbage(mode)
    tmp.clean()
  end)

  it("B75: records go in and out", function()
    local log <close> = minikafka.open(tmp.path(),
      { max_message_bytes = 1 << 30 })
    local list = {}
    for i = 1, 100000 do
      list[i] = { key = "k", value = tostring(i) }
    end
    local first, last = log:append(list)
    assert.equal(0, first)
    assert.equal(99999, last)
    for _, count in ipairs { 10, 21, 250, 100000 } do
      local records, next_offset = log:fetch(0, count)
      assert.equal(count, #records)
      assert.equal(count, next_offset)
      assert.equal(tostring(count), records[count].value)
    end
    assert.equal(500, #log:fetch(0))
    local count = 0
    for _, _, value in log:records() do
      count = count + 1
      assert(value == tostring(count))
    end
    assert.equal(100000, count)
  end)

  it("B75: headers go in and out", function()
    local log <close> = minikafka.open(tmp.path())
    local headers = {}
    for i = 1, 1000 do
      headers[i] = { "name" .. i, i % 3 > 0 and "value" .. i or nil }
    end
    log:append { value = "v", headers = headers }
    log:append_kv(nil, "v", nil, headers)
    log:append { { headers = headers }, {}, { headers = headers } }
    for _, offset in ipairs { 0, 1, 2, 4 } do
      assert.same(headers, log:fetch(offset, 1)[1].headers)
    end
    for offset, _, _, _, got in log:records() do
      assert.equal(offset ~= 3, got ~= nil)
    end
  end)

  it("B75: segments are listed", function()
    local log <close> = minikafka.open(tmp.path())
    for i = 1, 300 do
      log:append_kv("k", tostring(i))
      log:roll()
    end
    assert.equal(301, #log.segments)
    assert.equal(300, #log.closed_segments)
    local bases = {}
    for i, segment in ipairs(log.closed_segments) do
      bases[i] = segment.base_offset
    end
    assert.same(bases, log:delete_closed_segments(bases))
    assert.equal(1, #log.segments)
  end)
end)

describe("a table given to append", function()
  after_each(tmp.clean)

  it("B69: is read without its metamethods", function()
    local log <close> = minikafka.open(tmp.path())
    local trap = setmetatable({ key = "k" }, {
      __index = function() error("index") end,
      __len = function() return 1 << 31 end,
      __pairs = function() error("pairs") end,
      __tostring = function() error("tostring") end,
    })
    log:append(trap)
    log:append { trap, trap }
    log:append(setmetatable({ { value = "v" } }, getmetatable(trap)))
    assert.equal(4, #log:fetch(0))
    assert.is_nil(log:fetch(0)[1].value)
  end)

  it("may be changed by the clock, which changes nothing", function()
    local list, headers
    local function disturb()
      for i = 1, #list do
        list[i] = nil
      end
      for i = 1, #headers do
        headers[i] = nil
      end
      collectgarbage()
      collectgarbage()
      return 5
    end
    local log <close> = minikafka.open(tmp.path(), { clock = function()
      return list and disturb() or 5
    end })
    local function text(what, i)
      return ("%s %d "):format(what, i):rep(20)
    end
    headers = { { text("name", 1), text("header", 1) } }
    list = {}
    for i = 1, 50 do
      list[i] = { key = text("key", i), value = text("value", i),
        headers = i == 1 and headers or nil }
    end
    log:append(list)
    list = {}
    headers = { { text("name", 2), text("header", 2) } }
    log:append_kv(text("key", 51), text("value", 51), nil, headers)
    list = nil
    local records = log:fetch(0)
    assert.equal(51, #records)
    for i, record in ipairs(records) do
      assert.equal(text("key", i), record.key)
      assert.equal(text("value", i), record.value)
    end
    assert.same({ { text("name", 1), text("header", 1) } }, records[1].headers)
    assert.same({ { text("name", 2), text("header", 2) } }, records[51].headers)
  end)
end)

describe("what is printed", function()
  after_each(tmp.clean)

  it("is made for a person", function()
    local log <close> = open { clock = minikafka.ManualClock(5) }
    local cursor <close> = log:cursor()
    local out <close> = log:appender()
    local deleted, result = minikafka.RetentionManager():apply(log,
      { retention_bytes = 1 })
    assert.equal(2, #deleted)
    local batch
    for each in log:batches() do
      batch = each
    end
    for _, thing in ipairs { log, cursor, out, log.clock, log.segments,
      log.active_segment, log.config, log:stats(), log:fetch(8),
      log:fetch(8)[1], batch, result, minikafka.features(),
      minikafka.SystemClock(), minikafka.RetentionManager(),
      minikafka.LogCompactor(), minikafka.workload {},
      minikafka.SimDisk():list() } do
      local text = tostring(thing)
      assert(#text > 0)
      assert.is_nil(text:find("0x", 1, true), text)
      assert.is_nil(text:find("^table: "), text)
      assert.is_nil(text:find("^userdata: "), text)
    end
  end)

  it("B73: shows bytes that do not print", function()
    local log <close> = minikafka.open(tmp.path())
    log:append { key = "a\0b\n", value = "\255\"\\" .. ("x"):rep(1000) }
    local text = tostring(log:fetch(0)[1])
    assert.truthy(text:find('"a\\x00b\\x0a"', 1, true), text)
    assert(#text < 300)
    assert.is_nil(text:find("\n"))
  end)

  it("shows text as it is, in whatever script, also where it is cut", function()
    local log <close> = minikafka.open(tmp.path())
    log:append { key = "käse", value = ("ツ"):rep(17) }
    log:append { key = "k\xe4se", value = "a\u{9b}m" }
    local records = log:fetch(0)
    assert.truthy(tostring(records[1]):find('"käse" = "' .. ("ツ"):rep(16) ..
      '"... (51 bytes)', 1, true), tostring(records[1]))
    assert.truthy(tostring(records[2]):find([["k\xe4se" = "a\xc2\x9bm"]], 1, true))
  end)

  it("says where a setting is no limit", function()
    local log <close> = minikafka.open(tmp.path())
    assert.truthy(tostring(log.config):find("\nflush_messages + = %d+ %(no limit%)\n"))
  end)

  it("does not trust the table that it shows", function()
    local log <close> = open()
    local record = log:fetch(0)[1]
    record.offset, record.key, record.value = {}, 5, print
    record.headers = { { 1 } }
    assert.equal("string", type(tostring(record)))
  end)
end)
