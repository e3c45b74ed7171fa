-- The recorded runs in spec/data/oracle, line by line: every result, every
-- error and every state has to be the recorded one.
--
-- The deaths inside a swap are not died here. In their place comes what the
-- recording has as their outcome: before the swap a plain death (the old log),
-- after it a compaction and a plain death (the new one). The state is checked
-- like any other. A death between the two renames, always a file's last line,
-- is left out. How many lines were replayed, stood in for and left out is
-- checked at the end, so that none goes missing in silence.

local minikafka = require "minikafka"
local tmp = require "spec.support.tmp"
local collector = require "spec.support.collector"
local json = require "spec.support.json"
local state = require "spec.support.state"
local expect = require "spec.support.expect"

local folder = "spec/data/oracle/"
local files = 60
local counts = { replayed = 0, stood_in = 0, left_out = 0 }

local function from_line(record)
  local headers
  for i, header in ipairs(record.h or {}) do
    headers = headers or {}
    headers[i] = { header.n, header.v }
  end
  return { offset = record.o, timestamp_ms = record.t, key = record.k,
    value = record.v, headers = headers }
end

local function records_of(lines)
  local records = {}
  for i, line in ipairs(lines) do
    records[i] = from_line(line)
  end
  return records
end

-- A run: its clock, its directory, its log, and the state last recorded.
local run = {}
run.__index = run

function run:open()
  self.log = minikafka.open(self.dir, { clock = self.clock })
end

-- Die without closing, and come back in a copy of the directory. The old log
-- is dropped as it stands; nothing may reach the copy through it.
function run:die(damage)
  local dir = tmp.copy(self.dir)
  self.dir, self.log = dir, nil
  if damage then
    damage(dir)
  end
  self:open()
end

local function segment_path(dir, base_offset, suffix)
  return ("%s/%020d%s"):format(dir, base_offset, suffix)
end

-- The bytes with the lowest bit of the last one flipped.
local function flip(bytes)
  return bytes:sub(1, -2) .. string.char(bytes:byte(-1) ~ 1)
end

local keeps = {
  none = function() return 0 end,
  one_byte = function() return 1 end,
  half = function(size) return size // 2 end,
  all_but_one_byte = function(size) return size - 1 end,
}

-- The active segment's file without its unused end, and its last batch.
local function active_file(self)
  local last
  for batch in self.log:batches() do
    last = batch
  end
  local segment = self.log.active_segment
  return segment.base_offset, segment.log_bytes, last
end

local damages = {}

function damages.nothing(self)
  self:die()
end

function damages.garbage_tail(self, line)
  local base, size = active_file(self)
  local junk = line.bytes_hex:gsub("%x%x", function(pair)
    return string.char(tonumber(pair, 16))
  end)
  self:die(function(dir)
    local path = segment_path(dir, base, ".log")
    tmp.write(path, tmp.read(path):sub(1, size) .. junk)
  end)
end

function damages.cut_last_batch(self, line)
  local base, size, batch = active_file(self)
  local keep = keeps[line.keep](batch.size_bytes)
  self:die(function(dir)
    local path = segment_path(dir, base, ".log")
    tmp.write(path, tmp.read(path):sub(1, size - batch.size_bytes + keep))
  end)
end

function damages.flip_last_batch(self)
  local base, size = active_file(self)
  self:die(function(dir)
    local path = segment_path(dir, base, ".log")
    tmp.write(path, flip(tmp.read(path):sub(1, size)))
  end)
end

function damages.delete_indexes(self)
  self:die(function(dir)
    for _, name in ipairs(tmp.list(dir)) do
      if name:find("index$") then
        assert(os.remove(dir .. "/" .. name))
      end
    end
  end)
end

-- A damaged closed segment: the opening fails and leaves the file alone.
function damages.flip_closed_batch(self, line)
  local whole
  local function damage(dir)
    local path = segment_path(dir, line.segment, ".log")
    whole = tmp.read(path)
    tmp.write(path, flip(whole))
  end
  expect.error(line.error.code, self.die, self, damage)
  local path = segment_path(self.dir, line.segment, ".log")
  assert.equal(flip(whole), tmp.read(path))
  tmp.write(path, whole)
  self:open()
end

-- How each operation is done. What it returns has the shape of `result`.
local operations = {}

function operations.append(self, line)
  local first, last = self.log:append(records_of(line.records))
  return { first = first, last = last }
