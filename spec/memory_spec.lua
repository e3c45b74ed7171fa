-- Memory that runs out in the middle of a call: Lua's own error, nothing lost
-- and nothing held, and the log goes on.

local tmp = require "spec.support.tmp"

-- Run Lua source in a process in which the function `failing` lets memory run
-- out; see spec/c/host_memory.c. Returns what it printed, and how it ended.
local function host(source)
  local script = tmp.path()
  tmp.write(script, ("package.path, package.cpath = %q, %q\n%s"):format(
    package.path, package.cpath, source))
  -- Unlike the interpreter, this host frees everything: leaks can be told.
  local pipe = assert(io.popen(
    ("ASAN_OPTIONS=detect_leaks=1 exec %s/spec/host_memory %s 2>&1"):format(
      tmp.quote(os.getenv("MINIKAFKA_BUILD") or "build/release"),
      tmp.quote(script))))
  local text = pipe:read("a")
  return text, pipe:close()
end

-- What every script begins with. `sweep(prepare, act)` makes something new with
-- `prepare`, and has memory fail in `act` at each request in turn, until one
-- run needs no more. Afterwards `check` is called on what was prepared.
local prelude = [[
  local minikafka = require "minikafka"
  local root = %q

  local made = 0
  local function path()
    made = made + 1
    return root .. "-" .. made
  end

  local function fill(log, first, last)
    for i = first, last do
      log:append { key = "k" .. i %% 4, value = "v" .. i, timestamp_ms = i,
        headers = { { "h", "w" .. i } } }
    end
  end

  local function open(options)
    local log = minikafka.open(path(), options)
    fill(log, 0, 3)
    log:roll()
    fill(log, 4, 9)
    return log
  end

  -- How many are open but pipes: those of a child may be closed any time.
  local function descriptors()
    collectgarbage()
    collectgarbage()
    local pipe = io.popen("ls -l /proc/$PPID/fd | grep -vc pipe:")
    local count = pipe:read("n")
    pipe:close()
    return count
  end

  local function sweep(name, prepare, act, check)
    local failures = 0
    for n = 1, 10000 do
      local things = { prepare() }
      local done, raised, spent = failing(n, act, table.unpack(things))
      assert(done or raised == "not enough memory",
        name .. ": " .. tostring(raised))
      check(done, table.unpack(things))
      if spent < n then
        assert(done)
        print(name, failures > 0)
        return
      end
      failures = failures + 1
    end
    error(name .. " never ends")
  end
]]

local function sweeps(source)
  return host(prelude:format(tmp.path()) .. source)
end

