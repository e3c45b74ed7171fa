--- Made-up records, the same ones for the same seed.
--
--     local w = minikafka.workload{ seed = 1, keys = minikafka.keys.zipf(1000) }
--     w:run(log, 10000)
--
-- Options, each with its default:
--
--     seed = 1             where the chances begin
--     keys = uniform(1000) a generator of keys: see minikafka.keys
--     value_bytes = 100    the size of a value, or {least, greatest}
--     tombstones = 0       how likely a record with a key has no value, 0..1
--     keyless = 0          how likely a record has no key, 0..1
--     interval_ms = nil    time between records, or {least, greatest}
--
-- Each record is a batch of its own. Without `interval_ms` records take the
-- log's time. With it, a log on a ManualClock has that clock moved on after
-- each record; on any other clock the records are stamped instead, beginning
-- with the log's time at the first `run`. A workload goes on where it stopped:
-- two runs of 50 records give what one of 100 gives.
--
-- A value is a piece of a text of 64 Ki letters that the seed chooses.

local core = require "minikafka.core"
local keys = require "minikafka.keys"
local random = require "minikafka.random"

local names = { "interval_ms", "keyless", "keys", "seed", "tombstones",
  "value_bytes" }

local letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
local text_bytes = 65536

-- ---- Options ----

local function invalid(...)
  core.raise{ code = "INVALID_ARGUMENT", message = string.format(...) }
end

--- Raise the ordinary error of an option with the wrong type.
local function wrong_type(name, expected, value)
  error(("bad argument #1 to 'workload' (option '%s': %s expected, got %s)")
    :format(name, expected, math.type(value) or type(value)), 0)
end

local function check_names(options)
  local known = {}
  for _, name in ipairs(names) do
    known[name] = true
  end
  for name in pairs(options) do
    if type(name) ~= "string" then
      error("bad argument #1 to 'workload' (names of options must be strings)", 0)
    end
    if not known[name] then
      local nearest = core.nearest(name, names)
      core.raise{ code = "INVALID_ARGUMENT", nearest = nearest,
        message = ("unknown option '%s': did you mean '%s'?")
          :format(name, nearest) }
    end
  end
end

local function integer(name, value)
  return core.integer(value) or wrong_type(name, "integer", value)
end

local function chance(name, value)
  if value == nil then
    return 0.0
  end
  if not math.type(value) then
    wrong_type(name, "number", value)
  end
  if not (value >= 0 and value <= 1) then
    invalid("option '%s' is %s, and must be in 0..1", name, value)
  end
  return value
end

--- Read a number or {least, greatest}: return both.
local function range(name, value)
  local least, greatest = value, value
  if type(value) == "table" then
    least, greatest = value[1], value[2]
  end
  least, greatest = integer(name, least), integer(name, greatest)
  if least < 0 or greatest < least then
    invalid("option '%s' is %d to %d, and must go up from 0", name, least,
      greatest)
  end
  return least, greatest
end

local function generator(value)
  if value == nil then
    return keys.uniform(1000)
  end
  return type(value) == "function" and value
    or wrong_type("keys", "function", value)
end

-- ---- Records ----

local function make_text(chances)
  local text = {}
  for i = 1, text_bytes do
    local at = chances(#letters)
    text[i] = letters:sub(at, at)
  end
  return table.concat(text)
end

local function pick(chances, least, greatest)
  return least + chances(greatest - least + 1) - 1
end

local function make_value(w)
  local size = pick(w.chances, w.value_least, w.value_greatest)
  if size > text_bytes then
    return w.text:rep(size // text_bytes + 1):sub(1, size)
  end
  local at = w.chances(text_bytes - size + 1)
  return w.text:sub(at, at + size - 1)
end

--- Make the next record's key and value.
local function make_record(w)
  local key
  if w.chances() >= w.keyless then
    key = w.keys(w.chances, w.index)
  end
  w.index = w.index + 1
  if key and w.chances() < w.tombstones then
    return key, nil
  end
  return key, make_value(w)
end

local workload = {}
workload.__index = workload
workload.__name = "minikafka.workload"

function workload:__tostring()
  return ("%s(seed %d, %d records so far)"):format(workload.__name, self.seed,
    self.index)
end

--- Append a record; return its offset.
local function append(w, log, clock)
  local key, value = make_record(w)
  if not w.interval_least then
    return log:append_kv(key, value)
  end
  local interval_ms = pick(w.chances, w.interval_least, w.interval_greatest)
  if clock then
    local offset = log:append_kv(key, value)
    clock:advance_ms(interval_ms)
    return offset
  end
  local offset = log:append_kv(key, value, w.next_ms)
  w.next_ms = w.next_ms + interval_ms
  return offset
end

local function is_manual(clock)
  return getmetatable(clock) == "minikafka.ManualClock"
end

local function read_clock(clock)
  return type(clock) == "function" and clock() or clock:now_ms()
end

local function check_handle(name, value, metatable, expected)
  if getmetatable(value) ~= metatable then
    error(("bad argument #1 to 'run' (%s: %s expected, got %s)")
      :format(name, expected, type(value)), 3)
  end
end

--- Append `n` records to `log`. Returns the first and the last offset, or
-- nothing if `n` is 0.
function workload:run(log, n)
  check_handle("self", self, workload, workload.__name)
  check_handle("log", log, "minikafka.log", "minikafka.log")
  local count = core.integer(n)
  if not count then
    error(("bad argument #2 to 'run' (n: integer expected, got %s)")
      :format(math.type(n) or type(n)), 2)
  end
  if count < 0 then
    invalid("n is %d, and must be at least 0", count)
  end
  local clock = log.clock
  local manual = is_manual(clock) and clock or nil
  if self.interval_least and not manual and not self.next_ms then
    self.next_ms = read_clock(clock)
  end
  local first, last
  for _ = 1, count do
    last = append(self, log, manual)
    first = first or last
  end
  return first, last
end

local function read_options(options)
  if type(options) ~= "table" then
    error(("bad argument #1 to 'workload' (table expected, got %s)")
      :format(type(options)), 0)
  end
  check_names(options)
  local w = { index = 0 }
  w.seed = options.seed == nil and 1 or integer("seed", options.seed)
  w.keys = generator(options.keys)
  w.value_least, w.value_greatest = range("value_bytes",
    options.value_bytes == nil and 100 or options.value_bytes)
  w.tombstones = chance("tombstones", options.tombstones)
  w.keyless = chance("keyless", options.keyless)
  if options.interval_ms ~= nil then
    w.interval_least, w.interval_greatest = range("interval_ms",
      options.interval_ms)
  end
  return w
end

--- Make a workload of the options above.
local function new(options)
  local done, w = pcall(read_options, options == nil and {} or options)
  if not done then
    error(w, type(w) == "string" and 2 or 0)
  end
  w.chances = random.new(w.seed)
  w.text = make_text(w.chances)
  return setmetatable(w, workload)
end

return new
