-- What a log shows, as one table and as text that two states can be compared
-- by: {log_start_offset, log_end_offset, segments = {bases},
-- max_timestamps_ms = {one a segment}, records = {as from fetch}}.

local state = {}

local function show(bytes)
  return bytes and ("%q"):format(bytes):gsub("\\\n", "\\n") or "nil"
end

-- One record as a line. Everything that a reader gets is in it.
function state.record(record)
  local headers = {}
  for i, header in ipairs(record.headers or {}) do
    headers[i] = show(header[1]) .. "=" .. show(header[2])
  end
  return ("%d t=%d %s=%s {%s}"):format(record.offset, record.timestamp_ms,
    show(record.key), show(record.value), table.concat(headers, ","))
end

function state.records(records)
  local lines = {}
  for i, record in ipairs(records) do
    lines[i] = state.record(record)
  end
  return table.concat(lines, "\n")
end

function state.text(of)
  return ("start %d end %d\nsegments %s\nmax %s\n%s\n"):format(
    of.log_start_offset, of.log_end_offset, table.concat(of.segments, " "),
    table.concat(of.max_timestamps_ms, " "), state.records(of.records))
end

-- All records by `fetch`, a few at a time.
function state.fetch_all(log, from, step)
  local all, offset = {}, from or log.log_start_offset
  while offset < log.log_end_offset do
    local records, next_offset = log:fetch(offset, step or 7)
    assert(next_offset > offset, "fetch stands still at " .. offset)
    table.move(records, 1, #records, #all + 1, all)
    offset = next_offset
  end
  return all
end

-- All records that an iterator of `records` or a cursor gives.
function state.collect(...)
  local all = {}
  for offset, key, value, timestamp_ms, headers in ... do
    all[#all + 1] = { offset = offset, key = key, value = value,
      timestamp_ms = timestamp_ms, headers = headers }
  end
  return all
end

-- The segments' bases and greatest times, and that their sizes add up.
local function add_segments(log, of)
  local total = 0
  for i, segment in ipairs(log.segments) do
    of.segments[i] = segment.base_offset
    of.max_timestamps_ms[i] = segment.max_timestamp_ms
    assert(segment.size_bytes == segment.log_bytes + segment.index_bytes,
      "a segment's size is not that of its files")
    total = total + segment.size_bytes
  end
  assert(total == log.size_bytes, "log.size_bytes is not the segments' sum")
end

-- Describe a log without its records.
function state.outline(log)
  local of = { log_start_offset = log.log_start_offset,
    log_end_offset = log.log_end_offset, segments = {},
    max_timestamps_ms = {}, records = {} }
  add_segments(log, of)
  return of
end

-- Describe a log. Its records are read in the three ways there are, which
-- have to agree.
function state.of(log)
  local of = state.outline(log)
  of.records = state.fetch_all(log)
  local fetched = state.records(of.records)
  local cursor <close> = log:cursor()
  assert(fetched == state.records(state.collect(log:records())),
    "fetch and records differ")
  assert(fetched == state.records(state.collect(cursor)),
    "fetch and a cursor differ")
  assert(cursor.next_offset == log.log_end_offset,
    "a cursor read to the end is not there")
  return of
end

return state
