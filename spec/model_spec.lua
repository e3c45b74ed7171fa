-- Random operations, on a log and on the model in spec/support/model.lua.
--
-- After each operation the two have to look the same. A failure tells its seed
-- and the operations that led there. MINIKAFKA_SEED runs one seed alone and
-- writes each operation to stderr before it is done; MINIKAFKA_STEPS sets how
-- many operations a seed has.

local minikafka = require "minikafka"
local tmp = require "spec.support.tmp"
local collector = require "spec.support.collector"
local random = require "spec.support.random"
local model = require "spec.support.model"
local state = require "spec.support.state"
local expect = require "spec.support.expect"

local steps = math.tointeger(tonumber(os.getenv("MINIKAFKA_STEPS"))) or 2000
local seeds = { math.tointeger(tonumber(os.getenv("MINIKAFKA_SEED"))) }
local alone = #seeds == 1
if not alone then
  seeds = { 1, 2, 3, 4, 5 }
end

-- ---- What goes in ----

local keys = { "", "a", "b", "c", "d", "e", "\0", "\0a", "long key " }

local function random_headers(rng)
  local headers = {}
  for i = 1, rng:int(1, 3) do
    headers[i] = { rng:pick { "", "h", "name" } }
    if not rng:one_in(4) then
      headers[i][2] = rng:pick { "", "value", "\0" }
    end
  end
  return headers
end

local function random_record(rng, now_ms)
  local record = { key = rng:pick(keys) }
  if rng:one_in(6) then
    record.key = nil
  end
  if not rng:one_in(5) then
    record.value = rng:bytes(rng:pick { 0, 1, 3, 10, 40, 62, 63, 64, 130 })
  end
  if not rng:one_in(3) then
    record.timestamp_ms = rng:one_in(12) and -1
      or math.max(0, now_ms + rng:int(-300, 100))
  end
  if rng:one_in(6) then
    record.headers = random_headers(rng)
  end
  return record
end

local function random_records(rng, now_ms, most)
  local records = {}
  for i = 1, rng:int(1, most) do
    records[i] = random_record(rng, now_ms)
  end
  return records
end

-- An offset in the log, at its ends, or a little outside.
local function random_offset(self)
  return self.rng:int(self.model.log_start_offset - 1,
    self.model.log_end_offset + 1)
end

-- ---- The two and what they stand on ----

local twins = {}
twins.__index = twins

local function new_twins(seed)
  local rng = random.new(seed)
  local self = setmetatable({ rng = rng, dir = tmp.path(), taken = {},
    past = {}, clock = minikafka.ManualClock(rng:int(0, 5000)),
    segment_bytes = rng:int(200, 3000),
    index_interval_bytes = rng:pick { 0, 1, 100, 300, 4096 } }, twins)
  self.model = model.new(self.segment_bytes)
  self:open()
  return self
end

function twins:open()
  self.model:drop_below()
  self.log = minikafka.open(self.dir, { clock = self.clock,
    segment_bytes = self.segment_bytes,
    index_interval_bytes = self.index_interval_bytes,
    mapped = self.mapped })
  self:new_cursor()
end

-- Sizes of the log's segments, which the model does not know all of.
function twins:sizes()
  local sizes = {}
  for i, segment in ipairs(self.log.segments) do
    sizes[i] = segment.size_bytes
  end
  return sizes
end

-- `expected` and `code` are what the model answered: call the log's method,
-- which has to answer the same, or to raise that code.
local function both(expected, code, call, ...)
  if expected == nil and code then
    expect.error(code, call, ...)
    return
  end
  return call(...)
end

-- Does the log look like the model? Its records are looked at if `all`.
function twins:compare(all)
  local expected = self.model:state()
  local log_bytes = {}
  for i, segment in ipairs(self.log.segments) do
    log_bytes[i] = segment.log_bytes
  end
  local shown = all and state.of(self.log) or state.outline(self.log)
  if not all then
    expected.records = {}
  end
  assert.equal(state.text(expected), state.text(shown))
  assert.equal(table.concat(expected.log_bytes, " "),
    table.concat(log_bytes, " "))
end

-- ---- A cursor that is kept while the log changes ----

function twins:new_cursor()
  self.cursor = self.log:cursor { from = self.model.log_start_offset }
  self.taken = {}
end

-- Records that retention takes now: the cursor may not jump over them in
-- silence. What it gives has to be, or to have been, in the log.
function twins:note_taken(change)
  local before = self.model:state().records
  change()
  for _, record in ipairs(before) do
    self.past[record.offset] = state.record(record)
    if record.offset < self.model.log_start_offset then
      self.taken[record.offset] = true
    end
  end
end

