-- Several states of Lua in one process: each has its own logs, nothing is
-- shared, and what a state leaves open goes with it.

local tmp = require "spec.support.tmp"

-- Run Lua source in states of their own, see spec/c/host_states.c. Returns what
-- was printed, and how the process ended.
local function states(threads, rounds, source)
  local script = tmp.path()
  tmp.write(script, ("package.path, package.cpath = %q, %q\n%s"):format(
    package.path, package.cpath, source))
  local pipe = assert(io.popen(("exec %s/spec/host_states %s %d %d 2>&1")
    :format(tmp.quote(os.getenv("MINIKAFKA_BUILD") or "build/release"),
      tmp.quote(script), threads, rounds)))
  local text = pipe:read("a")
  return text, pipe:close()
end

describe("states of Lua", function()
  after_each(tmp.clean)

  it("B82: do not notice each other in threads of their own", function()
    local text, ended = states(8, 10, ([[
      local thread, round = ...
      local minikafka = require "minikafka"
      local name = ("thread %%d, round %%d"):format(thread, round)
      local log <close> = minikafka.open(%q .. "-" .. thread,
        { clock = function() return round end })
      local before = log.log_end_offset
      for i = 1, 20 do
        log:append { key = "k" .. i %% 5, value = name .. i }
      end
      log:roll()
      local called = false
      local result = minikafka.LogCompactor { before_swap = function()
        called = true
        collectgarbage()
        assert(log:fetch(before, 1)[1].value == name .. 1)
      end }:compact(log)
      assert(called and result.records_after == 5)
      for offset, key, value, timestamp_ms in log:records(before) do
        assert(value == name .. offset - before + 1, value)
        assert(timestamp_ms == round)
      end
      local done, raised = pcall(log.fetch, log, -thread)
      assert(not done and raised.requested == -thread)
      minikafka.RetentionManager(minikafka.ManualClock(1000)):apply(log,
        { retention_ms = 0 })
      assert(#log:fetch(log.log_start_offset) == 0)
    ]]):format(tmp.path()))
    assert.equal("", text)
    assert.is_true(ended)
  end)

  -- Its handler of SIGBUS stays with the process.
  it("leave the module in memory when they are closed", function()
    local text, ended = states(1, 2, [[
      local _, round = ...
      local maps <close> = io.open("/proc/self/maps")
      local loaded = maps:read("a"):find("minikafka/core.so", 1, true) ~= nil
      assert(loaded == (round == 2))
      require "minikafka"
    ]])
    assert.equal("", text)
    assert.is_true(ended)
  end)

  it("B82: exclude each other from one directory", function()
    local text, ended = states(8, 20, ([[
      local thread, round = ...
      local minikafka = require "minikafka"
      local done, log = pcall(minikafka.open, %q)
      if done then
        local offset = log:append_kv("k", thread .. "-" .. round)
        assert(log:fetch(offset)[1].value == thread .. "-" .. round)
        log:close()
      else
        assert(minikafka.is_error(log, "LOCKED"), log)
      end
    ]]):format(tmp.path()))
    assert.equal("", text)
    assert.is_true(ended)
  end)

  it("B67: come and go, and leave logs open", function()
    local text, ended = states(1, 100, ([[
      local _, round = ...
      local minikafka = require "minikafka"
      local log = minikafka.open(%q)
      log:append_kv("k", "v" .. round)
      local cursor, out = log:cursor(), log:appender()
      out:append_kv("k", "never sent")
      local step = log:records()
      assert(cursor() == 0 and step() == 0)
      assert(log.log_end_offset == round)
      keep = { log, cursor, out, step }
    ]]):format(tmp.path()))
    assert.equal("", text)
    assert.is_true(ended)
  end)

  it("B67: may end with an error, or forget the module", function()
    for _, last in ipairs {
      "error('at the top')",
      "os.exit(0, true)",
      "package.loaded['minikafka'] = nil; package.loaded['minikafka.core'] " ..
        "= nil; collectgarbage(); assert(log:fetch(0))",
      "setmetatable({}, { __gc = function() log:fetch(0) end })",
      "setmetatable({}, { __gc = function() require 'minikafka'.open(dir .. " ..
        "'-late') end })",
      "coroutine.wrap(function() for _ in log:records() do " ..
        "coroutine.yield() end end)()",
    } do
      local dir = tmp.path()
      local text, _, how, number = tmp.child(([[
        local minikafka = require "minikafka"
        dir = %q
        log = minikafka.open(dir)
        log:append_kv("k", "v")
        local cursor = log:cursor()
        %s
      ]]):format(dir, last))
      assert.equal("exit", how, text)
      assert(number <= 1, text)
      local again = require "minikafka".open(dir)
      assert.equal(1, again.log_end_offset)
      again:close()
    end
  end)
end)
