-- The log as a plain table: what each operation has to come out as.
--
-- A model is segments from oldest to newest, the last one active; a segment is
-- {base, batches}, a batch {base, base_timestamp_ms, last, records}, a record
-- what `fetch` gives. Batches keep their range and their base timestamp when
-- records go, so gaps stay where they were and records keep their bytes.
-- Whatever may fail returns nil and the code. Nothing here is clever: every
-- answer is found by looking at everything.

local model = {}
model.__index = model

-- ---- Sizes, as the record format has them ----

local function varint_size(n)
  local zigzag = n >= 0 and n * 2 or -n * 2 - 1
  local size = 1
  while zigzag > 127 do
    zigzag, size = zigzag >> 7, size + 1
  end
  return size
end

local function bytes_size(bytes)
  return bytes and varint_size(#bytes) + #bytes or varint_size(-1)
end

local function record_size(record, batch)
  local headers = record.headers or {}
  local size = 1 + varint_size(record.timestamp_ms - batch.base_timestamp_ms)
    + varint_size(record.offset - batch.base) + bytes_size(record.key)
    + bytes_size(record.value) + varint_size(#headers)
  for _, header in ipairs(headers) do
    size = size + bytes_size(header[1]) + bytes_size(header[2])
  end
  return varint_size(size) + size
end

local function batch_size(batch)
  local size = 61
  for _, record in ipairs(batch.records) do
    size = size + record_size(record, batch)
  end
  return size
end

local function segment_size(segment)
  local size = 0
  for _, batch in ipairs(segment.batches) do
    size = size + batch_size(batch)
  end
  return size
end

-- ---- Looking ----

-- Call `visit(record, batch)` for all records from the log start on.
local function each(self, visit)
  for _, segment in ipairs(self.segments) do
    for _, batch in ipairs(segment.batches) do
      for _, record in ipairs(batch.records) do
        if record.offset >= self.log_start_offset then
          visit(record, batch)
        end
      end
    end
  end
end

local function max_timestamp_ms(segment)
  local max = -1
  for _, batch in ipairs(segment.batches) do
    for _, record in ipairs(batch.records) do
      max = math.max(max, record.timestamp_ms)
    end
  end
  return max
end

-- The state as spec.support.state has it, and the .log files' sizes.
function model:state()
  local of = { log_start_offset = self.log_start_offset,
    log_end_offset = self.log_end_offset, segments = {},
    max_timestamps_ms = {}, log_bytes = {}, records = {} }
  for i, segment in ipairs(self.segments) do
    of.segments[i] = segment.base
    of.max_timestamps_ms[i] = max_timestamp_ms(segment)
    of.log_bytes[i] = segment_size(segment)
  end
  each(self, function(record)
    of.records[#of.records + 1] = record
  end)
  return of
end

-- Batches from the one that holds the log start on, and where they are.
function model:batches()
  local list = {}
  for _, segment in ipairs(self.segments) do
    local position = 0
    for _, batch in ipairs(segment.batches) do
      local size = batch_size(batch)
      if batch.last >= self.log_start_offset then
        list[#list + 1] = { base_offset = batch.base,
          last_offset = batch.last, record_count = #batch.records,
          size_bytes = size, position = position, codec = "none" }
      end
      position = position + size
    end
  end
  return list
end

-- Records from `offset` on, within the limits, and the offset of the first
-- one that was not given, nil if all of them were.
function model:fetch(offset, max_records, max_bytes, end_offset)
  if max_records < 0 or max_bytes and max_bytes < 0 then
    return nil, "INVALID_ARGUMENT"
  end
  if offset < self.log_start_offset or offset > self.log_end_offset then
    return nil, "OFFSET_OUT_OF_RANGE"
  end
  local records, bytes, rest = {}, 0, nil
  each(self, function(record, batch)
    if record.offset < offset or rest then
      return
    end
    bytes = bytes + record_size(record, batch)
    if #records >= max_records or record.offset >= (end_offset or math.huge)
      or #records > 0 and bytes > (max_bytes or math.huge) then
      rest = record.offset
    else
      records[#records + 1] = record
    end
  end)
  return records, rest
end

function model:offset_for_timestamp(timestamp_ms)
  local found
  each(self, function(record)
    if record.timestamp_ms >= timestamp_ms then
      found = found or record
    end
  end)
  if found then
    return found.offset, found.timestamp_ms
  end
end

function model:offset_of_max_timestamp()
  local found
  each(self, function(record)
    if not found or record.timestamp_ms > found.timestamp_ms then
      found = record
    end
  end)
  if found then
    return found.offset, found.timestamp_ms
  end
end

-- ---- Changing ----

function model.new(segment_bytes)
  return setmetatable({ segment_bytes = segment_bytes, log_start_offset = 0,
    log_end_offset = 0, segments = { { base = 0, batches = {} } } }, model)
end

local function active(self)
  return self.segments[#self.segments]
end

-- An empty active segment stays, unless a gap stands before the log's end.
function model:roll()
  if #active(self).batches > 0 or active(self).base < self.log_end_offset then
    self.segments[#self.segments + 1] =
      { base = self.log_end_offset, batches = {} }
  end
end

-- Give the records offsets, and times where they have none, as one batch.
function model:batch(records, now_ms)
  local batch = { base = self.log_end_offset, records = {} }
  for i, record in ipairs(records) do
    batch.records[i] = { offset = batch.base + i - 1, key = record.key,
      value = record.value, timestamp_ms = record.timestamp_ms or now_ms,
      headers = record.headers }
  end
  batch.base_timestamp_ms = batch.records[1].timestamp_ms
  batch.last = batch.base + #records - 1
  return batch, batch_size(batch)
end

function model:append(records, now_ms)
  local batch, size = self:batch(records, now_ms)
  for _, record in ipairs(batch.records) do
    if record.timestamp_ms < -1 then
      return nil, "INVALID_TIMESTAMP"
    end
  end
  if size > self.segment_bytes then
    return nil, "RECORD_TOO_LARGE"
  elseif segment_size(active(self)) + size > self.segment_bytes then
    self:roll()
  end
  table.insert(active(self).batches, batch)
  self.log_end_offset = batch.last + 1
  return batch.base, batch.last
end

-- Remove the oldest `count` segments. The first one left is the new start.
local function drop(self, count)
  local deleted = {}
  for i = 1, count do
    deleted[i] = table.remove(self.segments, 1).base
    self.log_start_offset = self.segments[1].base
  end
  return deleted
end

function model:delete_closed_segments(bases)
  local wanted, count = {}, 0
  for _, base in ipairs(bases) do
    count = count + (wanted[base] and 0 or 1)
    wanted[base] = true
  end
  for i = 1, count do
    if i == #self.segments or not wanted[self.segments[i].base] then
      return nil, "INVALID_ARGUMENT"
    end
  end
  return drop(self, count)
end

-- Closed segments wholly below the start go, at a deletion or at an opening.
function model:drop_below()
  while self.segments[2] and self.segments[2].base <= self.log_start_offset do
    table.remove(self.segments, 1)
  end
end

function model:delete_records(before_offset)
  if before_offset > self.log_end_offset then
    return nil, "OFFSET_OUT_OF_RANGE"
  elseif before_offset > self.log_start_offset then
    self.log_start_offset = before_offset
    self:drop_below()
  end
  return true
end

function model:truncate_to(offset)
  if offset >= self.log_end_offset then
    return
  elseif offset < self.segments[1].base then
    self.segments = { { base = offset, batches = {} } }
  end
  self.log_start_offset = math.min(offset, self.log_start_offset)
  while active(self).base > offset do
    table.remove(self.segments)
  end
  local batches = active(self).batches
  while #batches > 0 and batches[#batches].last >= offset do
    table.remove(batches)
  end
  self.log_end_offset = offset
end

-- `sizes` are the segments' sizes with their indexes, which are not modelled.
function model:retain(now_ms, retention_ms, retention_bytes, sizes)
  if retention_ms and retention_ms < 0
    or retention_bytes and retention_bytes <= 0 then
    return nil, "INVALID_ARGUMENT"
  end
  local count, left = 0, 0
  for _, size in ipairs(sizes) do
    left = left + size
  end
  local function goes_if(condition)
    while count + 1 < #self.segments
      and condition(self.segments[count + 1]) do
      count = count + 1
      left = left - sizes[count]
    end
  end
  if retention_ms then
    goes_if(function(segment)
      return max_timestamp_ms(segment) < now_ms - retention_ms
    end)
  end
  if retention_bytes then
    goes_if(function()
      return left > retention_bytes
    end)
  end
  return drop(self, count)
end

-- Rewrite one batch: what stays of it, or nil. What is below the log start goes.
local function compact_batch(self, batch, stays, result)
  local records = {}
  for _, record in ipairs(batch.records) do
    if record.offset >= self.log_start_offset then
      result.records_before = result.records_before + 1
      if stays(record) then
        result.records_after = result.records_after + 1
        records[#records + 1] = record
      end
    end
  end
  if #records > 0 then
    return { base = batch.base, last = batch.last, records = records,
      base_timestamp_ms = batch.base_timestamp_ms }
  end
end

function model:compact(now_ms, delete_retention_ms)
  local result = { source_segments = {}, records_before = 0,
    records_after = 0 }
  if #self.segments == 1 then
    return result
  end
  local latest = {}
  each(self, function(record)
    if record.key then
      latest[record.key] = record.offset
    end
  end)
  local function stays(record)
    local tombstone = record.key and not record.value
    return not record.key or latest[record.key] == record.offset
      and not (tombstone
        and now_ms - record.timestamp_ms > delete_retention_ms)
  end
  local batches = {}
  for i = 1, #self.segments - 1 do
    result.source_segments[i] = self.segments[i].base
    for _, batch in ipairs(self.segments[i].batches) do
      batches[#batches + 1] = compact_batch(self, batch, stays, result)
    end
  end
  local base = self.log_start_offset
  if batches[1] and batches[1].base < base then
    base = batches[1].base -- It holds the log start.
  end
  if base == active(self).base then
    self.segments = { active(self) } -- All closed ones lay below the start.
  else
    self.segments = { { base = base, batches = batches }, active(self) }
  end
  return result
end

return model