describe("memory that runs out", function()
  after_each(tmp.clean)

  it("B68: in a read leaves nothing held, and the log readable", function()
    local text, ended = sweeps [[
      local log = open()
      local before = descriptors()
      local function whole()
        return #log:fetch(0) == 10
      end
      local function read(name, act)
        sweep(name, function() return log end, act, function()
          assert(whole())
        end)
        local held = descriptors() - before
        assert(held <= 2, name .. " holds " .. held) -- What fetch keeps.
      end
      read("fetch", function(log) log:fetch(0) end)
      read("records", function(log)
        for _ in log:records(2) do end
      end)
      read("batches", function(log)
        for _ in log:batches() do end
      end)
      read("cursor", function(log)
        local cursor <close> = log:cursor { from = 3 }
        cursor:seek_time(5)
        for _ in cursor do end
      end)
      read("segments", function(log) return log.segments end)
      read("config", function(log) return log.config end)
      read("stats", function(log) return log:stats() end)
      read("tostring", function(log)
        return tostring(log) .. tostring(log:fetch(0)) .. tostring(log.segments)
      end)
      read("error", function(log)
        assert(not pcall(log.fetch, log, 99))
        log:fetch(0)
      end)
    ]]
    for _, name in ipairs { "fetch", "records", "batches", "cursor", "segments",
      "config", "stats", "tostring", "error" } do
      assert.truthy(text:find(name .. "\ttrue", 1, true), text)
    end
    assert.is_true(ended)
  end)

  it("B68: in an append appends all of it or nothing", function()
    local text, ended = sweeps [[
      local log = open { clock = function() return 5 end }
      local before
      local function start()
        before = log.log_end_offset
        return log
      end
      local function write(name, count, act)
        sweep(name, start, act, function(done, log)
          collectgarbage() -- An appender that was left drops its records.
          collectgarbage()
          local more = log.log_end_offset - before
          assert(more == count or not done and more == 0, name .. more)
          assert(#log:fetch(before) == more)
          assert(log:append_kv("next", "v") == before + more)
        end)
      end
      local headers = {}
      for i = 1, 20 do
        headers[i] = { "name", "value" }
      end
      write("append", 1, function(log)
        log:append { key = "k", value = "v", headers = headers }
      end)
      write("list", 30, function(log)
        local list = {}
        for i = 1, 30 do
          list[i] = { key = "k", headers = headers }
        end
        log:append(list)
      end)
      write("append_kv", 1, function(log)
        log:append_kv("k", "v", nil, headers)
      end)
      write("appender", 2, function(log)
        local out = log:appender()
        out:append_kv("k", "v", nil, headers)
        out:append { key = "k", headers = headers }
        out:close()
      end)
    ]]
    for _, name in ipairs { "append", "list", "append_kv", "appender" } do
      assert.truthy(text:find(name .. "\ttrue", 1, true), text)
    end
    assert.is_true(ended)
  end)

  it("B68: while opening or closing leaves no lock and no descriptor", function()
    local text, ended = sweeps [[
      local before = descriptors()
      sweep("open", path, function(dir)
        local log <close> = minikafka.open(dir, { segment_bytes = 1000,
          clock = function() return 5 end, progress = print })
        log:append_kv("k", "v")
      end, function(_, dir)
        collectgarbage()
        collectgarbage()
        local log <close> = minikafka.open(dir)
        assert(log.log_end_offset <= 1)
      end)
      sweep("close", open, function(log)
        log:fetch(0)
        log:close()
      end, function(_, log)
        log:close()
        local again <close> = minikafka.open(log.directory)
        assert(#again:fetch(0) == 10)
      end)
      assert(descriptors() == before)
    ]]
    assert.truthy(text:find("open\ttrue", 1, true), text)
    assert.truthy(text:find("close\ttrue", 1, true), text)
    assert.is_true(ended)
  end)

  it("B68: in a cleanup does it, or does not", function()
    local text, ended = sweeps [[
      local before = descriptors()
      local hook = { before_swap = function() collectgarbage("count") end }
      sweep("compact", open, function(log)
        return minikafka.LogCompactor(hook):compact(log)
      end, function(done, log)
        local count = #log:fetch(0)
        assert(count == 6 or not done and count == 10, count)
        log:append_kv("k", "v")
        log:close()
      end)
      sweep("retain", open, function(log)
        return minikafka.RetentionManager(function() return 100 end)
          :apply(log, { retention_ms = 1 })
      end, function(done, log)
        local start = log.log_start_offset
        assert(start == 4 or not done and start == 0)
        log:append_kv("k", "v")
        log:close()
      end)
      sweep("delete", open, function(log)
        return log:delete_closed_segments { 0 }
      end, function(done, log)
        local start = log.log_start_offset
        assert(start == 4 or not done and start == 0)
        log:close()
      end)
      assert(descriptors() == before)
    ]]
    for _, name in ipairs { "compact", "retain", "delete" } do
      assert.truthy(text:find(name .. "\ttrue", 1, true), text)
    end
    assert.is_true(ended)
  end)

  it("B68: while loading lets it be loaded later", function()
    local text, ended = host(([[
      for n = 1, 10000 do
        for name in pairs(package.loaded) do
          if name:find("^minikafka") then
            package.loaded[name] = nil
          end
        end
        local done, raised, spent = failing(n, require, "minikafka")
        assert(done or tostring(raised):find("not enough memory"), raised)
        if spent < n then
          break
        end
        if n %% 10 == 0 then
          local log <close> = require "minikafka".open(%q)
          log:append_kv("k", "v")
          assert(log:fetch(log.log_end_offset - 1)[1].value == "v")
          assert(tostring(log.active_segment):find("segment"))
        end
      end
      print("loaded")
    ]]):format(tmp.path()))
    assert.equal("loaded\n", text)
    assert.is_true(ended)
  end)
end)
