--- How what calls return looks when it is printed.
--
-- One thing is one line; a list or a set of facts is a small table. Nothing
-- here trusts what it shows: a caller may have changed the table.

local view = {}

local lines_max = 20 -- Of a list; the rest is counted.
local bytes_max = 48 -- Of a key or value.

local unprintable_byte = '[%c"\\\127-\255]'

-- Of a text in UTF-8. What else controls a terminal begins with the byte 0xc2.
local unprintable = '[%c"\\\127]'
local control = "\xc2[\x80-\x9f]"

local function escaped(byte)
  if byte == '"' or byte == "\\" then
    return "\\" .. byte
  end
  return ("\\x%02x"):format(byte:byte())
end

--- As much of a byte string as is shown, and whether that is text.
local function beginning(bytes)
  local head = bytes:sub(1, bytes_max)
  for cut = 0, #bytes > bytes_max and 3 or 0 do
    local text = head:sub(1, #head - cut)
    if utf8.len(text) then
      return text, not text:find(control)
    end
  end
  return head, false
end

--- A byte string as a person can read it, in quotes and cut if it is long.
local function quoted(bytes)
  if type(bytes) ~= "string" then
    return tostring(bytes)
  end
  local head, is_text = beginning(bytes)
  local shown = head:gsub(is_text and unprintable or unprintable_byte, escaped)
  if #bytes <= bytes_max then
    return '"' .. shown .. '"'
  end
  return ('"%s"... (%d bytes)'):format(shown, #bytes)
end

--- `count` and the word for so many of them.
local function counted(count, word)
  return ("%s %s%s"):format(count, word, count == 1 and "" or "s")
end

local function header_list(headers)
  local shown = {}
  for i, header in ipairs(headers) do
    shown[i] = ("%s: %s"):format(quoted(header[1]), quoted(header[2]))
  end
  return "{" .. table.concat(shown, ", ") .. "}"
end

local function record(r)
  local line = ("%s: %s = %s, %s ms"):format(r.offset,
    r.key == nil and "(no key)" or quoted(r.key), quoted(r.value),
    r.timestamp_ms)
  if type(r.headers) == "table" then
    line = line .. ", " .. header_list(r.headers)
  end
  return line
end

--- A heading, and a line for each of the first things of a list.
local function list(heading, things, line)
  local lines = { heading }
  for i = 1, math.min(#things, lines_max) do
    lines[#lines + 1] = "  " .. line(things[i])
  end
  if #things > lines_max then
    lines[#lines + 1] = ("  ... and %d more"):format(#things - lines_max)
  end
  return table.concat(lines, "\n")
end

local function records(rs)
  return list(counted(#rs, "record"), rs, record)
end

local function segment(s)
  return ("segment %s..%s: %s bytes (log %s, indexes %s), newest %s ms")
    :format(s.base_offset, s.next_offset, s.size_bytes, s.log_bytes,
      s.index_bytes, s.max_timestamp_ms)
end

local function segments(ss)
  return list(counted(#ss, "segment"), ss, segment)
end

local function batch(b)
  return ("batch %s..%s: %s, %s bytes at %s of segment %s, codec %s%s")
    :format(b.base_offset, b.last_offset, counted(b.record_count, "record"),
      b.size_bytes, b.position, b.segment_base_offset, b.codec,
      b.control and ", control" or "")
end

--- All facts of a table, a line each, sorted by name. No limit is the greatest
-- integer there is.
local function facts(t)
  local names, width = {}, 0
  for name in pairs(t) do
    names[#names + 1] = tostring(name)
    width = math.max(width, #tostring(name))
  end
  table.sort(names)
  for i, name in ipairs(names) do
    names[i] = name .. (" "):rep(width - #name) .. " = " .. tostring(t[name])
      .. (t[name] == math.maxinteger and " (no limit)" or "")
  end
  return table.concat(names, "\n")
end

local function offsets(list_of_offsets)
  local shown = {}
  for i = 1, math.min(#list_of_offsets, lines_max) do
    shown[i] = tostring(list_of_offsets[i])
  end
  if #list_of_offsets > lines_max then
    shown[#shown + 1] = "..."
  end
  return table.concat(shown, ", ")
end

local function result(r)
  local lines = {}
  if #r.deleted > 0 then
    lines[#lines + 1] = ("deleted %s: %s"):format(
      counted(#r.deleted, "segment"), offsets(r.deleted))
  end
  if #r.source_segments > 0 then
    lines[#lines + 1] = ("rewrote %s (%s) as %s (%s)"):format(
      counted(#r.source_segments, "segment"), offsets(r.source_segments),
      #r.new_segments, offsets(r.new_segments))
    lines[#lines + 1] = ("records %s -> %s, bytes %s -> %s"):format(
      r.records_before, r.records_after, r.bytes_before, r.bytes_after)
  end
  return #lines > 0 and table.concat(lines, "\n") or "nothing to clean up"
end

--- An operation of a simulated disk.
local function event(e)
  local line = ("%s %s %s"):format(e.step, e.op, e.path)
  if e.to then
    line = line .. " to " .. tostring(e.to)
  end
  if e.size then
    line = line .. ": " .. counted(e.size, "byte")
  end
  if e.position then
    line = line .. " at " .. tostring(e.position)
  end
  return e.errno and line .. ", " .. tostring(e.errno) or line
end

--- As facts, but the operations that there were in one line.
local function disk_stats(s)
  local shown, done = {}, {}
  for name, value in pairs(s) do
    shown[name] = value
  end
  for name, count in pairs(type(s.operations) == "table" and s.operations or {}) do
    if count ~= 0 then
      done[#done + 1] = ("%s %s"):format(name, count)
    end
  end
  table.sort(done)
  shown.operations = #done > 0 and table.concat(done, ", ") or "none"
  return facts(shown)
end

--- Something that a look at a log has found.
local function finding(f)
  local line = ("%s: %s: %s"):format(f.code, f.path, f.message)
  return f.severity == "note" and "note " .. line or line
end

local function findings(fs)
  if #fs == 0 then
    return "nothing found"
  end
  return list(counted(#fs, "finding"), fs, finding)
end

--- What a repair does.
local function repair_step(s)
  local line = ("%s %s"):format(s.action, s.path)
  if s.to and s.to ~= s.path then
    line = line .. " -> " .. tostring(s.to)
  end
  line = line .. ": " .. tostring(s.reason)
  if not s.lost_from then
    return line
  elseif s.lost_to - s.lost_from == 1 then
    return line .. ("; offset %s is lost"):format(s.lost_from)
  end
  return line .. ("; offsets %s to %s are lost"):format(s.lost_from,
    s.lost_to - 1)
end

local function repair_plan(p)
  if #p == 0 then
    return "nothing to repair"
  end
  return list(counted(#p, "step") .. (p.applied and ", done" or ", not done"), p,
    repair_step) .. ("\nquarantine: %s"):format(p.quarantine)
end

--- Names of files.
local function paths(list_of_paths)
  return list(counted(#list_of_paths, "file"), list_of_paths, tostring)
end

local views = {
  record = record,
  records = records,
  segment = segment,
  segments = segments,
  batch = batch,
  config = facts,
  stats = facts,
  features = facts,
  event = event,
  disk_stats = disk_stats,
  paths = paths,
  finding = finding,
  findings = findings,
  repair_plan = repair_plan,
  repair_step = repair_step,
  result = result,
}

--- Give every type of tables its view. `set` is core.set_tostring.
function view.install(set)
  for name, show in pairs(views) do
    set(name, show)
  end
end

return view
