--- Crash a program at every step, and look at whatever could be left.
--
--     local result = minikafka.explore{
--       setup = function(disk) ... end,        -- may be left out
--       run = function(disk, ack) ack(log:append(...)) end,
--       check = function(disk, acked) ... end, -- raises, or returns false
--     }
--
-- `run` is run once. Before each operation that it has the disk do, and after
-- the last, the disk is cloned: that is the moment of a crash. `check` then
-- gets each disk that could be found after it, and what had been given to
-- `ack` by then, a table.pack() of each call; it opens, recovers and looks.
-- What is the same in content, acknowledgements and time is looked at once.
--
-- Options beside these, each with its default:
--
--     profile = "hostile"  the harshest loss of power; "kill9" is none at all
--     nested = 0           how many crashes in a row: while `check` recovers
--                          what a crash left, the next one comes
--     limit = nil          of states at each moment; nil: all
--     tears = false        states with a torn page, too
--     seed = 1             of what is drawn where there are too many states
--     progress = nil       function(steps, states), after each moment
--     replay = nil         look at one state only: see below
--
-- and those of SimDisk: capacity_bytes, capacity_files, clock, exchange,
-- fsync_links, page_bytes, sector_bytes. A clock that is given here is one for
-- all disks: leave it out where `check` changes it.
--
-- The result is {steps, states, distinct, complete, acked, seed}: operations
-- of `run`, disks found, those among them that differ, whether that was all,
-- and how often `ack` was called.
--
-- The first disk that `check` fails on, at the earliest step and under the
-- weakest profile there, becomes an error object CHECK_FAILED with `step`,
-- `steps` (a list, if crashes were nested), `profile`, `seed`, `cause` (what
-- was raised), `before` and `after` (the disks, to look at), `picture` and
-- `script`. The script is given the scenario and looks at that one disk again:
-- `replay` is a list of pairs, a step and the number of a state, one pair for
-- each crash in a row.

local core = require "minikafka.core"

local SimDisk = core.public.SimDisk

local disk_options = { "capacity_bytes", "capacity_files", "clock", "exchange",
  "fsync_links", "page_bytes", "profile", "sector_bytes", "seed" }

local own_options = { "check", "limit", "nested", "progress", "replay", "run",
  "setup", "tears" }

-- They leave the disk as it is: a crash before the next operation finds what a
-- crash before this one finds.
local harmless = { read = true, stat = true, list = true }

-- ---- Options ----

local function wrong_type(name, expected, value)
  error(("bad argument #1 to 'explore' (option '%s': %s expected, got %s)")
    :format(name, expected, math.type(value) or type(value)), 0)
end

