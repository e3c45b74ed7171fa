-- The recorded runs in spec/data/oracle, line by line: every result, every
-- error and every state has to be the recorded one.
--
-- Runs in which the process dies inside a swap are replayed on simulated disks:
-- on one that needs two renames, where it dies just where the line says, and on
-- one that exchanges names, which has nothing between two renames: there it
-- dies before the exchange, and in a third replay after it. The other runs are
-- on real files. How many lines were replayed is checked at the end, so
-- that none goes missing in silence.

local minikafka = require "minikafka"
local tmp = require "spec.support.tmp"
local collector = require "spec.support.collector"
local json = require "spec.support.json"
local state = require "spec.support.state"
local expect = require "spec.support.expect"

local folder = "spec/data/oracle/"
local files = 60
local ways = { "renames", "before the exchange", "after the exchange" }
local counts = { replayed = 0 }
local deaths = { before_swap = 0, after_swap = 0, between_renames = 0 }

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
  self.log = minikafka.open(self.dir, { clock = self.clock, io = self.disk })
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

-- ---- Deaths inside a swap ----

local siblings = { temporary = "minikafka.new.", backup = "minikafka.old." }

-- The directories that stand on the disk have to be those that the recorded
-- program left there.
local function check_left(self, disk, left)
  local paths = table.concat(disk:list(), "\n")
  local parent, name = self.dir:match("^(.*/)([^/]+)$")
  for word, prefix in pairs(siblings) do
    local there = paths:find(parent .. prefix .. name .. "/", 1, true) ~= nil
    assert.equal(left[word], there)
  end
  assert.equal(left.live, paths:find(self.dir .. "/", 1, true) ~= nil)
end

-- What the disk has when `is_now` first says yes to an operation.
local function compact_and_clone(self, line, is_now)
  local found
  self.disk:trace(function(event)
    if not found and is_now(event) then
      found = self.disk:clone()
    end
  end)
  compact(self, line)
  self.disk:trace(nil)
  return assert(found, "the swap never came to where it should die")
end

local function is_old_tree(self, path)
  local other = self.way == "renames" and siblings.backup or siblings.temporary
  return path:find(other, 1, true) ~= nil
end

local die_at = {}

function die_at.before_swap(self, line)
  expect.error("CRASHED", compact, self, line, function()
    self.disk:crash { keep = "kill9" }
  end)
  return self.disk
end

-- Before the first name goes from the old tree.
function die_at.after_swap(self, line)
  local swapped = false
  return compact_and_clone(self, line, function(event)
    swapped = swapped or event.op == "exchange"
      or event.op == "rename" and event.to == self.dir
    return swapped and event.op == "unlink" and is_old_tree(self, event.path)
  end)
end

-- Before the second rename, before the exchange, or after it.
function die_at.between_renames(self, line)
  local exchanged = false
  return compact_and_clone(self, line, function(event)
    if self.way == "renames" then
      return event.op == "rename" and event.to == self.dir
    elseif self.way == "before the exchange" then
      return event.op == "exchange"
    end
    local is_now = exchanged
    exchanged = exchanged or event.op == "exchange"
    return is_now
  end)
end

local function die_in_swap(self, line)
  local disk = die_at[line.crash](self, line)
  if self.way == "renames" then
    check_left(self, disk, line.reference_leaves)
  end
  deaths[line.crash] = deaths[line.crash] + 1
  self.disk, self.log = disk, nil
  self:open()
end

function operations.compact(self, line)
  if line.before_swap == "error" then
    compact_with_raising_hook(self, line)
  elseif line.crash then
    die_in_swap(self, line)
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
  local text = state.text(state.of(self.log))
  for _, one in ipairs(line.either or { line.state }) do
    self.state = one
    self.state.records = records_of(one.records)
    self.text = state.text(self.state)
    if self.text == text then
      break
    end
  end
  assert.equal(self.text, text)
end

local function lines_of(path)
  local lines, dies = {}, false
  for line in json.lines(path) do
    lines[#lines + 1] = line
    dies = dies or line.crash ~= nil
  end
  return lines, dies
end

-- Replay a run, on real files or, with a way of swapping, on a simulated disk.
-- Returns how many lines it had.
local function replay(path, lines, way)
  local disk = way and minikafka.SimDisk { exchange = way ~= "renames" }
  local first = lines[1]
  local self = setmetatable({ clock = minikafka.ManualClock(first.now_ms),
    dir = disk and "/logs/run-0" or tmp.path(), disk = disk,
    way = way, state = first.state }, run)
  self.text = state.text(first.state)
  self:open()
  for number = 2, #lines do
    local line = lines[number]
    local done, raised = pcall(self.step, self, line)
    if not done then
      error(("%s:%d: %s: %s"):format(path, number, line.op,
        type(raised) == "table" and (raised.message or raised.code)
          or tostring(raised)), 0)
    end
  end
  self.log:close()
  return #lines - 1
end

describe("the recorded run", function()
  setup(collector.relax)
  teardown(collector.restore)
  after_each(tmp.clean)

  for i = 1, files do
    it(("%03d comes out the same"):format(i), function()
      local path = ("%s%03d.jsonl"):format(folder, i)
      local lines, dies = lines_of(path)
      if not dies then
        counts.replayed = counts.replayed + replay(path, lines)
        return
      end
      for _, way in ipairs(ways) do
        counts[way] = (counts[way] or 0) + replay(path, (lines_of(path)), way)
      end
    end)
  end

  it("lines were all replayed, three times where the process dies", function()
    assert.equal(3190, counts.replayed + counts["renames"])
    assert.equal(counts["renames"], counts["before the exchange"])
    assert.equal(counts["renames"], counts["after the exchange"])
    assert.same({ before_swap = 3 * 15, after_swap = 3 * 10,
      between_renames = 3 * 3 }, deaths)
  end)
end)
