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
--     exhaustive_bits = 22 a moment at which more than 2^this choices of what
--                          is not synced could survive is drawn from; up to 26
--     tears = false        states with a torn page, too
--     seed = 1             of what is drawn where there are too many states
--     report = nil         function(text), given a failure and, every few
--                          seconds, how far it is and how fast; nil: stderr,
--                          false: nobody
--     progress = nil       function(steps, states, of, per_second), after each
--                          moment: so many steps of all, states so far, and
--                          their rate in processor time
--     replay = nil         look at one state only: see below
--
-- and those of SimDisk: capacity_bytes, capacity_files, clock, exchange,
-- fsync_links, page_bytes, sector_bytes. A clock that is given here is one for
-- all disks: leave it out where `check` changes it.
--
-- The result is {steps, states, distinct, complete, incomplete, acked, seed}:
-- operations of `run`, disks found, those among them that differ, whether that
-- was all, the list of the steps at which it was not, and how often `ack` was
-- called; `note` is a sentence where there is something else to know.
--
-- A disk that `check` fails on becomes an error object CHECK_FAILED with
-- `step`, `steps` (a list, if crashes were nested), `profile`, `seed`, `cause`
-- (what was raised), `where` (the line of the program that was about to have
-- the disk do something), `acked`, `before` and `after` (the disks, to look
-- at), `picture` and `script`. It is the simplest one: of the fewest crashes in
-- a row, at the earliest step, under the weakest profile there, and among those
-- the one on which the fewest files and bytes are not as before the crash. The
-- script looks at that one disk again: `replay` is a list of pairs, a step and
-- the number of a state, one pair for each crash in a row.

local core = require "minikafka.core"
local failure = require "minikafka.explore_failure"

local SimDisk = core.public.SimDisk

local disk_options = { "capacity_bytes", "capacity_files", "clock", "exchange",
  "fsync_links", "page_bytes", "profile", "sector_bytes", "seed" }

local own_options = { "check", "exhaustive_bits", "limit", "nested", "progress", "replay", "report",
  "run", "setup", "tears" }

-- Seconds of work between two lines that say how far it is.
local SECONDS_TO_TELL = 5

-- Once a state fails, so many others of its moment are weighed against it.
local SHRINK_MAX = 1000

-- A moment in the midst of a compaction of a few segments has fewer choices.
local EXHAUSTIVE_BITS = 22

-- All files of this library begin with this; what they do is done for others.
local SOURCE = debug.getinfo(1, "S").source
local OWN_SOURCE = SOURCE:match("^(.*)explore%.lua$") or SOURCE

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

local function check_bits(options)
  local bits = check_count(options, "exhaustive_bits") or EXHAUSTIVE_BITS
  if bits < 4 or bits > 26 then
    core.raise{ code = "INVALID_ARGUMENT", message =
      ("option 'exhaustive_bits' is %d, and must be in 4..26"):format(bits) }
  end
  return bits
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

local function report_to_stderr(text)
  io.stderr:write(text, "\n")
end

local function check_report(options)
  local report = options.report
  if report == nil then
    return report_to_stderr
  elseif report == false then
    return nil
  end
  return check_type(options, "report", "function")
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
    exhaustive_bits = check_bits(options),
    tears = check_type(options, "tears", "boolean"),
    report = check_report(options),
    replay = check_replay(options),
    seed = core.integer(options.seed) or 1,
    clock_given = options.clock ~= nil,
    seen = {}, states = 0, distinct = 0, incomplete = {},
    began = os.clock(), told = os.clock(),
  }, made
end

-- ---- Moments ----