local function check_names(options)
  local names, known = {}, {}
  table.move(disk_options, 1, #disk_options, 1, names)
  table.move(own_options, 1, #own_options, #names + 1, names)
  for _, name in ipairs(names) do
    known[name] = true
  end
  for name in pairs(options) do
    if type(name) ~= "string" then
      error("bad argument #1 to 'explore' (names of options must be strings)",
        0)
    end
    if not known[name] then
      local nearest = core.nearest(name, names)
      core.raise{ code = "INVALID_ARGUMENT", nearest = nearest,
        message = ("unknown option '%s': did you mean '%s'?")
          :format(name, nearest) }
    end
  end
end

local function check_type(options, name, expected, needed)
  local value = options[name]
  if (value ~= nil or needed) and type(value) ~= expected then
    wrong_type(name, expected, value)
  end
  return value
end

local function check_count(options, name)
  local value = options[name]
  if value == nil then
    return nil
  end
  local count = core.integer(value) or wrong_type(name, "integer", value)
  if count < 0 then
    core.raise{ code = "INVALID_ARGUMENT", message =
      ("option '%s' is %d, and must be at least 0"):format(name, count) }
  end
  return count
end

local function check_replay(options)
  local replay = check_type(options, "replay", "table")
  for i, number in ipairs(replay or {}) do
    if not core.integer(number) then
      wrong_type(("replay[%d]"):format(i), "integer", number)
    end
  end
  if replay and (#replay == 0 or #replay % 2 ~= 0) then
    core.raise{ code = "INVALID_ARGUMENT",
      message = "option 'replay' is a list of pairs: step, state, ..." }
  end
  return replay
end

--- Return an exploration that has just begun, and the options of its disk.
local function read_options(options)
  if type(options) ~= "table" then
    error(("bad argument #1 to 'explore' (table expected, got %s)")
      :format(type(options)), 0)
  end
  check_names(options)
  local made = {}
  for _, name in ipairs(disk_options) do
    made[name] = options[name]
  end
  return {
    setup = check_type(options, "setup", "function"),
    run = check_type(options, "run", "function", true),
    check = check_type(options, "check", "function", true),
    progress = check_type(options, "progress", "function"),
    nested = check_count(options, "nested") or 0,
    limit = check_count(options, "limit"),
    tears = check_type(options, "tears", "boolean"),
    replay = check_replay(options),
    seed = core.integer(options.seed) or 1,
    clock_given = options.clock ~= nil,
    seen = {}, states = 0, distinct = 0, complete = true,
  }, made
end

-- ---- Moments ----

--- Call `body` and return the moments at which a crash could come: each has
-- `step`, `disk` as it was then, `acked` and `event`, the operation that was
-- not done. `acked` is a list that grows meanwhile. Also returns what pcall()
-- does, and how many steps there were.
local function watch(disk, acked, body)
  local moments, changed, known = {}, true, -1
  local first = disk:stats().steps

  local function note(step, event)
    if changed or known ~= #acked then
      moments[#moments + 1] = { step = step, event = event,
        disk = disk:clone(), acked = #acked }
    end
    changed, known = not (event and harmless[event.op]), #acked
  end

  disk:trace(function(event)
    note(event.step - first, event)
  end)
  local outcome = table.pack(pcall(body))
  local steps = disk:stats().steps - first
  disk:trace(nil)
  changed = true
  note(steps + 1, nil)
  return moments, outcome, steps
end

--- Return a copy of the first `count` acknowledgements.
local function copy_acked(acked, count)
  local copy = {}
  for i = 1, count do
    copy[i] = table.move(acked[i], 1, acked[i].n, 1, { n = acked[i].n })
  end
  return copy
end

--- Iterate over the numbers and disks that a crash at this moment may leave.
-- The first, that of a kill, still has its unsynced changes if another crash
-- may follow.
local function survivors(e, moment, depth)
  local next_state, _, _, row = moment.disk:crash_states{ limit = e.limit,
    tears = e.tears }

  return function(_, number)
    local state = next_state()
    if not state then
      local _, complete = row:info()
      e.complete = e.complete and complete
      return nil
    end
    if number == 0 and depth > 0 then
      state = moment.disk:clone()
    end
    return number + 1, state
  end, nil, 0, row
end

-- ---- Failing ----

local function describe(event)
  if not event then
    return "the end"
  end
  return event.op .. " " .. event.path
end

--- Return a list {path, size before, size after}, sorted; of files that are
-- not there the size is false, `changed` tells of equal sizes.
local function compare(before, after)
  local sizes, list = {}, {}
  for column, disk in ipairs{ before, after } do
    for _, path in ipairs(disk:list()) do
      sizes[path] = sizes[path] or { false, false }
      sizes[path][column] = disk:read(path)
    end
  end
  for path, bytes in pairs(sizes) do
    list[#list + 1] = { path = path, before = bytes[1] and #bytes[1],
      after = bytes[2] and #bytes[2], changed = bytes[1] ~= bytes[2] }
  end
  table.sort(list, function(a, b) return a.path < b.path end)
  return list
end

local function size_text(size)
  return size and tostring(size) or "-"
end

--- Draw what was there before the crash, and after it: a line for each file.
local function draw(list)
  local width = 4
  for _, file in ipairs(list) do
    width = math.max(width, #file.path)
  end
  local format = "%-" .. width .. "s  %10s  %10s%s"
  local lines = { format:format("file", "before", "after", "") }
  for _, file in ipairs(list) do
    lines[#lines + 1] = format:format(file.path, size_text(file.before),
      size_text(file.after), file.changed and "  *" or "")
  end
  return table.concat(lines, "\n")
end

--- The same in a line, of what differs.
local function tell(list)
  local parts = {}
  for _, file in ipairs(list) do
    if file.changed then
      parts[#parts + 1] = ("%s %s -> %s"):format(file.path,
        size_text(file.before), size_text(file.after))
    end
  end
  return #parts > 0 and table.concat(parts, ", ") or "as it was"
end

local script = [[
-- %s
-- Give it the scenario: the table that explore was given, or the name of a file
-- that returns it.
local minikafka = require "minikafka"

local scenario = assert(..., "no scenario was given")
if type(scenario) == "string" then scenario = dofile(scenario) end
local again = {}
for name, value in pairs(scenario) do again[name] = value end
again.seed, again.replay = %d, { %s } -- step %d, profile %s
return minikafka.explore(again)
]]

local function one_line(text)
  return (tostring(text):gsub("%s*\n%s*", "; "))
end

--- Return the numbers of the crashes that led to a trail's end, and the steps
-- alone.
local function trail_numbers(trail)
  local numbers, steps = {}, {}
  while trail do
    table.insert(numbers, 1, trail.number)
    table.insert(numbers, 1, trail.moment.step)
    table.insert(steps, 1, trail.moment.step)
    trail = trail.outer
  end
  return numbers, steps
end

--- Return the disk that a trail ends with as it was found.
local function find_again(e, trail, depth)
  for number, state in survivors(e, trail.moment, depth) do
    if number == trail.number then
      return state
    end
  end
end

local function fail(e, trail, depth, cause)
  local numbers, steps = trail_numbers(trail)
  local after = find_again(e, trail, depth)
  local list = compare(trail.moment.disk, after)
  local where = ("step %d (%s)"):format(trail.moment.step,
    describe(trail.moment.event))
  if #steps > 1 then
    where = where .. " of a recovery after step " ..
      table.concat(steps, ", ", 1, #steps - 1)
  end
  local head = ("check fails after a crash at %s, profile %s, seed %d: %s")
    :format(where, after.profile, e.seed, one_line(cause))
  core.raise{
    code = "CHECK_FAILED",
    message = head .. "; before -> after: " .. tell(list),
    step = steps[1], steps = steps, profile = after.profile, seed = e.seed,
    cause = cause, picture = draw(list), before = trail.moment.disk,
    after = after,
    script = script:format(head, e.seed, table.concat(numbers, ", "), steps[1],
      after.profile),
  }
end

-- ---- Looking ----

--- What is the same for all disks on which `check` would do the same.
local function key_of(e, state, acked, depth)
  local time = e.clock_given and "" or state.clock:now_ms()
  return ("%s %d %d %s"):format(state:hash(), acked, depth, time)
end

local look

--- Let `check` look at one survivor, and at what further crashes make of it.
local function look_at(e, trail, state, depth)
  local acked = copy_acked(e.acked, trail.moment.acked)
  local moments, outcome

  local function body()
    return e.check(state, acked)
  end

  if depth > 0 then
    moments, outcome = watch(state, {}, body)
  else
    outcome = table.pack(pcall(body))
  end
  if not outcome[1] then
    fail(e, trail, depth, outcome[2])
  elseif outcome[2] == false then
    fail(e, trail, depth, "check returned false")
  end
  if depth > 0 then
    for _, moment in ipairs(moments) do
      moment.acked = trail.moment.acked
      look(e, moment, trail, depth - 1)
    end
  end
end

--- Is it on the way of the replay, as far as that goes?
local function is_wanted(e, depth, step, number)
  if not e.replay then
    return true
  end
  local at = 2 * (e.nested - depth)
  if at >= #e.replay then
    return false
  end
  return e.replay[at + 1] == step
    and (number == nil or e.replay[at + 2] == number)
end

--- Look at all that a crash at this moment may leave.
function look(e, moment, outer, depth)
  if not is_wanted(e, depth, moment.step) then
    return
  end
  for number, state in survivors(e, moment, depth) do
    local key = key_of(e, state, moment.acked, depth)
    e.states = e.states + 1
    if not e.seen[key] and is_wanted(e, depth, moment.step, number) then
      e.seen[key] = true
      e.distinct = e.distinct + 1
      look_at(e, { moment = moment, number = number, outer = outer }, state,
        depth)
    end
  end
end

local result_type = { __name = "minikafka.exploration" }

function result_type:__tostring()
  return ("%d steps, %d states, %d of them distinct%s"):format(self.steps,
    self.states, self.distinct, self.complete and "" or " (not all there are)")
end

--- Run the scenario, and find out.
local function explore(e, made)
  local disk = SimDisk(made)
  e.acked = {}
  if e.setup then
    e.setup(disk)
  end
  local moments, outcome, steps = watch(disk, e.acked, function()
    e.run(disk, function(...)
      e.acked[#e.acked + 1] = table.pack(...)
    end)
  end)
  if not outcome[1] and not core.public.is_error(outcome[2], "CRASHED") then
    error(outcome[2], 0)
  end
  for i, moment in ipairs(moments) do
    look(e, moment, nil, e.nested)
    moments[i] = false -- Its disk can go.
    if e.progress then
      e.progress(math.min(moment.step, steps), e.states)
    end
  end
  return setmetatable({ steps = steps, states = e.states,
    distinct = e.distinct, complete = e.complete and not e.replay,
    acked = #e.acked, seed = e.seed }, result_type)
end

return function(options)
  local done, e, made = pcall(read_options, options)
  if not done then
    error(e, type(e) == "string" and 2 or 0)
  end
  return explore(e, made)
end
