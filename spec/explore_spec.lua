-- minikafka.explore: what it proves of a log, and that it finds what is wrong.

local expect = require "spec.support.expect"
local minikafka = require "minikafka"
local tmp = require "spec.support.tmp"

after_each(tmp.clean)

-- Every acknowledged {offset, value} is there.
local function holds_all(log, acked)
  for _, ack in ipairs(acked) do
    local record = ack[1] < log.log_end_offset and log:fetch(ack[1], 1)[1]
    if not record or record.offset ~= ack[1] or record.value ~= ack[2] then
      error(("offset %d is lost"):format(ack[1]))
    end
  end
end

local function check_acked(disk, acked)
  local log <close> = minikafka.open("/log", { io = disk })
  holds_all(log, acked)
  log:append_kv("after", "the crash")
end

local function append(log, ack, value)
  ack(log:append_kv("key", value), value)
end

describe("explore", function()
  it("proves that an append that returned survives kill -9", function()
    local result = minikafka.explore{ profile = "kill9",
      run = function(disk, ack)
        local log = minikafka.open("/log", { io = disk, segment_bytes = 200 })
        for i = 1, 8 do append(log, ack, "value " .. i) end
      end,
      check = check_acked }
    assert.truthy(result.steps > 20)
    assert.equal(8, result.acked)
    assert.equal(true, result.complete)
    assert.equal(1, result.seed)
    assert.truthy(result.states >= result.distinct)
  end)

  it("proves that what is flushed survives a loss of power, in a recovery, too", function()
    local result = minikafka.explore{ profile = "hostile", nested = 1,
      run = function(disk, ack)
        local log = minikafka.open("/log", { io = disk, segment_bytes = 200 })
        for i = 1, 3 do
          local offset = log:append_kv("key", "value " .. i)
          log:flush()
          ack(offset, "value " .. i)
        end
      end,
      check = check_acked }
    assert.truthy(result.states > 10000)
    assert.equal(true, result.complete)
  end)

  it("proves it of durable = true, with torn pages and the other disk", function()
    for _, fsync_links in ipairs{ true, false } do
      local result = minikafka.explore{ tears = true, sector_bytes = 16,
        fsync_links = fsync_links,
        run = function(disk, ack)
          local log = minikafka.open("/a/log", { io = disk })
          for i = 1, 3 do
            local value = ("v"):rep(40) .. i
            ack(log:append({ value = value }, { durable = true }), value)
          end
        end,
        check = function(disk, acked)
          local log <close> = minikafka.open("/a/log", { io = disk })
          for i = 1, #acked do
            assert(log:fetch(acked[i][1], 1)[1].value == ("v"):rep(40) .. i)
          end
        end }
      assert.truthy(result.distinct > 50)
    end
  end)

  it("proves that a compaction is all or nothing", function()
    local function contents(log)
      local text = {}
      for offset, key, value in log:records() do
        text[#text + 1] = ("%d %s=%s"):format(offset, key, value)
      end
      return table.concat(text, ", ")
    end

    for _, exchange in ipairs{ true, false } do
      local result = minikafka.explore{ exchange = exchange,
        setup = function(disk)
          local log <close> = minikafka.open("/log", { io = disk })
          for i = 0, 3 do log:append_kv("k" .. i % 2, "v" .. i) end
          log:roll()
          log:append_kv("k9", "v9")
        end,
        run = function(disk, ack)
          local log <close> = minikafka.open("/log", { io = disk })
          minikafka.LogCompactor():compact(log)
          ack("compacted")
        end,
        check = function(disk, acked)
          local log <close> = minikafka.open("/log", { io = disk })
          local now = contents(log)
          local old = "0 k0=v0, 1 k1=v1, 2 k0=v2, 3 k1=v3, 4 k9=v9"
          local new = "2 k0=v2, 3 k1=v3, 4 k9=v9"
          assert(now == new or now == old and #acked == 0, now)
          for _, path in ipairs(disk:list()) do
            assert(path:find("^/log/"), path .. " remains")
          end
        end }
      assert.equal(true, result.complete)
    end
  end)

  it("tells at which steps it drew lots, as there were too many disks", function()
    local scenario, lines = { exhaustive_bits = 6, seed = 3, check = function() end,
      run = function(disk)
        local log = minikafka.open("/log", { io = disk })
        for i = 1, 2 do log:append_kv("k", ("v"):rep(5000) .. i) end
      end }, {}
    scenario.report = function(line) lines[#lines + 1] = line end
    local result = minikafka.explore(scenario)
    assert.equal(false, result.complete)
    assert.truthy(#result.incomplete > 1 and result.incomplete[1] > 1)
    local told = ("explore: at %d steps not all there are: they had more than " ..
      "exhaustive_bits allow, the first was step %d (")
      :format(#result.incomplete, result.incomplete[1])
    assert.equal(told, lines[#lines]:sub(1, #told))
    assert.truthy(lines[#lines]:find(", at spec/explore_spec.lua:%d+%)$"))
    assert.truthy(tostring(result):find("distinct; at %d+ steps not all there are"))
    scenario.exhaustive_bits, lines = nil, {}
    result = minikafka.explore(scenario)
    assert.equal(true, result.complete)
    assert.same({}, result.incomplete)
    assert.same({}, lines)
  end)

  it("says that it was of no use where run does nothing on its disk", function()
    local line
    local result = minikafka.explore{ run = function() end, check = function() end,
      report = function(text) line = text end }
    assert.equal("0 steps, 1 state, 1 of them distinct; run had the disk do nothing: " ..
      "are its logs opened with io = disk?", tostring(result))
    assert.truthy(line:find("io = disk", 1, true))
  end)

  it("gives check the acknowledgements so far, as table.pack() has them", function()
    local most = 0
    minikafka.explore{
      run = function(disk, ack)
        ack()
        disk:write("/a", "1")
        local log = minikafka.open("/log", { io = disk })
        ack(nil, 2, nil)
        log:append_kv("a", "b")
      end,
      check = function(_, acked)
        assert(acked[1].n == 0)
        if #acked == 2 then
          assert(acked[2].n == 3 and acked[2][2] == 2)
        end
        most = math.max(most, #acked)
        acked[1] = "changed" -- By this check, for itself.
      end }
    assert.equal(2, most)
  end)

  it("does the same for the same seed", function()
    local function once()
      local seen = {}
      local result = minikafka.explore{ seed = 5,
        run = function(disk)
          local log <close> = minikafka.open("/log", { io = disk, segment_bytes = 150 })
          for i = 1, 4 do log:append_kv("k", "v" .. i) end
          log:flush()
        end,
        check = function(disk)
          seen[#seen + 1] = disk.profile .. disk:hash()
        end }
      return tostring(result) .. table.concat(seen)
    end
    assert.equal(once(), once())
  end)

  it("tells its progress, and prints", function()
    local told, last = 0, nil
    local result = minikafka.explore{ limit = 2,
      run = function(disk)
        minikafka.open("/log", { io = disk }):close()
      end,
      check = function() end,
      progress = function(steps, states)
        assert.equal("integer", math.type(steps))
        told, last = told + 1, states
      end }
    assert.truthy(told > 3)
    assert.equal(result.states, last)
    assert.equal(false, result.complete)
    assert.truthy(tostring(result):find("^%d+ steps, %d+ states"))
    local value = {}
    local _, raised = pcall(minikafka.explore, { run = function() end,
      check = function() end, progress = function() error(value) end })
    assert.equal(value, raised)
  end)

  it("says how far it is, of all crashes in a row, and how fast", function()
    local last, all, most = 0, nil, 0
    local result = minikafka.explore{ profile = "lazy", nested = 1,
      run = function(disk)
        minikafka.open("/log", { io = disk }):append_kv("k", "v")
      end,
      check = check_acked,
      progress = function(steps, states, of, per_second)
        assert(steps >= last and steps <= of)
        assert(states >= most and math.type(per_second) == "integer")
        last, all, most = steps, of, states
      end }
    assert.equal(2 * result.steps, all)
    assert.equal(all, last)
  end)

  it("reports that to stderr, or to a function, or to nobody, every few seconds", function()
    local clock, now, lines = os.clock, 0, {}
    finally(function() os.clock = clock end) -- luacheck: ignore
    os.clock = function() -- luacheck: ignore
      now = now + 3
      return now
    end
    local scenario = { profile = "lazy", check = check_acked,
      run = function(disk) minikafka.open("/log", { io = disk }) end,
      report = function(line) lines[#lines + 1] = line end }
    local result = minikafka.explore(scenario)
    assert(#lines > 1 and #lines < result.states, #lines)
    assert(lines[1]:find("^explore: step %d+ of " .. result.steps
      .. ", %d+ states, %d+ a second$"), lines[1])
    scenario.report = false
    assert.equal(result.states, minikafka.explore(scenario).states)
  end)
end)

describe("a scenario with a bug", function()
  -- It says "done" before the flush.
  local function scenario()
    return {
      report = false,
      run = function(disk, ack)
        local log = minikafka.open("/log", { io = disk })
        for i = 1, 3 do append(log, ack, "value " .. i) end
      end,
      check = check_acked,
    }
  end

  local function explore_fails(options)
    if options.report == nil then options.report = false end
    local done, raised = pcall(minikafka.explore, options)
    assert.equal(false, done)
    assert(minikafka.is_error(raised, "CHECK_FAILED"), tostring(raised))
    return raised
  end

  it("is found, with all that helps to understand it", function()
    local raised = explore_fails(scenario())
    assert.equal(1, raised.seed)
    assert.equal("lazy", raised.profile)
    assert.equal("integer", math.type(raised.step))
    assert.same({ raised.step }, raised.steps)
    assert.truthy(raised.cause:find("offset 0 is lost", 1, true))
    local sentence = tostring(raised)
    assert.falsy(sentence:find("\n"))
    for _, part in ipairs{ "step " .. raised.step, "profile lazy", "seed 1",
      "offset 0 is lost", "/log/00000000000000000000.log 78 -> -" } do
      assert(sentence:find(part, 1, true), sentence)
    end
    assert.truthy(raised.picture:find("/log/00000000000000000000.log +78 +%-  %*"))
    assert.equal(78, #raised.before:read("/log/00000000000000000000.log"))
    expect.error("NOT_FOUND", raised.after.read, raised.after,
      "/log/00000000000000000000.log")
    assert.equal("lazy", raised.after.profile)
    assert.same({ { n = 2, 0, "value 1" } }, raised.acked)
    local line = debug.getinfo(append, "S").linedefined + 1
    assert.equal(("spec/explore_spec.lua:%d"):format(line), raised.where)
    assert.truthy(sentence:find(raised.where, 1, true))
  end)

  it("is reported: what failed, the picture, what was promised, the script", function()
    local found, text = scenario(), nil
    found.report = function(given) text = given end
    local raised = explore_fails(found)
    for _, part in ipairs{ "check fails after a crash before step " .. raised.step,
      raised.picture, "acknowledged by then: 1, last of them (0, \"value 1\")",
      raised.script } do
      assert(text:find(part, 1, true), text)
    end
    local value = {}
    found.report = function() error(value) end
    assert.equal(value, select(2, pcall(minikafka.explore, found)))
  end)

  it("is replayed by the script just as it was printed, by a Lua of its own", function()
    local directory = tmp.dir()
    local lua = os.getenv("MINIKAFKA_LUA") or "lua5.4"
    local function write(name, text)
      local file <close> = assert(io.open(directory .. "/" .. name, "w"))
      file:write(text)
    end
    local function run(name)
      local pipe <close> = io.popen(("cd '%s' && %s %s 2>&1"):format(directory, lua, name))
      return pipe:read("a")
    end
    local program = [[
      local minikafka = require "minikafka"
      local scenario = {
        run = function(disk, ack)
          local log = minikafka.open("/log", { io = disk })
          ack(log:append_kv("k", "v"))
        end,
        check = function(disk, acked)
          io.stderr:write("a look\n")
          assert(minikafka.open("/log", { io = disk }).log_end_offset >= #acked, "it is lost")
        end }
      ]]
    for name, last in pairs{ calls = "minikafka.explore(scenario)", returns = "return scenario" } do
      write(name .. ".lua", program .. last)
      write(name .. "_main.lua",
        ("require('minikafka').explore(assert(dofile '%s.lua'))"):format(name))
      local first = run(name == "calls" and "calls.lua" or "returns_main.lua")
      local told = first:match("check fails[^\n]*it is lost\n")
      write("replay.lua", assert(first:match("\n(%-%- check fails.-)\n\n"), first)
        .. first:match("\n\nlocal explore.-\n\n"))
      local again = run("replay.lua")
      assert(told and again:find(told, 1, true), again)
      assert.equal(1, select(2, again:gsub("a look\n", "")))
    end
  end)

  it("is shown by the simplest disk: where most is as it was before", function()
    local raised = explore_fails{
      run = function(disk)
        for _, name in ipairs{ "/b", "/a", "/c" } do
          minikafka.open(name, { io = disk }):append_kv("k", "v")
        end
      end,
      -- What was appended first is relied on.
      check = function(disk)
        local function is_there(name)
          return minikafka.open(name, { io = disk }).log_end_offset > 0
        end
        assert(not is_there("/a") or is_there("/b"))
      end }
    assert.equal("writeback", raised.profile)
    assert.equal(1, select(2, raised.picture:gsub("%*\n?", "")))
    assert.truthy(raised.picture:find("/b/0+.log +%d+ +%d+  %*"))
  end)

  it("is shown with the fewest crashes in a row", function()
    local raised = explore_fails{ nested = 1, profile = "kill9",
      run = function(disk)
        local log = minikafka.open("/log", { io = disk })
        for _ = 1, 3 do log:append_kv("k", "v") end
      end,
      check = function(disk)
        for _, path in ipairs(disk:list()) do
          assert(path ~= "/mark", "a second recovery")
        end
        local log <close> = minikafka.open("/log", { io = disk })
        assert(log.log_end_offset < 2, "it was a long row")
        disk:write("/mark", "")
        log:append_kv("more", "")
      end }
    assert(tostring(raised.cause):find("long row", 1, true), raised.message)
    assert.equal(1, #raised.steps)
  end)

  it("is told where a replay finds its disk no more", function()
    local found, text = scenario(), nil
    found.replay = { 1, 99 }
    found.report = function(given) text = given end
    assert.equal(0, minikafka.explore(found).distinct)
    assert.truthy(text:find("not among those found", 1, true))
  end)

  it("is replayed by its script: that one state, nothing else", function()
    local found = scenario()
    local first = explore_fails(found)
    local looked = 0
    found.check = function(disk, acked)
      looked = looked + 1
      check_acked(disk, acked)
    end
    local again = explore_fails(found)
    looked = 0
    local done, raised = pcall(load(first.script), found)
    assert.equal(false, done)
    assert.equal(1, looked)
    for _, name in ipairs{ "step", "profile", "seed", "picture", "message" } do
      assert.equal(first[name], again[name])
      assert.equal(first[name], raised[name])
    end
    assert.equal(first.after:hash(), raised.after:hash())
    found.check = function() end
    local line
    found.report = function(text) line = text end
    local result = load(first.script)(found)
    assert.equal(1, result.distinct)
    assert.truthy(tostring(result):find("; check is content with the disk", 1, true))
    assert.equal("explore: check is content with the disk that replay names", line)
  end)

  it("is found in the recovery of a recovery, and replayed there", function()
    local found = { nested = 1,
      run = function(disk)
        minikafka.open("/log", { io = disk }):append_kv("k", "v")
      end,
      -- Moves a file by hand, and is not ready for a crash in between.
      check = function(disk)
        for _, path in ipairs(disk:list()) do
          assert(path ~= "/mark", "a second recovery")
        end
        local log <close> = minikafka.open("/log", { io = disk })
        disk:write("/mark", "")
        log:append_kv("more", "")
      end }
    local raised = explore_fails(found)
    assert.equal(2, #raised.steps)
    assert.truthy(tostring(raised):find("of a recovery after a crash before step", 1, true))
    local done, again = pcall(load(raised.script), found)
    assert.equal(false, done)
    assert.equal(raised.message, again.message)
  end)

  it("fails by returning false, too; other results are fine", function()
    local found = { run = function() end, check = function() return false end, report = false }
    assert.equal("check returned false", explore_fails(found).cause)
    found.check = function() return nil, "whatever" end
    assert.equal(1, minikafka.explore(found).states)
    local value = { "any" }
    found.check = function() error(value) end
    assert.equal(value, explore_fails(found).cause)
  end)
end)

describe("an error of setup or run", function()
  it("comes out unchanged", function()
    local value = {}
    local function bad() error(value) end
    local function fine() end
    local _, raised = pcall(minikafka.explore, { setup = bad, run = fine, check = fine })
    assert.equal(value, raised)
    _, raised = pcall(minikafka.explore, { run = bad, check = fine })
    assert.equal(value, raised)
  end)

  it("is part of the scenario if it is CRASHED", function()
    local result = minikafka.explore{
      run = function(disk)
        local log = minikafka.open("/log", { io = disk })
        disk:crash{ keep = "lazy" }
        log:append_kv("k", "v")
      end,
      check = function() end }
    assert.truthy(result.states > 1)
    local ran = false
    minikafka.explore{
      setup = function(disk)
        local log = minikafka.open("/log", { io = disk })
        disk:crash{ keep = "lazy" }
        log:append_kv("k", "v")
      end,
      run = function() ran = true end,
      report = false,
      check = function() end }
    assert.is_true(ran)
  end)
end)

describe("the options of explore", function()
  local function fine() end
  local function with(name, value)
    return { run = fine, check = fine, [name] = value }
  end

  it("are checked", function()
    expect.argument_error("explore", minikafka.explore)
    expect.argument_error("run", minikafka.explore, { check = fine })
    expect.argument_error("check", minikafka.explore, { run = fine })
    expect.argument_error("setup", minikafka.explore, with("setup", 1))
    expect.argument_error("progress", minikafka.explore, with("progress", 1))
    expect.argument_error("nested", minikafka.explore, with("nested", "1"))
    expect.argument_error("limit", minikafka.explore, with("limit", 1.5))
    expect.argument_error("report", minikafka.explore, with("report", true))
    expect.argument_error("tears", minikafka.explore, with("tears", 1))
    expect.argument_error("replay", minikafka.explore, with("replay", { 1, "2" }))
    expect.argument_error("names", minikafka.explore, with(1, 1))
    expect.error("INVALID_ARGUMENT", minikafka.explore, with("replay", { 1 }))
    expect.error("INVALID_ARGUMENT", minikafka.explore, with("nested", -1))
    expect.error("INVALID_ARGUMENT", minikafka.explore, with("page_bytes", 1))
    expect.error("INVALID_ARGUMENT", minikafka.explore, with("exhaustive_bits", 27))
    expect.argument_error("exhaustive_bits", minikafka.explore, with("exhaustive_bits", "9"))
    local raised = expect.error("INVALID_ARGUMENT", minikafka.explore, with("chek", fine))
    assert.equal("check", raised.nearest)
    raised = expect.error("INVALID_ARGUMENT", minikafka.explore, with("profile", "lasy"))
    assert.equal("lazy", raised.nearest)
  end)

  it("go to the disk", function()
    local clock = minikafka.ManualClock(77)
    minikafka.explore{ clock = clock, capacity_files = 2, profile = "kill9",
      run = function(disk)
        assert(disk.clock == clock and disk.profile == "kill9")
        expect.error("IO", minikafka.open, "/a/b/c", { io = disk })
      end,
      check = function(disk) assert(disk.clock == clock) end }
  end)
end)