-- Everything still there at or after `position` has to come, in order.
function twins:check_run(position, records)
  local given = {}
  for _, record in ipairs(records) do
    assert(record.offset >= position, "a cursor went back")
    position = record.offset + 1
    given[record.offset] = state.record(record)
    assert.equal(self.past[record.offset], given[record.offset])
  end
  return given
end

function twins:read_cursor()
  local live = self.model:state().records
  for _, record in ipairs(live) do
    self.past[record.offset] = state.record(record)
  end
  local position = self.cursor.next_offset
  local records = {}
  local done, raised = pcall(function()
    for offset, key, value, timestamp_ms, headers in self.cursor do
      records[#records + 1] = { offset = offset, key = key, value = value,
        timestamp_ms = timestamp_ms, headers = headers }
    end
  end)
  local given = self:check_run(position, records)
  if not done then
    assert(minikafka.is_error(raised, "OFFSET_OUT_OF_RANGE"), raised)
    assert(raised.requested < self.model.log_start_offset)
    self:new_cursor()
    return
  end
  assert.equal(self.model.log_end_offset, self.cursor.next_offset)
  for _, record in ipairs(live) do
    assert(record.offset < position or given[record.offset],
      "a cursor left out a record")
  end
  for offset in pairs(self.taken) do
    assert(offset < position or given[offset],
      "a cursor jumped over what retention took")
  end
end

-- ---- Operations ----

local operations = {}

function operations.append(self)
  local now_ms = self.clock:now_ms()
  local records = random_records(self.rng, now_ms, 8)
  local first, last = self.model:append(records, now_ms)
  local got_first, got_last = both(first, last, self.log.append, self.log,
    records)
  if first then
    assert.equal(first, got_first)
    assert.equal(last, got_last)
  end
end

function operations.append_one(self)
  local now_ms = self.clock:now_ms()
  local record = random_record(self.rng, now_ms)
  record.timestamp_ms = record.timestamp_ms or now_ms -- {} is no record.
  local first, last = self.model:append({ record }, now_ms)
  local got_first, got_last = both(first, last, self.log.append, self.log,
    record)
  if first then
    assert.equal(first, got_first)
    assert.equal(last, got_last)
  end
end

function operations.append_kv(self)
  local now_ms = self.clock:now_ms()
  local record = random_record(self.rng, now_ms)
  local first, code = self.model:append({ record }, now_ms)
  local got = both(first, code, self.log.append_kv, self.log, record.key,
    record.value, record.timestamp_ms, record.headers)
  if first then
    assert.equal(first, got)
  end
end

-- One batch, gathered by an appender. It stays well below segment_bytes: near
-- it an appender, which reckons with the largest encoding, sends earlier.
function operations.appender(self)
  local now_ms = self.clock:now_ms()
  local records = random_records(self.rng, now_ms, 4)
  local _, size = self.model:batch(records, now_ms)
  if size + 100 > self.segment_bytes then
    return
  end
  local out <close> = self.log:appender { batch_bytes = 1 << 20 }
  for _, record in ipairs(records) do
    out:append_kv(record.key, record.value, record.timestamp_ms,
      record.headers)
  end
  self:compare(false)
  local first, last = self.model:append(records, now_ms)
  local got_first, got_last = out:flush()
  assert.equal(first, got_first)
  assert.equal(last, got_last)
end

function operations.append_refused(self)
  local now_ms = self.clock:now_ms()
  local records = { { value = "good" }, { value = "bad", timestamp_ms = -2 } }
  local expected, code = self.model:append(records, now_ms)
  both(expected, code, self.log.append, self.log, records)
end

function operations.append_too_large(self)
  local record = { value = self.rng:bytes(self.segment_bytes - 60) }
  local expected, code = self.model:append({ record }, self.clock:now_ms())
  both(expected, code, self.log.append, self.log, record)
end

function operations.roll(self)
  self.model:roll()
  self.log:roll()
end

function operations.clock(self)
  if self.rng:one_in(10) then
    self.clock:set_ms(math.max(0, self.clock:now_ms()
      - self.rng:int(0, 200)))
  else
    self.clock:advance_ms(self.rng:int(0, 200))
  end
end

-- Settings may differ at each opening; what is there stays as it is.
local function new_settings(self)
  self.segment_bytes = self.rng:int(200, 3000)
  self.model.segment_bytes = self.segment_bytes
  self.index_interval_bytes = self.rng:pick { 0, 1, 100, 300, 4096 }
  self.mapped = ({ true, false, nil })[self.rng:int(1, 3)]
end

