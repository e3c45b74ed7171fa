-- Calls drawn at random were made to Apache Kafka 4.4.0's own classes, and its
-- answers and files written down. The same calls give us the same segments after
-- each of them and, at the end, the same files byte for byte.
--
-- A line of the data has: `calls`, each a word and its arguments; `answers`,
-- after each call "start end base:bytes,base:bytes,", or the name of Kafka's
-- error; `files`, by name, in Base64. Calls are
--
--   now MS                   the clock
--   cfg NAME=VALUE …         settings, Kafka's names
--   open CLEAN POINT START   after a clean end
--   a MS:KEY:VALUE[:HEADER:VALUE …] …    one batch; bytes are hexadecimal, "_"
--                            none of them, "-" null
--   roll, flush, trunc OFFSET, delrec OFFSET, close
--   ret                      what lies below the log start goes, as with us it
--                            has gone before

local minikafka = require "minikafka"
local tmp = require "spec.support.tmp"
local collector = require "spec.support.collector"
local json = require "spec.support.json"
local base64 = require "spec.support.base64"

local data = "spec/data/kafka-random.jsonl"

local codes = {
  RecordBatchTooLargeException = "RECORD_TOO_LARGE",
  RecordTooLargeException = "RECORD_TOO_LARGE",
  RecordValidationException = "INVALID_TIMESTAMP",
}

local function bytes_of(text)
  if text == "-" then return nil end
  if text == "_" then return "" end
  return (text:gsub("%x%x", function(pair)
    return string.char(tonumber(pair, 16))
  end))
end

local function split(text, separator)
  local parts = {}
  for part in text:gmatch("[^" .. separator .. "]+") do
    parts[#parts + 1] = part
  end
  return parts
end

local function record_of(text)
  local parts = split(text, ":")
  local record = { timestamp_ms = math.tointeger(tonumber(parts[1])),
    key = bytes_of(parts[2]), value = bytes_of(parts[3]) }
  for i = 4, #parts, 2 do
    record.headers = record.headers or {}
    table.insert(record.headers, { bytes_of(parts[i]), bytes_of(parts[i + 1]) })
  end
  return record
end

local words = { ["true"] = true, ["false"] = false }

local calls = {}

function calls.now(run, ms)
  run.clock:set_ms(math.tointeger(tonumber(ms)))
end

function calls.cfg(run, ...)
  local settings = {}
  for _, setting in ipairs{ ... } do
    local name, text = setting:match("^([%w.]+)=(.*)$")
    local value = words[text]
    if value == nil then value = math.tointeger(tonumber(text)) or text end
    name = name:gsub("^internal%.", ""):gsub("%.", "_")
    settings[name], run.settings[name] = value, value
  end
  if run.log then run.log:configure(settings) end
end

function calls.open(run)
  local options = { clock = run.clock }
  for name, value in pairs(run.settings) do options[name] = value end
  run.log = minikafka.open(run.dir, options)
end

function calls.a(run, ...)
  local records = {}
  for i, text in ipairs{ ... } do records[i] = record_of(text) end
  run.log:append(records)
end

function calls.roll(run) run.log:roll() end

function calls.flush(run) run.log:flush() end

function calls.trunc(run, offset)
  run.log:truncate_to(math.tointeger(tonumber(offset)))
end

function calls.delrec(run, offset)
  run.log:delete_records(math.tointeger(tonumber(offset)))
end

function calls.ret() end

function calls.close(run)
  run.log:close()
  run.log = nil
end

-- Start, end and segments, without those that lie below the start: Kafka's go
-- later, ours with the next removal.
local function shape_of(start, stop, segments)
  local from = 1
  while segments[from + 1] and segments[from + 1].base <= start do
    from = from + 1
  end
  local told = { start .. " " .. stop }
  for i = from, #segments do
    told[#told + 1] = segments[i].base .. ":" .. segments[i].bytes
  end
  return table.concat(told, " ")
end

local function kafkas_shape(answer)
  local start, stop, list = answer:match("^(%d+) (%d+) (.*)$")
  local segments = {}
  for base, bytes in list:gmatch("(%d+):(%d+),") do
    segments[#segments + 1] = { base = math.tointeger(tonumber(base)),
      bytes = math.tointeger(tonumber(bytes)) }
  end
  return shape_of(math.tointeger(tonumber(start)),
    math.tointeger(tonumber(stop)), segments)
end

local function our_shape(log)
  local segments = {}
  for i, segment in ipairs(log.segments) do
    segments[i] = { base = segment.base_offset, bytes = segment.log_bytes }
  end
  return shape_of(log.log_start_offset, log.log_end_offset, segments)
end

local function make(run, call, answer)
  local parts = split(call, " ")
  local done, raised = pcall(calls[parts[1]], run, table.unpack(parts, 2))
  local code = answer:match("^%a+$")
  if code then
    assert.is_false(done)
    assert.equal(codes[code], raised.code)
  elseif not done then
    error(raised, 0)
  elseif run.log and answer ~= "" and not call:find("^delrec") then
    assert.equal(kafkas_shape(answer), our_shape(run.log), call)
  end
end

describe("Calls drawn at random", function()
  setup(collector.relax)
  teardown(collector.restore)
  after_each(tmp.clean)

  for case in json.lines(data) do
    it("leave what Kafka leaves: " .. case.case, function()
      local run = { dir = tmp.path(), clock = minikafka.ManualClock(0),
        settings = {} }
      for i, call in ipairs(case.calls) do
        make(run, call, case.answers[i])
      end
      for name, kafkas in pairs(case.files) do
        assert(base64.decode(kafkas) == tmp.read(run.dir .. "/" .. name),
          name .. " differs")
      end
    end)
  end
end)
