-- Handles: closed in any order, collected in any order, called by hand on
-- anything, iterated by coroutines that never come back.

local minikafka = require "minikafka"
local expect = require "spec.support.expect"
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

-- What each handle can be asked to do.
local uses = {
  log = {
    function(log) log:append { {} } end,
    function(log) log:append_kv("k", "v") end,
    function(log) log:appender() end,
    function(log) log:batches() end,
    function(log) log:configure {} end,
    function(log) log:cursor() end,
    function(log) log:delete_closed_segments {} end,
    function(log) log:delete_records(0) end,
    function(log) log:fetch(0) end,
    function(log) log:flush() end,
    function(log) log:offset_for_timestamp(0) end,
    function(log) log:offset_of_max_timestamp() end,
    function(log) log:records() end,
    function(log) log:refresh() end,
    function(log) log:roll() end,
    function(log) log:stats() end,
    function(log) log:truncate_to(99) end,
    function(log) log:wait(0, 0) end,
    function(log) return log.log_start_offset end,
    function(log) return log.log_end_offset end,
    function(log) return log.last_stable_offset end,
    function(log) return log.high_watermark end,
    function(log) return log.recovery_point end,
    function(log) return log.size_bytes end,
    function(log) return log.segments end,
    function(log) return log.closed_segments end,
    function(log) return log.active_segment end,
    function(log) return log.config end,
    function(log) return log.clock end,
    function(log) minikafka.RetentionManager():apply(log) end,
    function(log) minikafka.LogCompactor():compact(log) end,
  },
  cursor = {
    function(cursor) cursor() end,
    function(cursor) cursor(nil, 3) end,
    function(cursor) cursor:seek(0) end,
    function(cursor) cursor:seek_time(0) end,
    function(cursor) return cursor.next_offset end,
  },
  appender = {
    function(out) out:append { {} } end,
    function(out) out:append_kv("k", "v") end,
    function(out) out:flush() end,
  },
  iterator = { function(step) step() end },
}

-- Every use of a handle raises CLOSED; printing and closing it do not.
local function check_closed(kind, handle)
  for _, use in ipairs(uses[kind]) do
    expect.error("CLOSED", use, handle)
  end
  if kind ~= "iterator" then
    assert.truthy(tostring(handle):find("closed", 1, true))
    handle:close()
    handle:close()
  end
end

-- A log and one of each of its children.
local function family()
  local log = open()
  return { log = log, cursor = log:cursor(), appender = log:appender(),
    iterator = (log:records()) }
end

