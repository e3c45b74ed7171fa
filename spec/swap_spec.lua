-- Opening what a swap of directories left: all states of the three directories
-- together, and the page that tells of them.

local minikafka = require "minikafka"
local collector = require "spec.support.collector"
local expect = require "spec.support.expect"
local swap_states = require "spec.support.swap_states"

local places = { live = "/d/t-0", new = "/d/minikafka.new.t-0",
  old = "/d/minikafka.old.t-0" }
local order = { "live", "new", "old" }

-- ---- Making a state ----

--- Return the files of a log with a closed segment whose values are `value`.
local function make_log(value)
  local disk = minikafka.SimDisk()
  local log = minikafka.open("/log", { io = disk })
  log:append { { key = "a", value = value, timestamp_ms = 1 },
    { key = "b", value = value, timestamp_ms = 2 } }
  log:roll()
  log:append_kv("c", value, 3)
  log:close()
  local files = {}
  for _, path in ipairs(disk:list()) do
    files[path:match("[^/]+$")] = disk:read(path)
  end
  return files
end

local logs = { live = make_log("live"), new = make_log("new"),
  old = make_log("old") }

local closed = ("%020d.log"):format(0)

local function note(phase, name, version)
  return ("minikafka swap %d\nlive %s\nphase %s\n"):format(version or 1,
    name or "t-0", phase)
end

local strange = { note("ready"):sub(1, -2), note("ready", "t-1"),
  note("ready", "t-0", 2), "", note("done"), note("ready") .. "\n",
  ("x"):rep(5000) }

local function copy(files)
  local made = {}
  for name, bytes in pairs(files) do
    made[name] = bytes
  end
  return made
end

local damages = {
  function(files) files[closed] = nil end,
  function(files) files[closed] = files[closed]:sub(1, -2) end,
  function(files) files[closed] = "" end,
  function(files) -- Nothing but its state is left.
    for name in pairs(copy(files)) do
      files[name] = name == "minikafka.state" and files[name] or nil
    end
  end,
}

local drawn = 0

