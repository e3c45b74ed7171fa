-- What Apache Kafka wrote, byte for byte: the cases in spec/data/golden are
-- replayed, with the answers and the shape of the log compared after each
-- operation, and the files at the end.

local minikafka = require "minikafka"
local tmp = require "spec.support.tmp"
local collector = require "spec.support.collector"
local json = require "spec.support.json"
local base64 = require "spec.support.base64"
local batches = require "spec.support.batches"
local expect = require "spec.support.expect"

local folder = "spec/data/golden/"

-- Files of these are compared whole.
local whole_cases = { "fmt-none", "seg-bytes-exact", "seg-bytes-minus-1",
  "seg-ms", "seg-ms-no-timestamps", "seg-max-lag", "seg-preallocate",
  "seg-roll-empty", "index-sparse", "index-full-rolls", "append-refused" }

-- Of these the batches without compression are replayed, alone: how many.
local partial_cases = { ["fmt-timestamps"] = 5, ["fmt-append-time"] = 2,
  ["fmt-topic-codec"] = 2, ["fmt-varints"] = 13, ["index-every-batch"] = 10 }

-- Kafka's names of errors, and ours.
local codes = {
  RecordBatchTooLargeException = "RECORD_TOO_LARGE",
  RecordTooLargeException = "RECORD_TOO_LARGE",
  InvalidRecordException = "INVALID_RECORD",
  InvalidTimestampException = "INVALID_TIMESTAMP",
}

-- Bytes as a case's lines have them.
local function from_line(bytes)
  if bytes == json.null then
    return nil
  elseif type(bytes) == "table" then
    return bytes.b64 and base64.decode(bytes.b64) or bytes.rep:rep(bytes.n)
  end
  return bytes
end

local function record_of(line)
  local record = { key = from_line(line.key), value = from_line(line.value),
    timestamp_ms = line.timestamp }
  for i, header in ipairs(line.headers or {}) do
    record.headers = record.headers or {}
    record.headers[i] = { from_line(header[1]), from_line(header[2]) }
  end
  return record
end

