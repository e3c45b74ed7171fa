-- What survives which kind of death: the table of docs/survives.md, found out
-- by doing each thing on a simulated disk, and looking at every disk that a
-- death may leave.

local minikafka = require "minikafka"
local collector = require "spec.support.collector"
local new_random = require("spec.support.random").new

local path = "/data/orders-0"
local profiles = { "kill9", "lazy", "prefix", "ordered", "writeback", "hostile" }

-- ---- What is done ----

local function open(disk, options)
  options = options or {}
  options.io = disk
  return minikafka.open(path, options)
end

-- A log with two closed segments and an active one, all on stable storage.
local function fill(log)
  log:append { { key = "a", value = "1", timestamp_ms = 1 },
    { key = "b", value = "1", timestamp_ms = 2 } }
  log:roll()
  log:append_kv("a", "2", 3)
  log:roll()
  log:append_kv("c", "1", 4)
  log:flush()
end

local function records_of(log)
  local parts = {}
  for offset, key, value in log:records() do
    parts[#parts + 1] = ("%d:%s=%s"):format(offset, key, value or "-")
  end
  return table.concat(parts, " ")
end

local before = "0:a=1 1:b=1 2:a=2 3:c=1"
local appended = before .. " 4:d=1"

local function append(log)
  log:append_kv("d", "1", 5)
end

local function has_records(wanted)
  return function(log)
    return records_of(log) == wanted
  end
end

-- What a copy of the log holds, or nil where there is none.
local function records_of_copy(disk)
  local done, copy = pcall(minikafka.open, "/backup/orders-0",
    { io = disk, read_only = true })
  if not done then
    assert(minikafka.is_error(copy, "NOT_FOUND"), copy)
    return nil
  end
  local records = records_of(copy)
  copy:close()
  return records
end

-- Each thing: what it is called, how it is done, with which options the log is
-- open, and how a log (or its disk) is told in which it is done. `is_half`
-- tells what is neither done nor not done, beyond what is so for all.
local things = {
  { "`open` of a new log", new = true, act = function() end,
    kept = function() return true end },
  { "`append`, and what an appender has sent", act = append,
    kept = has_records(appended) },
  { "what an appender holds back", act = function(log)
    log:appender():append_kv("d", "1", 5)
  end, kept = has_records(appended) },
  { "`append` with `durable = true`", act = function(log)
    log:append({ key = "d", value = "1", timestamp_ms = 5 }, { durable = true })
  end, kept = has_records(appended) },
  { "`append` with `flush_messages = 1`", options = { flush_messages = 1 },
    act = append, kept = has_records(appended) },
  { "`append`s before the one that comes when `flush_ms` has passed",
    options = { flush_ms = 100 }, act = function(log, disk)
      append(log)
      disk.clock:advance_ms(101)
      log:append_kv("e", "1", 6)
    end, kept = function(log)
      return records_of(log):sub(1, #appended) == appended
    end },
  { "`append`, then `flush`", act = function(log)
    append(log)
    log:flush()
  end, kept = has_records(appended) },
  { "`append`, then `roll`", act = function(log)
    append(log)
    log:roll()
  end, kept = has_records(appended) },
  { "`append`, then `close`", act = function(log)
    append(log)
    log:close()
  end, kept = has_records(appended) },
  { "what lies below `recovery_point`", act = append,
    kept = has_records(before), part = true },
  { "the log start after `delete_records`", act = function(log)
    log:delete_records(1)
  end, kept = has_records("1:b=1 2:a=2 3:c=1") },
  { "the log start after retention", act = function(log)
    minikafka.RetentionManager():apply(log, { retention_bytes = 1 })
  end, kept = has_records("3:c=1") },
  { "the log start after `delete_closed_segments`", act = function(log)
    log:delete_closed_segments { 0 }
  end, kept = has_records("2:a=2 3:c=1") },
  { "the end after `truncate_to`", act = function(log)
    log:truncate_to(2)
  end, kept = has_records("0:a=1 1:b=1") },
  { "the compacted log after `LogCompactor:compact`", act = function(log)
    minikafka.LogCompactor():compact(log)
  end, kept = has_records("1:b=1 2:a=2 3:c=1") },
  { "the copy after `copy_to`", act = function(log)
    log:copy_to("/backup/orders-0")
  end, kept = function(_, disk)
    return records_of_copy(disk) == before
  end, is_half = function(disk)
    return (records_of_copy(disk) or before) ~= before
  end },
}

-- ---- What is left of it ----

-- Is the thing done, as far as the log can tell that opens on this disk?
local function is_kept(thing, state)
  local log = minikafka.open(path, { io = state, create = false })
  local seen = records_of(log)
  local kept = thing.kept(log, state)
  if thing.part then
    kept = seen:sub(1, #before) == before
  end
  log:close()
  return kept
end

local function start(thing)
  local disk = minikafka.SimDisk()
  if thing.new then
    return disk
  end
  local log = open(disk, thing.options)
  fill(log)
  return disk, log
end

-- Return for each profile whether the thing is there on every disk.
local function survives(thing)
  local disk, log = start(thing)
  if not log then
    log = open(disk, thing.options)
  end
  thing.act(log, disk)
  local lost, states = {}, 0
  for state in disk:crash_states() do
    local done, kept = pcall(is_kept, thing, state)
    if not (done and kept) then
      lost[state.profile] = true
    end
    states = states + 1
  end
  assert(states > 0)
  local row, any = { not lost.kill9 }, false
  for i = 2, #profiles do -- Each allows what those before it allow.
    any = any or lost[profiles[i]] or false
    row[i] = not any
  end
  return row
end

-- Is it done or not done, and nothing else, wherever the power goes? What was
-- on stable storage before must be there in both cases.
local function is_whole(thing)
  return pcall(minikafka.explore, {
    report = false,
    profile = "hostile", limit = 300,
    setup = function(disk)
      if not thing.new then
        local log = open(disk)
        fill(log)
        log:close()
      end
    end,
    run = function(disk)
      thing.act(open(disk, thing.options), disk)
    end,
    check = function(disk)
      local log <close> = open(disk)
      local seen = records_of(log)
      if thing.new then
        return seen == ""
      end
      assert(not thing.is_half or not thing.is_half(disk), "half a copy")
      assert(seen == before or thing.kept(log, disk)
        or thing.part and seen == appended, seen)
    end,
  })
end

local function word(yes)
  return yes and "yes" or "no"
end

local function make_page()
  local lines = {
    "| | " .. table.concat(profiles, " | ") .. " | cut off in the middle |",
    "|---|" .. ("---|"):rep(#profiles + 1),
  }
  for _, thing in ipairs(things) do
    local cells = {}
    for i, kept in ipairs(survives(thing)) do
      cells[i] = word(kept)
    end
    local whole, raised = is_whole(thing)
    assert(whole or minikafka.is_error(raised, "CHECK_FAILED"), raised)
    cells[#cells + 1] = whole and "all or nothing" or "in part"
    lines[#lines + 1] = ("| %s | %s |"):format(thing[1],
      table.concat(cells, " | "))
  end
  return table.concat(lines, "\n") .. "\n"
end

describe("docs/survives.md", function()
  setup(collector.relax)
  teardown(collector.restore)

  it("has the table that comes of trying", function()
    local file <close> = assert(io.open("docs/survives.md"))
    local table_text = make_page()
    assert(file:read("a"):find(table_text, 1, true),
      "the page has to have:\n" .. table_text)
  end)

  -- The cut takes a batch whole: the offsets 0 and 1 are a gap then. What was
  -- appended behind it is lost in some survivors; the gap is known in all.
  for _, way in ipairs { "", "k", "ko", "koko", "koako" } do
    it("keeps the end after `truncate_to` before a gap" ..
      (way == "" and "" or ", after " .. way), function()
      local disk = minikafka.SimDisk { seed = 1 }
      local log = minikafka.open("/log", { io = disk })
      log:append({ { value = "0" }, { value = "1" }, { value = "2" } },
        { durable = true })
      log:truncate_to(2)
      log:append_kv("k", "never flushed")
      for step in way:gmatch(".") do
        if step == "k" then disk:crash { keep = "kill9" } end
        if step == "o" then log = minikafka.open("/log", { io = disk }) end
        if step == "a" then log:append_kv("k", "nor this") end
      end
      local count = 0
      for survivor in disk:crash_states { profile = "hostile" } do
        local again <close> = minikafka.open("/log", { io = survivor })
        assert.is_true(again.log_end_offset >= 2)
        assert.equal(again.log_end_offset, again:append { value = "next" })
        count = count + 1
      end
      assert.is_true(count > 1)
    end)
  end

  local CHANGES = {}
  for op in ("write truncate allocate rename exchange link unlink"):gmatch("%a+") do
    CHANGES[op] = true
  end

  local function act(log, options, random)
    local what = random:int(1, 6)
    if what == 1 then log:roll() end
    if what == 2 then log:flush() end
    if what == 3 then
      log:truncate_to(random:int(log.log_start_offset, log.log_end_offset))
    end
    if what == 4 then
      log:close()
      return minikafka.open("/log", options)
    end
    if what == 5 then minikafka.LogCompactor():compact(log) end
    if what == 6 then
      for i = 1, 3 do log:append_kv("k" .. i, ("v"):rep(random:int(0, 200))) end
    end
    return log
  end

  -- Some hundred short lives that end in a loss of power, then three openings.
  it("changes nothing at a second opening, with `preallocate` too", function()
    for seed = 1, 3000 do
      local random = new_random(seed)
      local disk = minikafka.SimDisk { seed = seed }
      local options = {
        io = disk, preallocate = random:one_in(2),
        segment_bytes = random:pick { 1024, 4096 },
      }
      local log = minikafka.open("/log", options)
      for _ = 1, random:int(0, 6) do log = act(log, options, random) end
      disk:crash { keep = random:pick(profiles) }
      for opening = 1, 3 do
        local changes = {}
        disk:trace(function(event)
          if not CHANGES[event.op] then return end
          changes[#changes + 1] = event.op .. " " .. event.path
        end)
        log = minikafka.open("/log", options) -- Held, or it would be closed.
        disk:trace(nil)
        if opening > 1 then
          assert.equal("", table.concat(changes, ", "), "seed " .. seed)
          assert.is_true(log.log_end_offset >= log.log_start_offset)
        end
        disk:crash { keep = "kill9" }
      end
    end
  end)
end)