--- Return one of a list, all of them in turn.
local function draw(list)
  drawn = drawn + 1
  return list[drawn % #list + 1]
end

--- Return the files of a directory in this state: a table, or a string for
-- what is not a directory.
local function make(place, state)
  local kind, noted = state:match("^(%a+) ?(%a*)$")
  local files = {}
  if kind == "missing" then
    return nil
  elseif kind == "file" then
    return "a file"
  elseif kind == "empty" then
    files["minikafka.swap.tmp"] = "minikafka sw"
  elseif kind == "other" then
    files["diary"] = "dear"
  else
    files = copy(logs[place])
  end
  if kind == "damaged" then
    draw(damages)(files)
  elseif kind == "building" then
    files["minikafka.swap"] = note("building")
  end
  if noted == "ready" then
    files["minikafka.swap"] = note("ready")
  elseif noted == "strange" then
    files["minikafka.swap"] = draw(strange)
  end
  return files
end

local function build(states)
  local disk = minikafka.SimDisk()
  for _, place in ipairs(order) do
    local files = make(place, states[place])
    if type(files) == "string" then
      disk:write(places[place], files)
    end
    for name, bytes in pairs(type(files) == "table" and files or {}) do
      disk:write(places[place] .. "/" .. name, bytes)
    end
  end
  return disk
end

-- ---- Looking at what became of it ----

--- Return all files at and below `path`, as text.
local function tell(disk, path)
  local lines = {}
  for _, file in ipairs(disk:list()) do
    if file == path or file:sub(1, #path + 1) == path .. "/" then
      lines[#lines + 1] = file:sub(#path + 1) .. "=" .. disk:read(file)
    end
  end
  return table.concat(lines, "\0")
end

local function open(disk, read_only)
  return minikafka.open(places.live, { io = disk, read_only = read_only })
end

--- Return what is read, or the code of the error.
local function look(disk, read_only)
  local done, log = pcall(open, disk, read_only)
  if not done then
    assert(minikafka.is_error(log), log)
    return log.code, log
  end
  local values = {}
  local whole, raised = pcall(function()
    for _, _, value in log:records() do
      values[#values + 1] = value
    end
  end)
  log:close()
  if not whole then
    return raised.code, raised
  end
  return table.concat(values, " ")
end

local function whole(value)
  return ("%s %s %s"):format(value, value, value)
end

local kinds = { missing = "missing", file = "not a directory", empty = "empty",
  other = "empty", building = "incomplete", damaged = "damaged",
  log = "a log" }

--- What the error has to list.
local function found(states)
  local list = {}
  for i, place in ipairs(order) do
    local kind, noted = states[place]:match("^(%a+) ?(%a*)$")
    list[i] = { path = places[place], what = kinds[kind],
      note = kind == "building" and "building" or noted ~= "" and noted or nil }
  end
  return list
end

local function check_refused(disk, states, writer_only)
  local before = disk:hash()
  for _, read_only in ipairs { not writer_only, false } do
    local code, raised = look(disk, read_only)
    assert.equal("SWAP_AMBIGUOUS", code)
    assert.equal(places.live, raised.path)
    assert.same(found(states), raised.found)
    assert.truthy(raised.message:find("minikafka.new.t-0", 1, true))
    assert.truthy(raised.message:find("open it again", 1, true))
  end
  assert.equal(before, disk:hash())
end

local function was_directory(state)
  return state ~= "missing" and state ~= "file"
end

--- Does this sibling go?
local function goes(rule, states, place)
  if rule.opens == place then
    return true
  elseif rule.goes == "both" then
    return was_directory(states[place])
  end
  return place == "new" and swap_states.is_ours(states.new)
end

local function check_siblings(disk, states, rule, before)
  for _, place in ipairs { "new", "old" } do
    local after = tell(disk, places[place])
    if goes(rule, states, place) then
      assert.equal("", after)
    else
      assert.equal(before[place], after)
    end
  end
end

--- What is read; nil where that depends on the damage.
local function expected(rule, states)
  if rule.opens == "nothing" then
    return ""
  elseif rule.opens ~= "as it is" then
    return whole(rule.opens)
  elseif states.live == "file" then
    return "IO"
  elseif not states.live:find("damaged") then
    return ""
  end
end

local function check_opened(disk, states, rule)
  local before, hash = {}, disk:hash()
  for place, path in pairs(places) do
    before[place] = tell(disk, path)
  end
  local wanted = expected(rule, states)
  local seen = look(disk, true)
  assert.equal(hash, disk:hash())
  if rule.opens == "nothing" then
    assert.equal("NOT_FOUND", seen)
  elseif wanted then
    assert.equal(wanted, seen)
  end
  seen = look(disk, false)
  assert.not_equal("SWAP_AMBIGUOUS", seen)
  if wanted then
    assert.equal(wanted, seen)
  end
  if rule.opens == "as it is" and states.live ~= "empty"
    and states.live ~= "other" then
    return -- It need not have opened.
  end
  check_siblings(disk, states, rule, before)
  assert.equal(wanted, look(disk, false))
end

local function check(live, new, old)
  local states = { live = live, new = new, old = old }
  local rule, number = swap_states.find(live, new, old)
  local done, raised = pcall(function()
    local disk = build(states)
    if rule.opens == "error" then
      check_refused(disk, states)
    else
      check_opened(disk, states, rule)
    end
  end)
  if not done then
    error(("live %s, new %s, old %s (rule %d): %s"):format(live, new, old,
      number, tostring(type(raised) == "table" and raised.message or raised)), 0)
  end
  return number
end

describe("what a swap left", function()
  setup(collector.relax)
  teardown(collector.restore)

  for _, live in ipairs(swap_states.states) do
    it("is decided by the table, live " .. live[1], function()
      for _, new in ipairs(swap_states.states) do
        for _, old in ipairs(swap_states.states) do
          check(live[1], new[1], old[1])
        end
      end
    end)
  end

  it("is decided by rules of which each one is used", function()
    local used, list = {}, {}
    for _, live in ipairs(swap_states.states) do
      for _, new in ipairs(swap_states.states) do
        for _, old in ipairs(swap_states.states) do
          local _, number = swap_states.find(live[1], new[1], old[1])
          used[number] = true
        end
      end
    end
    for number in ipairs(swap_states.rules) do
      list[#list + 1] = used[number] and number or nil
    end
    assert.equal(#swap_states.rules, #list)
  end)
end)

-- A bit that has flipped in a closed segment shows only when it is read. It is
-- before something goes that could be needed instead.
describe("a damaged byte", function()
  local function flip(disk, place)
    disk:damage(places[place] .. "/" .. closed, { flip = 8 * 70 })
  end

  -- A reader removes nothing, so it reads what there is.
  local function read_code(disk)
    local log <close> = open(disk, true)
    return expect.error("CORRUPT_SEGMENT", log.fetch, log, 0).code
  end

  it("in the log keeps the old tree from being removed", function()
    for _, place in ipairs { "new", "old" } do
      local states = { live = "log ready", new = "missing", old = "missing" }
      states[place] = "log"
      local disk = build(states)
      flip(disk, "live")
      states.live = "damaged ready"
      check_refused(disk, states, true)
      assert.equal("CORRUPT_SEGMENT", read_code(disk))
    end
  end)

  it("in the log keeps a complete new tree from being removed", function()
    local disk = build { live = "log", new = "log ready", old = "missing" }
    flip(disk, "live")
    check_refused(disk, { live = "damaged", new = "log ready", old = "missing" },
      true)
    assert.equal("CORRUPT_SEGMENT", read_code(disk))
  end)

  it("in the old tree gives the name to a complete new one", function()
    local states = { live = "missing", new = "log ready", old = "log" }
    local disk = build(states)
    flip(disk, "old")
    check_opened(disk, states, swap_states.rules[7])
    assert.equal(whole("new"), look(disk, false))
  end)

  it("in both is refused", function()
    local disk = build { live = "missing", new = "log ready", old = "log" }
    flip(disk, "old")
    flip(disk, "new")
    check_refused(disk, { live = "missing", new = "damaged ready",
      old = "damaged" })
  end)

  it("elsewhere is left to whoever reads it", function()
    local disk = build { live = "log", new = "missing", old = "missing" }
    flip(disk, "live")
    local log <close> = open(disk, false)
    expect.error("CORRUPT_SEGMENT", log.fetch, log, 0)
  end)
end)

-- A broker that is started between two renames makes a log of its own.
describe("an empty log that somebody else made", function()
  it("in the place of one between two renames is refused", function()
    local states = { live = "missing", new = "log ready", old = "log" }
    local disk = build(states)
    for _, suffix in ipairs { "log", "index", "timeindex" } do
      disk:write(("%s/%020d.%s"):format(places.live, 0, suffix), "")
    end
    states.live = "log"
    check_refused(disk, states)
  end)
end)

describe("docs/recovery.md", function()
  it("has the table that the list makes", function()
    local file <close> = assert(io.open("docs/recovery.md"))
    local page = file:read("a")
    for _, part in ipairs { swap_states.page(), swap_states.glossary() } do
      assert(page:find(part, 1, true), "the page has to have:\n" .. part)
    end
  end)
end)