end

function operations.roll(self)
  self.log:roll()
end

function operations.clock(self, line)
  self.clock:set_ms(line.now_ms)
end

function operations.advance_ms(self, line)
  self.clock:advance_ms(line.ms)
end

function operations.retain(self, line)
  local budget = line.retention_bytes
  if line.keep_last then
    local segments = self.log.segments
    budget = line.delta_bytes
    for i = #segments - line.keep_last + 1, #segments do
      budget = budget + segments[i].size_bytes
    end
  end
  local deleted, result = minikafka.RetentionManager(self.clock):apply(
    self.log, { retention_ms = line.retention_ms, retention_bytes = budget })
  assert.same(deleted, result.deleted)
  return { deleted = deleted }
end

function operations.delete_closed_segments(self, line)
  return { deleted = self.log:delete_closed_segments(line.bases) }
end

local function compact(self, line, before_swap)
  local result = minikafka.LogCompactor(self.clock, {
    delete_retention_ms = line.delete_retention_ms,
    before_swap = before_swap,
  }):compact(self.log)
  return { source_segments = result.source_segments,
    records_before = result.records_before,
    records_after = result.records_after }
end

-- The hook sees the old log, raises, and its caller gets just what it raised.
local function compact_with_raising_hook(self, line)
  local before = state.text(state.of(self.log))
  local cause, called = { "any value" }, false
  local done, raised = pcall(compact, self, line, function()
    called = true
    assert.equal(before, state.text(state.of(self.log)))
    error(cause)
  end)
  assert.is_false(done)
  assert.equal(line.hook_called, called)
  assert.equal(cause, raised)
end

function operations.compact(self, line)
  if line.before_swap == "error" then
    compact_with_raising_hook(self, line)
  elseif line.crash then
    if line.crash == "after_swap" then
      compact(self, line)
    end
    self:die()
  else
    return compact(self, line)
  end
end

function operations.fetch(self, line)
  local records = self.log:fetch(line.offset, line.max_records,
    { end_offset = line.end_offset })
  local by_offset = {}
  for _, record in ipairs(self.state.records) do
    by_offset[record.offset] = record
  end
  local offsets = {}
  for i, record in ipairs(records) do
    offsets[i] = record.offset
    assert.equal(state.record(by_offset[record.offset]), state.record(record))
  end
  return { offsets = offsets }
end

function operations.reopen(self)
  self.log:close()
  self:open()
end

function operations.damage(self, line)
  damages[line.kind](self, line)
end

-- Errors that the operation's own code above does not expect by itself.
local function is_plain_error(line)
  return line.error and line.error.code ~= "CALLBACK" and line.op ~= "damage"
end

function run:step(line)
  local operation = operations[line.op]
  if is_plain_error(line) then
    local raised = expect.error(line.error.code, operation, self, line)
    for name, value in pairs(line.error) do
      assert.equal(value, raised[name])
    end
  else
    local result = operation(self, line)
    assert.same(line.result, result)
  end
  if line.state then
    self.state = line.state
    self.state.records = records_of(line.state.records)
    self.text = state.text(self.state)
  end
  assert.equal(self.text, state.text(state.of(self.log)))
end

local function replay(path)
  local self
  local number = 0
  for line in json.lines(path) do
    number = number + 1
    if number == 1 then
      self = setmetatable({ clock = minikafka.ManualClock(line.now_ms),
        dir = tmp.path(), state = line.state }, run)
      self.text = state.text(line.state)
      self:open()
    elseif line.crash == "between_renames" then
      counts.left_out = counts.left_out + 1
    else
      local done, raised = pcall(self.step, self, line)
      if not done then
        error(("%s:%d: %s: %s"):format(path, number, line.op,
          type(raised) == "table" and (raised.message or raised.code)
            or tostring(raised)), 0)
      end
      local kind = line.crash and "stood_in" or "replayed"
      counts[kind] = counts[kind] + 1
    end
  end
  self.log:close()
end

describe("the recorded run", function()
  setup(collector.relax)
  teardown(collector.restore)
  after_each(tmp.clean)

  for i = 1, files do
    it(("%03d comes out the same"):format(i), function()
      replay(("%s%03d.jsonl"):format(folder, i))
    end)
  end

  it("lines were all replayed but three", function()
    assert.same({ replayed = 3162, stood_in = 25, left_out = 3 }, counts)
  end)
end)