local function records_of(lines)
  local records = {}
  for _, line in ipairs(lines) do
    for i = 0, (line["repeat"] or 1) - 1 do
      local record = record_of(line)
      if i > 0 then
        record.timestamp_ms = line.timestamp + i * line.step
      end
      records[#records + 1] = record
    end
  end
  return records
end

local words = { ["true"] = true, ["false"] = false }

local function settings_of(set)
  local settings = {}
  for name, text in pairs(set or {}) do
    local value = words[text]
    if value == nil then
      value = math.tointeger(tonumber(text)) or text
    end
    settings[name:gsub("%.", "_")] = value
  end
  return settings
end

local run = {}
run.__index = run

local operations = {}

function operations.config(self, line)
  if line.now then
    self.clock:set_ms(line.now)
  end
  local settings = settings_of(line.set)
  if self.log then
    self.log:configure(settings)
  else
    self.settings = settings
    self:open()
  end
end

function run:open()
  local options = { clock = self.clock }
  for name, value in pairs(self.settings) do
    options[name] = value
  end
  self.log = minikafka.open(self.dir, options)
end

function operations.append(self, line, out)
  local records = records_of(line.records)
  if out.ok == false then
    expect.error(codes[out.cause or out.error], self.log.append, self.log,
      records)
    return
  end
  local first, last = self.log:append(records)
  self.first_offset, self.last_offset = first, last
end

function operations.advance(self, line)
  self.clock:advance_ms(line.ms)
end

function operations.now(self, line)
  self.clock:set_ms(line.now)
end

function operations.roll(self)
  self.log:roll()
end

function operations.flush(self, _, out)
  self.log:flush()
  assert.equal(out.recovery_point, self.log.recovery_point)
end

local named_times = { max_timestamp = true, earliest = true, latest = true }

function operations.lookup(self, line, out)
  local offset, timestamp_ms
  if line.ts == "max_timestamp" then
    offset, timestamp_ms = self.log:offset_of_max_timestamp()
  elseif not named_times[line.ts] then
    offset, timestamp_ms = self.log:offset_for_timestamp(line.ts)
  else
    return
  end
  local found = out.found ~= json.null and out.found or {}
  assert.equal(found.offset, offset)
  assert.equal(found.timestamp, timestamp_ms)
end

function operations.close(self)
  self.log:close()
  self.closed = true
end

function operations.reopen(self)
  self:open()
  self.closed = false
end

function operations.list() end

-- Bases and sizes of the log's segments, and Kafka's as far as it told.
local function shapes(self, out)
  local ours = {}
  for i, segment in ipairs(self.log.segments) do
    ours[i] = ("%d:%d"):format(segment.base_offset, segment.log_bytes)
  end
  if out.segments then
    self.shape = out.segments
  elseif out.active then
    self.shape[#self.shape] = out.active
  end
  local kafkas = {}
  for i, segment in ipairs(self.shape) do
    kafkas[i] = ("%d:%d"):format(segment[1], segment[2])
  end
  return table.concat(kafkas, " "), table.concat(ours, " ")
end

function run:compare(out)
  if self.closed then
    return
  end
  assert.equal(out.log_end_offset or self.log_end_offset,
    self.log.log_end_offset)
  self.log_end_offset = out.log_end_offset or self.log_end_offset
  local kafkas, ours = shapes(self, out)
  assert.equal(kafkas, ours)
  if out.first_offset then
    assert.equal(out.first_offset, self.first_offset)
    assert.equal(out.last_offset, self.last_offset)
  end
  if out.log_start_offset then
    assert.equal(out.log_start_offset, self.log.log_start_offset)
  end
end

local function new_run()
  return setmetatable({ clock = minikafka.ManualClock(), dir = tmp.path(),
    shape = {} }, run)
end

-- Call `visit(line, out)` for each operation of a case and its answer.
local function each_line(case, visit)
  local outs = json.lines(folder .. case .. "/out.jsonl")
  for line in json.lines(folder .. case .. "/spec.jsonl") do
    visit(line, outs())
  end
end

local suffixes = { log = true, index = true, timeindex = true }

-- Names of the files of a directory that are compared.
local function files_in(dir)
  local names = {}
  for _, name in ipairs(tmp.list(dir)) do
    if suffixes[name:match("^%d+%.(%l+)$")] then
      names[#names + 1] = name
    end
  end
  return names
end

local function compare_files(case, dir)
  local golden = folder .. case
  assert.same(files_in(golden), files_in(dir))
  for _, name in ipairs(files_in(golden)) do
    local kafkas = tmp.read(golden .. "/" .. name)
    local ours = tmp.read(dir .. "/" .. name)
    assert(kafkas == ours, name .. " differs")
  end
end

-- What the replay needs and this step has not: it has to have been refused.
local function is_beyond(line, out)
  if line.codec and line.codec ~= "none" or line.producerId then
    assert.is_false(out.ok)
    return true
  end
end

local function replay_whole(case)
  local self = new_run()
  each_line(case, function(line, out)
    if not is_beyond(line, out) then
      operations[line.op](self, line, out)
      self:compare(out)
    end
  end)
  compare_files(case, self.dir)
end

-- All batches of a directory's .log files, in order.
local function batches_in(dir)
  local list = {}
  for _, name in ipairs(files_in(dir)) do
    if name:find("%.log$") then
      local split = batches.split(tmp.read(dir .. "/" .. name))
      table.move(split, 1, #split, #list + 1, list)
    end
  end
  return list
end

local function plain_batches(case)
  local by_offset = {}
  for _, batch in ipairs(batches_in(folder .. case)) do
    if batch.codec == 0 then
      by_offset[batch.base_offset] = batch.bytes
    end
  end
  return by_offset
end

-- Replay the plain appends alone. Apart from their offsets, the batches have
-- the bytes that Kafka's have.
local function replay_partial(case)
  local self, golden, expected = new_run(), plain_batches(case), {}
  each_line(case, function(line, out)
    local kafkas = golden[out.first_offset]
    if line.op == "append" and (line.codec or "none") == "none" then
      if kafkas then
        operations.append(self, line, out)
        expected[#expected + 1] = kafkas
      end
    elseif line.op == "advance" then
      operations.advance(self, line)
    elseif line.op == "config" and (line.set or {})["compression.type"] then
      return -- What it compresses is left out here.
    elseif line.op == "config" then
      operations.config(self, line)
    end
  end)
  self.log:close()
  local ours = batches_in(self.dir)
  assert.equal(#expected, #ours)
  for i, bytes in ipairs(expected) do
    assert(bytes:sub(9) == ours[i].bytes:sub(9), "batch " .. i .. " differs")
  end
  return #ours
end

describe("Kafka's own files, replayed", function()
  setup(collector.relax)
  teardown(collector.restore)
  after_each(tmp.clean)

  for _, case in ipairs(whole_cases) do
    it("are ours byte for byte: " .. case, function()
      replay_whole(case)
    end)
  end

  for case, count in pairs(partial_cases) do
    it("have our batches where nothing is compressed: " .. case, function()
      assert.equal(count, replay_partial(case))
    end)
  end
end)