describe("a closed handle", function()
  after_each(tmp.clean)

  it("B66: says so at every use, and can be closed again", function()
    local all = family()
    for _, kind in ipairs { "cursor", "appender" } do
      all[kind]:close()
      check_closed(kind, all[kind])
    end
    assert.equal(10, #all.log:fetch(0))
    all.log:close()
    check_closed("log", all.log)
  end)

  it("B66: closes its children with it", function()
    local all = family()
    all.log:close()
    for kind, handle in pairs(all) do
      check_closed(kind, handle)
    end
  end)

  it("still tells its directory", function()
    local dir = tmp.path()
    local log = minikafka.open(dir)
    log:close()
    assert.equal(dir, log.directory)
    assert.truthy(tostring(log):find(dir, 1, true))
  end)

  it("lets the directory be opened again", function()
    local log = open()
    local cursor = log:cursor()
    local again
    expect.error("LOCKED", minikafka.open, log.directory)
    log:close()
    again = minikafka.open(log.directory)
    again:append_kv("k", "v")
    assert.equal(11, again.log_end_offset)
    check_closed("cursor", cursor)
    again:close()
  end)
end)

describe("a scope", function()
  after_each(tmp.clean)

  it("closes what it leaves, also with an error on its way", function()
    local kept = {}
    local done, raised = pcall(function()
      local log <close> = open()
      local cursor <close> = log:cursor()
      local out <close> = log:appender()
      kept.log, kept.cursor, kept.appender = log, cursor, out
      out:append_kv("k", "sent by the close")
      error("mine", 0)
    end)
    assert.is_false(done)
    assert.equal("mine", raised)
    for kind, handle in pairs(kept) do
      check_closed(kind, handle)
    end
    local again <close> = minikafka.open(kept.log.directory)
    assert.equal(11, again.log_end_offset)
  end)

  it("of a loop closes its cursor, however it is left", function()
    local log <close> = open()
    local step, _, _, closing = log:records()
    for offset in step, nil, nil, closing do
      if offset == 3 then
        break
      end
    end
    expect.error("CLOSED", step)
    assert.truthy(tostring(closing):find("closed", 1, true))
    step, _, _, closing = log:batches()
    pcall(function()
      for _ in step, nil, nil, closing do
        error("out")
      end
    end)
    expect.error("CLOSED", step)
  end)
end)

describe("a handle without a name", function()
  after_each(tmp.clean)

  it("B66: is kept by each of its children", function()
    local function only(kind)
      local child = family()[kind]
      collectgarbage()
      collectgarbage()
      return child
    end
    local cursor = only("cursor")
    assert.equal(0, (cursor()))
    assert.truthy(tostring(cursor):find("next_offset 1", 1, true))
    cursor:seek(9)
    assert.equal(9, (cursor()))
    assert.equal(0, (only("iterator")()))
    local out = only("appender")
    out:append_kv("k", "v")
    assert.equal(10, (out:flush()))
    assert.is_nil(tostring(out):find("closed", 1, true))
  end)

  it("B66: is collected in any order", function()
    local kinds = { "log", "cursor", "appender", "iterator" }
    -- All orders of four things.
    local function permute(chosen, rest)
      if #rest == 0 then
        local all = family()
        for _, kind in ipairs(chosen) do
          all[kind] = nil
          collectgarbage()
        end
        return
      end
      for i = 1, #rest do
        local left = table.move(rest, 1, #rest, 1, {})
        local more = table.move(chosen, 1, #chosen, 1, {})
        more[#more + 1] = table.remove(left, i)
        permute(more, left)
      end
    end
    permute({}, kinds)
  end)

  it("releases the directory once it is collected", function()
    local dir = tmp.path()
    do
      local log = minikafka.open(dir)
      log:append_kv("k", "v")
    end
    collectgarbage()
    collectgarbage()
    local log <close> = minikafka.open(dir)
    assert.equal(1, log.log_end_offset)
  end)

  it("B66: may be used by a finalizer that was kept for the end", function()
    local text, ended = tmp.child(([[
      local minikafka = require "minikafka"
      local log = minikafka.open(%q)
      log:append_kv("k", "v")
      kept = setmetatable({ log = log, cursor = log:cursor(),
        out = log:appender() }, { __gc = function(self)
          local done, raised = pcall(self.log.fetch, self.log, 0)
          print(done or raised.code)
          done, raised = pcall(self.cursor)
          print(done or raised.code)
          done, raised = pcall(self.out.append_kv, self.out, "k", "v")
          print(done or raised.code)
          again = self
          self.log:close()
          self.cursor:close()
          self.out:close()
        end })
      setmetatable({}, { __gc = function()
        local late = minikafka.open(%q)
        late:append_kv("k", "v")
      end })
    ]]):format(tmp.path(), tmp.path()))
    assert.is_true(ended)
    for line in text:gmatch("[^\n]+") do
      assert(line == "true" or line == "CLOSED", text)
    end
  end)
end)

describe("a loop", function()
  after_each(tmp.clean)

  it("B70: may yield, and be interleaved with others", function()
    local log <close> = open()
    local function each()
      for offset in log:records() do
        coroutine.yield(offset)
      end
    end
    local first, second = coroutine.wrap(each), coroutine.wrap(each)
    for expected = 0, 9 do
      assert.equal(expected, first())
      assert.equal(expected, second())
      assert.equal(10, #log:fetch(0))
    end
    assert.is_nil(first())
  end)

  it("B70: may be left in a coroutine that never goes on", function()
    local log = open()
    local dir = log.directory
    local routine = coroutine.create(function()
      for offset in log:records() do
        coroutine.yield(offset)
      end
    end)
    assert(coroutine.resume(routine))
    local closed = coroutine.create(function()
      for batch in log:batches() do
        coroutine.yield(batch)
      end
    end)
    assert(coroutine.resume(closed))
    assert.is_true(coroutine.close(closed))
    minikafka.LogCompactor():compact(log)
    log:close()
    local again <close> = minikafka.open(dir)
    expect.error("CLOSED", function()
      local _, raised = coroutine.resume(routine)
      error(raised, 0)
    end)
    assert.equal(1, #again.closed_segments)
  end)

  it("B83: may do anything to its log", function()
    local function seen_while(act)
      local log = open()
      local offsets = {}
      local done, raised = pcall(function()
        for offset in log:records() do
          offsets[#offsets + 1] = offset
          if offset == 2 then
            act(log, offset)
          end
        end
      end)
      for i = 2, #offsets do
        assert(offsets[i] > offsets[i - 1])
      end
      log:close()
      return done or raised.code, #offsets, offsets[#offsets]
    end
    local function check(expected, last, act)
      local outcome, _, got = seen_while(act)
      assert.equal(expected, outcome)
      assert.equal(last, got)
    end

    check(true, 9, function(log) fill(log, 10, 20) end)
    check(true, 9, function(log) minikafka.LogCompactor():compact(log) end)
    check(true, 9, function(log) log:delete_records(2) end)
    check(true, 9, function() collectgarbage() end)
    check(true, 9, function(log)
      for _ in log:records() do
        log:fetch(0)
      end
    end)
    check(true, 9, function(log)
      expect.error("LOCKED", minikafka.open, log.directory)
    end)
    -- It may give what it had read ahead before it finds out.
    local outcome, count = seen_while(function(log) log:close() end)
    assert.equal("CLOSED", outcome)
    assert(count >= 3)
    outcome, count = seen_while(function(log)
      minikafka.RetentionManager(function() return 1000 end):apply(log,
        { retention_ms = 0 })
    end)
    assert(outcome == "OFFSET_OUT_OF_RANGE" and count >= 3 or
      outcome == true and count == 10)
  end)

  it("B83: keeps its log when nothing else does", function()
    local count = 0
    for offset in open():records() do
      collectgarbage()
      assert.equal(count, offset)
      count = count + 1
    end
    assert.equal(10, count)
  end)

  -- In a process of its own, where there is little else to collect, finalizers
  -- run every few allocations.
  it("B83: is not confused by what finalizers do meanwhile", function()
    local text, ended = tmp.child(([[
      local minikafka = require "minikafka"
      local log = minikafka.open(%q)
      for i = 1, 20 do
        log:append { key = ("k"):rep(50) .. i, value = ("v"):rep(50) .. i,
          headers = { { ("h"):rep(50) .. i, ("w"):rep(50) .. i } } }
      end
      local cursor = log:cursor()
      local disturbed = 0
      local function disturb()
        disturbed = disturbed + 1
        setmetatable({}, { __gc = disturb })
        log:fetch(3)
        pcall(cursor.seek, cursor, cursor.next_offset)
      end
      disturb()
      collectgarbage("incremental")
      collectgarbage("setpause", 0)
      collectgarbage("setstepmul", 1000)
      local function check(i, key, value, headers)
        assert(key == ("k"):rep(50) .. i)
        assert(value == ("v"):rep(50) .. i)
        assert(headers[1][1] == ("h"):rep(50) .. i)
        assert(headers[1][2] == ("w"):rep(50) .. i)
      end
      local busy = 0
      for _ = 1, 20 do
        local records = log:fetch(0)
        assert(#records == 20)
        for i, record in ipairs(records) do
          check(i, record.key, record.value, record.headers)
        end
        cursor:seek(0)
        local done, raised = pcall(function()
          for offset, key, value, _, headers in cursor do
            check(offset + 1, key, value, headers)
          end
        end)
        assert(done or minikafka.is_error(raised, "BUSY"), raised)
        busy = busy + (done and 0 or 1)
      end
      assert(disturbed > 100 and busy > 0)
      print("well")
    ]]):format(tmp.path()))
    assert.equal("well\n", text)
    assert.is_true(ended)
  end)
end)

describe("a metamethod called by hand", function()
  after_each(tmp.clean)

  local names = { "__gc", "__close", "__tostring", "__index", "__call" }

  it("B78: is an argument error on the wrong thing", function()
    local all = family()
    all.iterator = nil
    all.clock = minikafka.ManualClock()
    all.system = minikafka.SystemClock()
    all.manager = minikafka.RetentionManager()
    all.compactor = minikafka.LogCompactor()
    for kind, handle in pairs(all) do
      local meta = debug.getmetatable(handle)
      for _, name in ipairs(names) do
        local method = meta[name]
        if type(method) == "function" and name ~= "__index" then
          expect.argument_error("self", method)
          for other, wrong in pairs(all) do
            if other ~= kind then
              expect.argument_error("self", method, wrong)
            end
          end
          for _, wrong in ipairs { io.stdout, {}, 1, "text" } do
            expect.argument_error("self", method, wrong)
          end
        end
      end
    end
    assert.equal(10, #all.log:fetch(0))
  end)

  it("B78: is harmless on the right one, as often as you like", function()
    local all = family()
    for _, kind in ipairs { "cursor", "appender", "log" } do
      local handle = all[kind]
      local meta = debug.getmetatable(handle)
      meta.__gc(handle)
      meta.__gc(handle)
      meta.__close(handle)
      meta.__close(handle, nil)
      meta.__close(handle, "an error")
      check_closed(kind, handle)
      meta.__gc(handle)
    end
  end)

  it("B78: does as a method what it says", function()
    local log = open()
    local meta = debug.getmetatable(log)
    assert.equal(log.fetch, meta.__index(log, "fetch"))
    assert.equal(10, meta.__index(log, "log_end_offset"))
    assert.is_nil(meta.__index(log, "no_such_field"))
    assert.is_nil(log[1])
    assert.is_nil(log[nil])
    expect.argument_error("self", meta.__index, io.stdout, "log_end_offset")
  end)

  it("B78: is not to be had through getmetatable", function()
    local all = family()
    all.iterator = nil
    for _, handle in pairs(all) do
      assert.equal("string", type(getmetatable(handle)))
      assert.is_nil(handle.__gc)
      assert.is_nil(handle.__close)
      assert.has_error(function() setmetatable(handle, {}) end)
      assert.has_error(function() handle.field = 1 end)
    end
  end)
end)

describe("a method", function()
  after_each(tmp.clean)

  it("B78: is an argument error on the wrong thing", function()
    local all = family()
    local methods = {
      log = { "append", "append_kv", "appender", "batches", "close",
        "configure", "cursor", "delete_closed_segments", "delete_records",
        "fetch", "flush", "offset_for_timestamp", "offset_of_max_timestamp",
        "records", "refresh", "roll", "stats", "truncate_to", "wait" },
      cursor = { "seek", "seek_time", "close" },
      appender = { "append", "append_kv", "flush", "close" },
    }
    for kind, list in pairs(methods) do
      for _, name in ipairs(list) do
        local method = all[kind][name]
        expect.argument_error(name, method)
        expect.argument_error(name, method, nil)
        expect.argument_error(name, method, {})
        expect.argument_error(name, method, io.stdout, 1, 2)
        for other in pairs(methods) do
          if other ~= kind then
            expect.argument_error(name, method, all[other], 1, 2)
          end
        end
      end
    end
  end)

  it("B78: knows a handle whose metatable was changed no more", function()
    local log = open()
    local meta = debug.getmetatable(log)
    local fetch, append_kv, close = log.fetch, log.append_kv, log.close
    debug.setmetatable(log, { __index = meta.__index })
    expect.argument_error("fetch", fetch, log, 0)
    expect.argument_error("append_kv", append_kv, log, "k", "v")
    expect.argument_error("close", close, log)
    debug.setmetatable(log, meta)
    assert.equal(10, #log:fetch(0))
    log:close()
  end)

  it("B78: leaves nothing behind when opening fails half-way", function()
    local log <close> = open()
    for _ = 1, 20 do
      expect.error("LOCKED", minikafka.open, log.directory)
    end
    expect.error("OFFSET_OUT_OF_RANGE", log.cursor, log, { from = 99 })
    collectgarbage()
    assert.equal(10, #log:fetch(0))
  end)

  it("B75: does not mind 200 arguments too many", function()
    local log <close> = open()
    local many = table.move({}, 1, 1, 1)
    for i = 1, 200 do
      many[i] = i
    end
    assert.equal(10, (log:append({ {} }, nil, table.unpack(many))))
    assert.equal(11, log:append_kv("k", "v", nil, nil, table.unpack(many)))
    assert.equal(12, #log:fetch(0, nil, nil, table.unpack(many)))
    log:close(table.unpack(many))
  end)

  it("B75: works deep down", function()
    local log <close> = open()
    local function deep(level)
      if level == 0 then
        return #log:fetch(0)
      end
      return (select(2, pcall(deep, level - 1)))
    end
    assert.equal(10, deep(150))
    assert.equal("string", type(deep(250)))
    assert.equal(10, #log:fetch(0))
  end)

  it("B75: fails where there is no room for its callback", function()
    local log <close> = open { clock = function() return 5 end }
    local appended, deepest = 0, nil
    local function deep()
      local done, raised = pcall(log.append_kv, log, "k", "v")
      if done then
        appended = appended + 1
        return (select(2, pcall(deep)))
      end
      deepest = raised
    end
    deep()
    assert.equal("string", type(deepest))
    assert(appended > 100)
    assert.equal(10 + appended, log.log_end_offset)
    assert.equal(10 + appended, log:append_kv("k", "v"))
  end)
end)
