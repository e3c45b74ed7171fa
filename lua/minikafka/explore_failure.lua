--- What minikafka.explore says of a disk that `check` fails on.
--
-- A trail is how it was come to: {moment, number, outer}, where `number` is that
-- of the state among those that a crash at this moment may leave, and `outer`
-- the trail to the state on which the moment was one of the recovery.

local failure = {}

-- ---- Pictures ----

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

--- How much is otherwise after the crash: the number of files, and how many
-- bytes they are longer or shorter.
function failure.measure(before, after)
  local files, bytes = 0, 0
  for _, file in ipairs(compare(before, after)) do
    if file.changed then
      files = files + 1
      bytes = bytes + math.abs((file.before or 0) - (file.after or 0))
    end
  end
  return files, bytes
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

-- ---- Words ----

local function one_line(text)
  return (tostring(text):gsub("%s*\n%s*", "; "))
end

--- "step 3 (fsync /log/minikafka.state, at queue.lua:12)"
function failure.tell_moment(moment)
  local event, where = moment.event, moment.where
  return ("step %d (%s%s)"):format(moment.step,
    event and event.op .. " " .. event.path or "the end",
    where and ", at " .. where or "")
end

--- "step 3 (...) of the recovery after a crash before step 9 (...)"
local function tell_trail(trail)
  local text = failure.tell_moment(trail.moment)
  while trail.outer do
    trail = trail.outer
    text = text .. " of a recovery after a crash before "
      .. failure.tell_moment(trail.moment)
  end
  return text
end

local function tell_acked(acked)
  local last = acked[#acked]
  if not last then
    return "nothing was acknowledged by then"
  end
  local values = {}
  for i = 1, last.n do
    local value = last[i]
    values[i] = type(value) == "string" and ("%q"):format(value)
      or tostring(value)
  end
  return one_line(("acknowledged by then: %d, last of them (%s)")
    :format(#acked, table.concat(values, ", ")))
end

-- ---- Scripts ----

local script = [[
-- %s
-- Looks at that one disk again. The scenario: a file that returns it or calls
-- explore with it, or the table itself.
local minikafka = require "minikafka"

local explore, scenario = minikafka.explore, ... or %s
local function again(found)
  local one = { seed = %d, replay = { %s } } -- step %d, profile %s
  return explore(setmetatable(one, { __index = found }))
end
if type(scenario) == "table" then return again(scenario) end
local _ <close> = setmetatable({}, { __close = function() minikafka.explore = explore end })
minikafka.explore = again
local found = dofile(assert(scenario, "give it the name of the scenario's file"))
return type(found) == "table" and found.run and again(found) or found
]]

--- Return the name of the file that a function is from, as a Lua string; "nil"
-- if it is from none.
local function file_of(body)
  local path = debug.getinfo(body, "S").source:match("^@(.+)")
  return path and ("%q"):format(path) or "nil"
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

--- Return the fields of the error object, and what is printed of it. `after`
-- is the disk that the trail ends with, as it was found.
function failure.describe(e, trail, after, acked, cause)
  local numbers, steps = trail_numbers(trail)
  local before = trail.moment.disk
  local list = compare(before, after)
  local head = ("check fails after a crash before %s, profile %s, seed %d: %s")
    :format(tell_trail(trail), after.profile, e.seed, one_line(cause))
  local fields = {
    code = "CHECK_FAILED",
    message = head .. "; before -> after: " .. tell(list),
    step = steps[1], steps = steps, profile = after.profile, seed = e.seed,
    where = trail.moment.where, cause = cause, acked = acked,
    picture = draw(list), before = before, after = after,
    script = script:format(head, file_of(e.run), e.seed,
      table.concat(numbers, ", "), steps[1], after.profile),
  }
  return fields, ("%s\n\n%s\n%s\n\n%s"):format(head, fields.picture,
    tell_acked(acked), fields.script)
end

return failure