-- What a reader sees beside the writer.
function operations.read_only(self)
  local reader <close> = minikafka.open(self.dir, { read_only = true })
  local expected = self.model:state()
  assert.equal(expected.log_start_offset, reader.log_start_offset)
  assert.equal(expected.log_end_offset, reader.log_end_offset)
  assert.equal(state.records(expected.records),
    state.records(state.of(reader).records))
end

function operations.reopen(self)
  self.log:close()
  new_settings(self)
  self:open()
  self:compare(true)
end

function operations.die(self)
  self.dir, self.log, self.cursor = tmp.copy(self.dir), nil, nil
  new_settings(self)
  self:open()
  self:compare(true)
end

function operations.retain(self)
  local now_ms = self.clock:now_ms()
  local sizes = self:sizes()
  local retention_ms, retention_bytes
  if not self.rng:one_in(3) then
    retention_ms = self.rng:pick { 0, 100, 500, 1000, 3000, -1 }
  end
  if self.rng:one_in(2) then
    retention_bytes = self.rng:int(-1, 1)
    for i = self.rng:int(1, #sizes), #sizes do
      retention_bytes = retention_bytes + sizes[i]
    end
  end
  self:note_taken(function()
    local expected, code = self.model:retain(now_ms, retention_ms,
      retention_bytes, sizes)
    local manager = minikafka.RetentionManager(self.clock)
    local deleted = both(expected, code, manager.apply, manager, self.log,
      { retention_ms = retention_ms, retention_bytes = retention_bytes })
    assert.same(expected, deleted)
  end)
end

function operations.compact(self)
  local grace = self.rng:pick { 0, 100, 1000, 1 << 40 }
  local expected
  self:note_taken(function()
    expected = self.model:compact(self.clock:now_ms(), grace)
  end)
  local compactor = minikafka.LogCompactor(self.clock,
    { delete_retention_ms = grace })
  local result = compactor:compact(self.log)
  assert.same(expected.source_segments, result.source_segments)
  assert.equal(expected.records_before, result.records_before)
  assert.equal(expected.records_after, result.records_after)
  self:compare(true)
end

-- The hook reads the old log, and may raise: then nothing has happened.
function operations.compact_hook(self)
  local called = false
  local raise = self.rng:one_in(2)
  local grace = self.rng:pick { 0, 1 << 40 }
  local closed = #self.log.closed_segments > 0
  local compactor = minikafka.LogCompactor { clock = self.clock,
    delete_retention_ms = grace, before_swap = function()
      called = true
      self:compare(true)
      if raise then
        error(self)
      end
    end }
  local done, raised = pcall(compactor.compact, compactor, self.log)
  if done then
    self:note_taken(function()
      self.model:compact(self.clock:now_ms(), grace)
    end)
  else
    assert(raised == self, raised)
  end
  assert.equal(closed, called)
  assert.equal(not (closed and raise), done)
  self:compare(true)
end

function operations.delete_records(self)
  local offset = self.model.log_start_offset + self.rng:int(0, 12)
  if self.rng:one_in(4) then
    offset = random_offset(self)
  end
  self:note_taken(function()
    local expected, code = self.model:delete_records(offset)
    both(expected, code, self.log.delete_records, self.log, offset)
  end)
end

function operations.truncate_to(self)
  local offset = self.model.log_end_offset - self.rng:int(-1, 9)
  if self.rng:one_in(20) then
    offset = random_offset(self)
  end
  offset = math.max(0, offset)
  self.model:truncate_to(offset)
  self.log:truncate_to(offset)
  self.past = {}
  self:new_cursor()
  self:compare(true)
end

function operations.delete_closed_segments(self)
  local bases = {}
  local closed = self.log.closed_segments
  for i = 1, self.rng:int(0, math.min(#closed, 3)) do
    table.insert(bases, self.rng:int(1, i), closed[i].base_offset)
  end
  if self.rng:one_in(3) then
    table.insert(bases, 1, self.rng:pick(self.log.segments).base_offset)
  end
  self:note_taken(function()
    local expected, code = self.model:delete_closed_segments(bases)
    local deleted = both(expected, code, self.log.delete_closed_segments,
      self.log, bases)
    assert.same(expected, deleted)
  end)
end

function operations.fetch(self)
  local offset = random_offset(self)
  local max_records = self.rng:pick { -1, 0, 1, 2, 10, 500 }
  local max_bytes, end_offset
  if self.rng:one_in(2) then
    max_bytes = self.rng:pick { -1, 0, 1, 20, 100, 1000 }
  end
  if self.rng:one_in(3) then
    end_offset = random_offset(self)
  end
  local expected, rest = self.model:fetch(offset, max_records, max_bytes,
    end_offset)
  local records, next_offset = both(expected, rest, self.log.fetch, self.log,
    offset, max_records, { max_bytes = max_bytes, end_offset = end_offset })
  if expected then
    assert.equal(state.records(expected), state.records(records))
    local last = expected[#expected]
    assert(next_offset >= (last and last.offset + 1 or offset))
    assert(next_offset <= (rest or self.model.log_end_offset))
    if not rest and not end_offset and #expected < max_records then
      assert.equal(self.model.log_end_offset, next_offset)
    end
  end
end

function operations.records(self)
  local from = math.max(random_offset(self), self.model.log_start_offset)
  from = math.min(from, self.model.log_end_offset)
  local end_offset = self.rng:one_in(2) and random_offset(self) or nil
  local expected = self.model:fetch(from, math.maxinteger, nil, end_offset)
  assert.equal(state.records(expected), state.records(state.collect(
    self.log:records(from, { end_offset = end_offset }))))
end

function operations.batches(self)
  local expected = self.model:batches()
  for batch in self.log:batches() do
    local wanted = assert(table.remove(expected, 1), "a batch too many")
    for name, value in pairs(wanted) do
      assert.equal(value, batch[name])
    end
  end
  assert.equal(0, #expected)
end

operations.cursor = twins.read_cursor

function operations.cursor_some(self)
  local position = self.cursor.next_offset
  if position < self.model.log_start_offset then
    return self:read_cursor()
  end
  local want = self.rng:int(1, 5)
  local expected = self.model:fetch(position, 1)
  if #expected == 0 then
    return
  end
  for _ in self.cursor do
    want = want - 1
    if want == 0 then
      break
    end
  end
  assert(self.cursor.next_offset > position)
end

function operations.seek(self)
  local offset = random_offset(self)
  local expected, code = self.model:fetch(offset, 1)
  both(expected, code, self.cursor.seek, self.cursor, offset)
  if expected then
    assert.equal(offset, self.cursor.next_offset)
    self.taken = {}
  end
end

function operations.seek_time(self)
  local time = self.clock:now_ms() + self.rng:int(-1000, 300)
  local offset = self.model:offset_for_timestamp(time)
  self.cursor:seek_time(time)
  assert.equal(offset or self.model.log_end_offset, self.cursor.next_offset)
  self.taken = {}
end

function operations.offset_for_timestamp(self)
  for _ = 1, 5 do
    local time = self.clock:now_ms() + self.rng:int(-2000, 200)
    local offset, timestamp_ms = self.model:offset_for_timestamp(time)
    local got_offset, got_ms = self.log:offset_for_timestamp(time)
    assert.equal(offset, got_offset)
    assert.equal(timestamp_ms, got_ms)
  end
end

function operations.offset_of_max_timestamp(self)
  local offset, timestamp_ms = self.model:offset_of_max_timestamp()
  if timestamp_ms ~= -1 then
    local got_offset, got_ms = self.log:offset_of_max_timestamp()
    assert.equal(offset, got_offset)
    assert.equal(timestamp_ms, got_ms)
  end
end

-- ---- The run ----

-- How often each operation is drawn.
local weights = { append = 24, append_one = 12, append_kv = 24, appender = 6,
  append_refused = 2, append_too_large = 1, roll = 12, clock = 20,
  reopen = 3, die = 3, read_only = 3, retain = 4, compact = 4, compact_hook = 2,
  delete_records = 4, truncate_to = 5, delete_closed_segments = 3, fetch = 16,
  records = 8, batches = 4, cursor = 4, cursor_some = 10, seek = 3,
  seek_time = 2, offset_for_timestamp = 8, offset_of_max_timestamp = 4 }

local urn = {}
for name, weight in pairs(weights) do
  for _ = 1, weight do
    urn[#urn + 1] = name
  end
end
table.sort(urn)

local function run(seed)
  local self = new_twins(seed)
  local trail = {}
  for step = 1, steps do
    local name = self.rng:pick(urn)
    trail[#trail + 1] = name
    if alone then
      io.stderr:write(("%d %s\n"):format(step, name))
    end
    local done, raised = pcall(function()
      operations[name](self)
      self:compare(self.rng:one_in(8))
    end)
    if not done then
      error(("seed %d, step %d, after %s: %s"):format(seed, step,
        table.concat(trail, " ", math.max(1, step - 20)),
        type(raised) == "table" and tostring(raised.message) or raised), 0)
    end
  end
  self.log:close()
end

describe("a log and its model", function()
  setup(collector.relax)
  teardown(collector.restore)
  after_each(tmp.clean)

  for _, seed in ipairs(seeds) do
    it(("agree on %d operations of seed %d"):format(steps, seed), function()
      run(seed)
    end)
  end
end)
