-- minikafka.explore: what it proves of a log, and that it finds what is wrong.

local expect = require "spec.support.expect"
local minikafka = require "minikafka"

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
      minikafka.explore{ exchange = exchange,
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
    end
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
end)

describe("a scenario with a bug", function()
  -- It says "done" before the flush.
  local function scenario()
    return {
      run = function(disk, ack)
        local log = minikafka.open("/log", { io = disk })
        for i = 1, 3 do append(log, ack, "value " .. i) end
      end,
      check = check_acked,
    }
  end

  local function explore_fails(options)
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
    assert.equal(1, load(first.script)(found).distinct)
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
    assert.truthy(tostring(raised):find("of a recovery after step", 1, true))
    local done, again = pcall(load(raised.script), found)
    assert.equal(false, done)
    assert.equal(raised.message, again.message)
  end)

  it("fails by returning false, too; other results are fine", function()
    local found = { run = function() end, check = function() return false end }
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
    expect.argument_error("tears", minikafka.explore, with("tears", 1))
    expect.argument_error("replay", minikafka.explore, with("replay", { 1, "2" }))
    expect.argument_error("names", minikafka.explore, with(1, 1))
    expect.error("INVALID_ARGUMENT", minikafka.explore, with("replay", { 1 }))
    expect.error("INVALID_ARGUMENT", minikafka.explore, with("nested", -1))
    expect.error("INVALID_ARGUMENT", minikafka.explore, with("page_bytes", 1))
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
