-- What the world around a log does to it: few descriptors, files that others
-- shorten, deleted files, other users, and processes that end.

local minikafka = require "minikafka"
local tmp = require "spec.support.tmp"
local expect = require "spec.support.expect"

local manual = minikafka.ManualClock

local function open(options, dir)
  options = options or {}
  options.clock = options.clock or manual(1000)
  return minikafka.open(dir or tmp.path(), options)
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

describe("the environment", function()
  after_each(tmp.clean)

  it("B60: many segments need few descriptors", function()
    local dir = tmp.path()
    local text = tmp.child(([[
      local minikafka = require "minikafka"
      local log <close> = minikafka.open(%q, { segment_bytes = 100 })
      for i = 1, 300 do
        log:append { key = "k" .. i %% 9, value = "v", timestamp_ms = i }
      end
      assert(#log.segments == 300)
      for offset = 0, 299, 7 do
        assert(log:fetch(offset, 1)[1].offset == offset)
      end
      assert(#log:fetch(0) == 300)
      assert(log:offset_for_timestamp(250) == 249)
      minikafka.LogCompactor():compact(log)
      assert(#log:fetch(0) == 9)
      io.write("done")
    ]]):format(dir), "ulimit -n 40; exec")
    assert.equal("done", text)
    local log <close> = open(nil, dir)
    assert.equal(300, log.log_end_offset)
  end)

  it("B60: no descriptor to be had is an error, and no more", function()
    local dir = tmp.path()
    local log = open(nil, dir)
    fill(log, 5)
    log:close()
    local text = tmp.child(([[
      local minikafka = require "minikafka"
      local held = {}
      for i = 1, 100 do
        held[i] = io.open("/dev/null")
      end
      local failed = 0
      for free = 0, 12 do
        local done, raised = pcall(function()
          local log <close> = minikafka.open(%q)
          log:append { value = "v" }
          log:roll()
          minikafka.LogCompactor():compact(log)
          assert(#log:fetch(0) >= 3)
        end)
        if not done then
          assert(minikafka.is_error(raised, "IO"), tostring(raised))
          assert(raised.errno == "EMFILE", raised.errno)
          failed = failed + 1
        end
        table.remove(held):close()
      end
      io.write(failed > 0 and "failed, then worked" or "never failed")
    ]]):format(dir), "ulimit -n 30; exec")
    assert.equal("failed, then worked", text)
    local again <close> = open(nil, dir)
    assert(again.log_end_offset > 5)
    for offset = 5, again.log_end_offset - 1 do
      assert.equal("v", again:fetch(offset)[1].value)
    end
  end)

  it("B61: a file that somebody shortens is an error, no signal", function()
    for _, suffix in ipairs { "log", "index", "timeindex" } do
      local dir = tmp.path()
      local text, _, kind = tmp.child(([[
        local minikafka = require "minikafka"
        local log = minikafka.open(%q, { index_interval_bytes = 1 })
        for round = 1, 2 do
          for i = 1, 200 do
            log:append_kv("k" .. i, ("v"):rep(100), i)
          end
          if round == 1 then log:roll() end
        end
        for _, base in ipairs { 0, 200 } do
          io.open(("%%s/%%020d.%s"):format(log.directory, base), "w"):close()
        end
        local function try(call, ...)
          local done, raised = pcall(call, ...)
          assert(done or minikafka.is_error(raised), raised)
        end
        for offset = 0, 399, 50 do
          try(log.fetch, log, offset)
        end
        for time = 0, 200, 50 do
          try(log.offset_for_timestamp, log, time)
        end
        for i = 1, 50 do
          try(log.append_kv, log, "k", "v")
        end
        try(log.roll, log)
        try(log.close, log)
        io.write("no signal")
      ]]):format(dir, suffix))
      assert.equal("exit", kind, text)
      assert.equal("no signal", text)
    end
  end)

  -- Descriptors and mappings of deleted files that this process has.
  local function deleted_files(dir)
    local pipe <close> = assert(io.popen(
      "ls -l /proc/$PPID/fd; cat /proc/$PPID/maps"))
    local count = 0
    for line in pipe:lines() do
      if line:find("(deleted)", 1, true) and line:find(dir, 1, true) then
        count = count + 1
      end
    end
    return count
  end

  it("B62: files that are gone take no space", function()
    local log <close> = open { index_interval_bytes = 1 }
    fill(log, 40)
    local iterator = log:records()
    iterator()
    for _ = 1, 20 do
      fill(log, 20)
      log:roll()
      minikafka.LogCompactor():compact(log)
      fill(log, 3)
      log:roll()
      minikafka.RetentionManager():apply(log, { retention_bytes = 1 })
    end
    -- Log, index and time index of the segment that the iterator stands on.
    assert(deleted_files(log.directory) <= 3)
    iterator = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.equal(0, deleted_files(log.directory))
  end)

  it("B65: another user's directory is read, and left alone", function()
    local as_nobody = "exec setpriv --reuid 65534 --regid 65534 --clear-groups"
    if tmp.child("require 'minikafka' io.write('ready')", as_nobody) ~= "ready" then
      return pending("another user cannot run Lua in this place")
    end
    local dir = tmp.path()
    local log = open({ index_interval_bytes = 1 }, dir)
    fill(log, 20)
    local dead = tmp.copy(dir)
    log:close()
    local dirs = { dir, dead, tmp.copy(dir), tmp.copy(dead) }
    assert(os.remove(("%s/%020d.index"):format(dirs[3], 0)))
    local path = ("%s/%020d.log"):format(dirs[4], 0)
    tmp.write(path, tmp.read(path) .. "torn")
    for _, each in ipairs(dirs) do
      assert(os.execute("chmod -R a-w,a+rX " .. tmp.quote(each)))
      local before = tmp.fingerprint(each)
      local text = tmp.child(([[
        local minikafka = require "minikafka"
        local log <close> = minikafka.open(%q, { read_only = true })
        io.write(#log:fetch(0), " ", log:fetch(19)[1].value, " ")
        local _, raised = pcall(log.append, log, { value = "v" })
        io.write(raised.code, " ")
        log:close()
        _, raised = pcall(minikafka.open, %q)
        io.write(raised.code, " ", raised.errno)
      ]]):format(each, each),
        as_nobody)
      assert.equal("20 v19 READ_ONLY IO EACCES", text)
      assert.equal(before, tmp.fingerprint(each))
    end
  end)

  it("changes no file that has another name elsewhere", function()
    local names = { "minikafka.lock", "minikafka.reserve", "minikafka.state", "minikafka.state.tmp",
      "minikafka.unproven", "minikafka.swap", "minikafka.rewrite" }
    for _, suffix in ipairs { "log", "index", "timeindex" } do
      for _, base in ipairs { 0, 20, 21, 22 } do
        names[#names + 1] = ("%020d.%s"):format(base, suffix)
      end
    end
    for _, content in ipairs { "precious", "" } do
      for _, name in ipairs(names) do
        for _, closed in ipairs { true, false } do
          local dir, precious = tmp.path(), tmp.path()
          local path = dir .. "/" .. name
          local log = open({ index_interval_bytes = 1 }, dir)
          fill(log, 20)
          log:roll()
          fill(log, 1)
          if closed then log:close() end
          os.remove(path)
          tmp.write(precious, content)
          assert(os.execute("ln " .. tmp.quote(precious) .. " " .. tmp.quote(path)))
          if closed then
            local opened, again = pcall(open, {}, dir)
            log = opened and again or log
          end
          for _, act in ipairs { "roll", "flush", "close" } do
            pcall(fill, log, 1)
            pcall(log[act], log)
          end
          pcall(function() open({}, dir):close() end)
          if name ~= "minikafka.lock" or content ~= "" then
            assert.equal(content, tmp.read(precious), name)
          end
        end
      end
    end
  end)

  it("B81: what was appended survives every way to end", function()
    for _, ending in ipairs { "os.exit(0)", "os.exit(0, true)",
      "error('uncaught')", "os.execute('kill -TERM ' .. pid)",
      "os.execute('kill -INT ' .. pid)", "os.execute('kill -9 ' .. pid)",
      "" } do
      local dir = tmp.path()
      tmp.child(([[
        local minikafka = require "minikafka"
        local stat = assert(io.open("/proc/self/stat"))
        pid = stat:read("n")
        log = minikafka.open(%q)
        out = log:appender()
        for i = 1, 3 do
          log:append { value = "v" .. i }
        end
        out:append_kv(nil, "buffered")
        cursor = log:cursor()
        cursor()
        %s
      ]]):format(dir, ending))
      local log <close> = open(nil, dir)
      assert.same({ "0 -=v1", "1 -=v2", "2 -=v3" }, brief(log))
      assert.equal(3, log:append { value = "v" })
    end
  end)

  it("B84: another Lua gets an error", function()
    local probe <close> = assert(io.popen("command -v lua5.1"))
    if probe:read("a") == "" then
      return
    end
    local file = assert(package.searchpath("minikafka.core",
      package.cpath))
    local pipe = assert(io.popen(([[lua5.1 -e '
      local load = package.loadlib("%s", "luaopen_minikafka_core")
      print(load and pcall(load) and "loaded" or "refused")' 2>&1]]):format(
      file)))
    local text = pipe:read("a")
    local _, kind = pipe:close()
    assert.equal("exit", kind)
    assert.is_nil(text:find("loaded", 1, true))
  end)
end)