--- Which line of the program is it that has come to this operation?
local function find_line()
  local level = 3
  local frame = debug.getinfo(level, "Sl")
  while frame do
    if frame.what ~= "C" and frame.source:sub(1, #OWN_SOURCE) ~= OWN_SOURCE then
      return ("%s:%d"):format(frame.short_src, frame.currentline)
    end
    level = level + 1
    frame = debug.getinfo(level, "Sl")
  end
end

--- Call `body` and return the moments at which a crash could come: each has
-- `step`, `disk` as it was then, `acked`, `event`, the operation that was not
-- done, and `where`, the line that asked for it. `acked` is a list that grows
-- meanwhile. Also returns what pcall() does, and how many steps there were.
local function watch(disk, acked, body)
  local moments, changed, known = {}, true, -1
  local first = disk:stats().steps

  local function note(step, event)
    if changed or known ~= #acked then
      moments[#moments + 1] = { step = step, event = event,
        disk = disk:clone(), acked = #acked, where = event and find_line() }
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

--- Not all disks that a crash at this moment may leave are looked at.
local function note_incomplete(e, moment)
  local steps = e.incomplete
  if steps[#steps] ~= e.step then
    steps[#steps + 1] = e.step
    e.first_incomplete = e.first_incomplete or failure.tell_moment(moment)
  end
end

--- Iterate over the numbers and disks that a crash at this moment may leave.
-- The first, that of a kill, still has its unsynced changes if another crash
-- may follow.
local function survivors(e, moment, depth)
  local next_state, _, _, row = moment.disk:crash_states{ limit = e.limit,
    tears = e.tears, exhaustive_bits = e.exhaustive_bits }

  return function(_, number)
    local state = next_state()
    if not state then
      local _, complete = row:info()
      if not complete then
        note_incomplete(e, moment)
      end
      return nil
    end
    if number == 0 and depth > 0 then
      state = moment.disk:clone()
    end
    return number + 1, state
  end, nil, 0, row
end

--- Return the disk with that number as it was found.
local function find_again(e, moment, wanted)
  for number, state in survivors(e, moment, 0) do
    if number == wanted then
      return state
    end
  end
end

-- ---- Looking ----

local function per_second(e)
  return math.tointeger(e.states // math.max(os.clock() - e.began, 0.001))
end

--- What is the same for all disks on which `check` would do the same.
local function key_of(e, state, acked, depth)
  local time = e.clock_given and "" or state.clock:now_ms()
  return ("%s %d %d %s"):format(state:hash(), acked, depth, time)
end

--- Let `check` look at a disk. Return whether it is content, and if not, what
-- it raised.
local function judge(e, moment, state)
  local acked = copy_acked(e.acked, moment.acked)
  local done, value = pcall(e.check, state, acked)
  if done and value == false then
    return false, "check returned false"
  end
  return done, value
end

--- Of the states of the same moment and profile, beginning with the one that
-- failed, find the failing one that is nearest to what was before the crash.
-- Returns its number, and what was raised.
local function shrink(e, trail, cause)
  local moment, nearer, profile = trail.moment, {}, nil
  for number, state in survivors(e, moment, 0) do
    if number > trail.number + SHRINK_MAX
        or profile and state.profile ~= profile then
      break
    elseif number >= trail.number then
      profile = state.profile
      local files, bytes = failure.measure(moment.disk, state)
      nearer[#nearer + 1] = { number = number, state = state, files = files,
        bytes = bytes }
    end
  end
  table.sort(nearer, function(a, b)
    if a.files ~= b.files then return a.files < b.files end
    if a.bytes ~= b.bytes then return a.bytes < b.bytes end
    return a.number < b.number
  end)
  for _, found in ipairs(nearer) do
    if found.number == trail.number then
      break
    end
    local content, raised = judge(e, moment, found.state)
    if not content then
      return found.number, raised
    end
  end
  return trail.number, cause
end

local function fail(e, trail, cause)
  local number = trail.number
  if not e.replay then
    number, cause = shrink(e, trail, cause)
  end
  local shown = { moment = trail.moment, number = number, outer = trail.outer }
  local fields, text = failure.describe(e, shown,
    find_again(e, trail.moment, number),
    copy_acked(e.acked, trail.moment.acked), cause)
  if e.report then
    e.report(text)
  end
  core.raise(fields)
end

--- Say how far it is, if nothing was said for a while.
local function tell_progress(e)
  local now = os.clock()
  if e.report and now - e.told >= SECONDS_TO_TELL then
    e.told = now
    e.report(("explore: step %d of %d%s, %d states, %d a second"):format(
      e.step, e.steps, e.depth > 0 and (", %d more crashes in a row")
        :format(e.depth) or "", e.states, per_second(e)))
  end
end

local look

--- Look at one survivor, or at what further crashes make of it. That `check` is
-- content with it is known in the second case, from when there were fewer.
local function look_at(e, trail, state, depth)
  if depth == 0 then
    local content, cause = judge(e, trail.moment, state)
    if not content then
      fail(e, trail, cause)
    end
    return
  end
  local moments = watch(state, {}, function()
    return e.check(state, copy_acked(e.acked, trail.moment.acked))
  end)
  for _, moment in ipairs(moments) do
    moment.acked = trail.moment.acked
    look(e, moment, trail, depth - 1)
  end
end

--- Is it on the way of the replay, as far as that goes?
local function is_wanted(e, depth, step, number)
  if not e.replay then
    return true
  end
  local at = 2 * (e.depth - depth)
  return e.replay[at + 1] == step
    and (number == nil or e.replay[at + 2] == number)
end

--- Look at all that a crash at this moment may leave, after `depth` more
-- crashes.
function look(e, moment, outer, depth)
  if not is_wanted(e, depth, moment.step) then
    return
  end
  for number, state in survivors(e, moment, depth) do
    local key = key_of(e, state, moment.acked, depth)
    if depth == 0 then
      e.states = e.states + 1
      tell_progress(e)
    end
    if not e.seen[key] and is_wanted(e, depth, moment.step, number) then
      e.seen[key] = true
      if depth == 0 then
        e.distinct = e.distinct + 1
      end
      look_at(e, { moment = moment, number = number, outer = outer }, state,
        depth)
    end
  end
end

local result_type = { __name = "minikafka.exploration" }

local function counted(count, word)
  return ("%d %s%s"):format(count, word, count == 1 and "" or "s")
end

function result_type:__tostring()
  local text = ("%s, %s, %d of them distinct"):format(
    counted(self.steps, "step"), counted(self.states, "state"), self.distinct)
  if self.note then
    return ("%s; %s"):format(text, self.note)
  end
  return text
end

--- What a person should know of the result beside the numbers, if anything.
local function note_of(e)
  if e.replay then
    return e.distinct > 0 and "check is content with the disk that replay names"
      or "the disk that replay names is not among those found"
  elseif e.steps == 0 then
    return "run had the disk do nothing: are its logs opened with io = disk?"
  elseif #e.incomplete > 0 then
    return ("at %s not all there are: %s had more than %s, the first was %s")
      :format(counted(#e.incomplete, "step"),
        #e.incomplete == 1 and "it" or "they",
        e.limit and "limit" or "exhaustive_bits allow", e.first_incomplete)
  end
end

--- Raise what a part of the scenario raised. That its disk lost power, which it
-- may do itself, only ends that part.
local function pass_on(done, raised)
  if not done and not core.public.is_error(raised, "CRASHED") then
    error(raised, 0)
  end
end

--- Run the scenario, and find out.
local function explore(e, made)
  local disk = SimDisk(made)
  e.acked = {}
  if e.setup then
    pass_on(pcall(e.setup, disk))
  end
  local moments, outcome, steps = watch(disk, e.acked, function()
    e.run(disk, function(...)
      e.acked[#e.acked + 1] = table.pack(...)
    end)
  end)
  pass_on(outcome[1], outcome[2])
  e.steps = steps
  local last = e.replay and #e.replay // 2 - 1 or e.nested
  for depth = e.replay and last or 0, last do
    e.depth = depth
    for i, moment in ipairs(moments) do
      e.step = math.min(moment.step, steps)
      look(e, moment, nil, depth)
      if depth == last then
        moments[i] = false -- Its disk can go.
      end
      if e.progress then
        e.progress(e.step + depth * steps, e.states, (last + 1) * steps,
          per_second(e))
      end
    end
  end
  local note = note_of(e)
  if note and e.report and not (e.limit and #e.incomplete > 0) then
    e.report("explore: " .. note)
  end
  return setmetatable({ steps = steps, states = e.states,
    distinct = e.distinct, complete = #e.incomplete == 0 and not e.replay,
    incomplete = e.incomplete, acked = #e.acked, seed = e.seed, note = note },
    result_type)
end

return function(options)
  local done, e, made = pcall(read_options, options)
  if not done then
    error(e, type(e) == "string" and 2 or 0)
  end
  return explore(e, made)
end
