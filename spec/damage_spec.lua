-- Damage found at opening: torn tails, zeros, junk, lengths that lie, indexes
-- that are missing or wrong, and files that nobody can place.
--
-- A copy of the directory of an open log is what a death leaves; damage is done
-- to such copies. Damage to closed segments is not looked at here.

local minikafka = require "minikafka"
local tmp = require "spec.support.tmp"
local collector = require "spec.support.collector"
local state = require "spec.support.state"
local batches = require "spec.support.batches"
local expect = require "spec.support.expect"

local first_log = ("/%020d.log"):format(0)

local function open(dir, options)
  options = options or {}
  options.clock = options.clock or minikafka.ManualClock(0)
  return minikafka.open(dir, options)
end

-- A log with `count` one-record batches, each with a header.
local function with_records(count, options)
  local log = open(tmp.path(), options)
  for i = 0, count - 1 do
    log:append { key = "key" .. i, value = "value" .. i, timestamp_ms = i,
      headers = { { "name", "header" } } }
  end
  return log
end

-- What is in the active segment's file, without an unused end.
local function bytes_of(log)
  return tmp.read(log.active_segment.path):sub(1,
    log.active_segment.log_bytes)
end

-- A copy of the log's directory with other bytes in the active segment's file.
local function copy_with(log, bytes)
  local dir = tmp.copy(log.directory)
  tmp.write(dir .. log.active_segment.path:match("/[^/]+$"), bytes)
  return dir
end

-- Open a damaged copy: the log has the expected records, its file is cut to
-- `size` before anything else is done, and what is appended then stays.
local function recovers(dir, expected, count, size)
  local log = open(dir)
  assert.equal(size, #tmp.read(log.active_segment.path))
  assert.equal(expected, state.records(log:fetch(0)))
  assert.equal(count, log.log_end_offset)
  assert.equal(size, log.active_segment.log_bytes)
  assert.equal(count, log:append { value = "after" })
  size = log.active_segment.log_bytes
  log:close()
  local again <close> = open(dir)
  assert.equal(size, #tmp.read(again.active_segment.path))
  assert.equal(count + 1, again.log_end_offset)
  assert.equal("after", again:fetch(count)[1].value)
  assert.equal(expected, state.records(again:fetch(0,
    { end_offset = count })))
end

describe("a torn tail", function()
  setup(collector.relax)
  teardown(collector.restore)
  after_each(tmp.clean)

  it("B31: is cut, at whichever byte it was torn", function()
    local log <close> = with_records(3)
    local expected = state.records(log:fetch(0))
    local size = log.active_segment.log_bytes
    log:append { key = "torn", value = "torn" }
    local whole = bytes_of(log)
    for cut = size, #whole - 1 do
      recovers(copy_with(log, whole:sub(1, cut)), expected, 3, size)
    end
  end)

  it("B31: is cut, at whichever byte of the last three batches", function()
    local log <close> = with_records(4)
    local whole, expected, ends = bytes_of(log), { [0] = "" }, { [0] = 0 }
    for batch in log:batches() do
      local count = batch.last_offset + 1
      ends[count] = batch.position + batch.size_bytes
      expected[count] = state.records(log:fetch(0, count))
    end
    assert.equal(#whole, ends[4])
    local count = 1
    for cut = ends[1], ends[4] - 1 do
      if cut == ends[count + 1] then
        count = count + 1
      end
      recovers(copy_with(log, whole:sub(1, cut)), expected[count], count,
        ends[count])
    end
    assert.equal(3, count)
  end)

  it("B29: is cut where zeros follow, at whichever byte", function()
    local log <close> = with_records(3)
    local expected = state.records(log:fetch(0))
    local size = log.active_segment.log_bytes
    log:append { key = "torn", value = "torn" }
    local whole = bytes_of(log)
    for cut = size, #whole - 1 do
      local dir = copy_with(log, whole:sub(1, cut) .. ("\0"):rep(4096 - cut))
      -- The last byte of a record without headers is a zero of its own.
      if cut == #whole - 1 and whole:byte(-1) == 0 then
        local again <close> = open(dir)
        assert.equal(4, again.log_end_offset)
      else
        recovers(dir, expected, 3, size)
      end
    end
  end)

  it("B29: is cut where zeros stand in the middle of it", function()
    local log <close> = with_records(3)
    local expected = state.records(log:fetch(0))
    local size = log.active_segment.log_bytes
    log:append { key = "torn", value = ("x"):rep(2000) }
    local whole = bytes_of(log)
    for from = 512, 1536, 512 do
      recovers(copy_with(log, batches.patch(whole, from, ("\0"):rep(512))),
        expected, 3, size)
    end
  end)

  it("B29: is no record where there are only zeros", function()
    local log <close> = with_records(3)
    local expected, whole = state.records(log:fetch(0)), bytes_of(log)
    for _, count in ipairs { 1, 11, 12, 16, 17, 61, 4096, 100000 } do
      recovers(copy_with(log, whole .. ("\0"):rep(count)), expected, 3,
        #whole)
    end
    recovers(copy_with(log, ("\0"):rep(4096)), "", 0, 0)
    recovers(copy_with(log, ""), "", 0, 0)
  end)

  it("B31: is no record where there is junk", function()
    local log <close> = with_records(3)
    local expected, whole = state.records(log:fetch(0)), bytes_of(log)
    for _, junk in ipairs { "x", "garbage that is no batch",
      ("\255"):rep(40), ("junk"):rep(2000), whole:sub(1, 60), "\0\1" } do
      recovers(copy_with(log, whole .. junk), expected, 3, #whole)
    end
  end)

  it("is no batch where an older one stands again", function()
    local log <close> = with_records(3)
    local expected, whole = state.records(log:fetch(0)), bytes_of(log)
    recovers(copy_with(log, whole .. whole:sub(1, #whole // 3)), expected, 3,
      #whole)
  end)

  it("ends at a flipped bit, whichever it is", function()
    local log <close> = with_records(2)
    local expected = state.records(log:fetch(0))
    local size = log.active_segment.log_bytes
    log:append { key = "flipped", value = "flipped" }
    local whole = bytes_of(log)
    local kept = 0
    for position = size, #whole - 1 do
      local byte = string.char(whole:byte(position + 1)
        ~ 1 << position % 8)
      local dir = copy_with(log, batches.patch(whole, position, byte))
      -- Not under the checksum, and not known otherwise: the leader epoch,
      -- and the base offset where it becomes a later one.
      local known = position >= size + 16
        or position >= size + 8 and position < size + 12
      if known then
        recovers(dir, expected, 2, size)
      else
        local again <close> = open(dir)
        assert.equal(expected, state.records(again:fetch(0, 2)))
        kept = kept + (again.log_end_offset > 2 and 1 or 0)
      end
    end
    assert(kept >= 4)
  end)

  it("tells how much was cut", function()
    local log <close> = with_records(3)
    local whole = bytes_of(log)
    local again <close> = open(copy_with(log, whole .. ("x"):rep(123)))
    assert.equal(123, again:stats().truncated_bytes)
  end)

  it("leaves the segments before it alone", function()
    local log <close> = with_records(3)
    log:roll()
    log:append { key = "torn", value = "torn" }
    local whole = bytes_of(log)
    for _, cut in ipairs { 0, 1, 17, 61, #whole - 1 } do
      local again <close> = open(copy_with(log, whole:sub(1, cut)))
      assert.equal(3, again.log_end_offset)
      assert.equal(3, #again:fetch(0))
      assert.equal(3, again:append { value = "after" })
    end
  end)
end)

describe("a tail that was on stable storage", function()
  after_each(tmp.clean)

  -- The last batch is damaged: either the opening says so, and leaves the file
  -- alone, or the log ends before it. Never is it served.
  local function never_serves(dir, expected, size)
    local before = tmp.read(dir .. first_log)
    local done, log = pcall(open, dir)
    if not done then
      assert(minikafka.is_error(log, "CORRUPT_SEGMENT")
        or minikafka.is_error(log, "CORRUPT_BATCH"), tostring(log))
      assert.equal(before, tmp.read(dir .. first_log))
      return
    end
    assert.equal(3, log.log_end_offset)
    assert.equal(expected, state.records(log:fetch(0)))
    assert(log.recovery_point <= 3)
    assert.equal(size, #tmp.read(dir .. first_log))
    assert.equal(3, log:append { value = "after" })
    log:close()
  end

  for _, after in ipairs { "close", "death" } do
    it("is never served when it is damaged, after a " .. after, function()
      local log = with_records(3)
      local expected = state.records(log:fetch(0))
      local size = log.active_segment.log_bytes
      log:append { key = "last", value = "last" }
      log:flush()
      assert.equal(4, log.recovery_point)
      local whole = bytes_of(log)
      local source = log.directory
      if after == "close" then
        log:close()
      end
      for cut = size, #whole - 1, 3 do
        for _, bytes in ipairs { whole:sub(1, cut),
          whole:sub(1, cut) .. ("\0"):rep(#whole - cut - 1) .. "\1" } do
          local dir = tmp.copy(source)
          tmp.write(dir .. first_log, bytes)
          never_serves(dir, expected, size)
        end
      end
      -- The checksum does not cover the base offset.
      for bit = 0, 63 do
        local at = size + bit // 8 + 1
        local dir = tmp.copy(source)
        tmp.write(dir .. first_log, whole:sub(1, at - 1)
          .. string.char(whole:byte(at) ~ 1 << bit % 8) .. whole:sub(at + 1))
        never_serves(dir, expected, size)
      end
    end)
  end
end)

describe("B34: a length that lies", function()
  setup(collector.relax)
  teardown(collector.restore)
  after_each(tmp.clean)

  local function peak_kib()
    for line in io.lines("/proc/self/status") do
      local kib = line:match("^VmPeak:%s+(%d+)")
      if kib then
        return math.tointeger(tonumber(kib))
      end
    end
  end

  -- Three good batches and a fourth, as bytes, to be spoilt.
  local function scene()
    local log = with_records(3)
    local size = log.active_segment.log_bytes
    log:append { key = "key", value = "value", headers = { { "h", "v" } } }
    local whole = bytes_of(log)
    return log, whole:sub(1, size), whole:sub(size + 1)
  end

  it("B34: ends the log at its batch", function()
    local log <close>, good, last = scene()
    local expected = state.records(log:fetch(0, { end_offset = 3 }))
    local before = peak_kib()
    for _, length in ipairs { 0x7fffffff, -1, 0, 1, -2147483648, 48, 49,
      60, 13, 14, 1 << 30 } do
      local spoilt = batches.patch(last, 8, (">i4"):pack(length))
      recovers(copy_with(log, good .. spoilt), expected, 3, #good)
      recovers(copy_with(log, good .. batches.seal(spoilt)), expected, 3,
        #good)
    end
    assert(peak_kib() - before < 512 * 1024, "asked for what a length said")
  end)

  -- The batch is sealed, so that its checksum fits what it says.
  local function spoilt_bodies(last)
    local body = last:sub(62)
    local list = {}
    local function add(header, bytes)
      local spoilt = header .. bytes
      list[#list + 1] = batches.seal(batches.patch(spoilt, 8,
        (">i4"):pack(#spoilt - 12)))
    end
    for _, count in ipairs { 0x7fffffff, -1, 2, -2147483648 } do
      add(batches.patch(last, 57, (">i4"):pack(count)):sub(1, 61), body)
    end
    local wrong = { "\xfe\xff\xff\xff\x0f", "\x03", "\x05",
      ("\xff"):rep(10), ("\xff"):rep(9) .. "\x7f", "\x7e", "" }
    -- Where in the body: record length, key length, value length, header
    -- count, header name length, header value length.
    for _, at in ipairs { 0, 4, 8, 14, 15, 17 } do
      for _, bytes in ipairs(wrong) do
        add(last:sub(1, 61), body:sub(1, at) .. bytes .. body:sub(at + 2))
      end
    end
    return list
  end

  it("B34: is an error with a place, never a crash or a record", function()
    local log <close>, good, last = scene()
    assert.equal(last, batches.seal(last))
    assert.equal("\36\0\0\0\6key\10value\2\2h\2v", last:sub(62))
    local expected = state.records(log:fetch(0, { end_offset = 3 }))
    local before = peak_kib()
    local spoilt = spoilt_bodies(last)
    assert.equal(4 + 6 * 7, #spoilt)
    for _, bytes in ipairs(spoilt) do
      local dir = copy_with(log, good .. bytes)
      local again <close> = open(dir)
      assert.equal(expected, state.records(again:fetch(0,
        { end_offset = 3 })))
      if again.log_end_offset == 4 then
        local raised = expect.error("CORRUPT_BATCH", again.fetch, again, 3)
        assert.equal(#good, raised.position)
        assert.equal(dir .. first_log, raised.path)
      else
        assert.equal(3, again.log_end_offset)
      end
    end
    assert(peak_kib() - before < 512 * 1024, "asked for what a length said")
  end)
end)

describe("B35: an index that is missing or wrong", function()
  setup(collector.relax)
  teardown(collector.restore)
  after_each(tmp.clean)

  local settings = { segment_bytes = 1500, index_interval_bytes = 100 }

  -- Small and large records over some segments, compacted once.
  local function scene()
    local log = open(tmp.path(), settings)
    for i = 0, 79 do
      log:append { key = "k" .. i % 17, value = ("x"):rep(i % 10 == 9
        and 1000 or 10), timestamp_ms = i * 37 % 83 }
      if i == 39 then
        minikafka.LogCompactor():compact(log)
      end
    end
    assert(#log.segments > 5)
    return log
  end

  -- Everything that depends on an index.
  local function answers(log)
    local lines = { state.text(state.of(log)) }
    for offset = 0, log.log_end_offset do
      local records, next_offset = log:fetch(offset, 1)
      lines[#lines + 1] = ("%s %d"):format(state.records(records),
        next_offset)
    end
    for time = 0, 84 do
      lines[#lines + 1] = tostring((log:offset_for_timestamp(time)))
    end
    lines[#lines + 1] = tostring((log:offset_of_max_timestamp()))
    return table.concat(lines, "\n")
  end

  -- Each wrong content of one index file, by its right one and another's.
  local function spoilings(right, other, entry)
    local second = right:sub(entry + 1, 2 * entry)
    local last = right:sub(-entry)
    return {
      ["no file"] = false,
      ["no bytes"] = "",
      ["half an entry more"] = right .. right:sub(1, entry // 2),
      ["half an entry less"] = right:sub(1, -entry // 2 - 1),
      ["an entry less"] = right:sub(1, -entry - 1),
      ["entries swapped"] = second .. right:sub(1, entry)
        .. right:sub(2 * entry + 1),
      ["another segment's"] = other,
      ["a last entry one higher"] = right:sub(1, -2)
        .. string.char((right:byte(-1) or 0) + 1 & 0xFF),
      ["zeros"] = ("\0"):rep(#right),
      ["zeros behind it"] = right .. ("\0"):rep(entry * 20),
      ["an entry twice"] = right .. last,
      ["garbage"] = ("\x5a\xa5"):rep(entry),
      ["greatest values"] = ("\x7f" .. ("\xff"):rep(entry - 1)):rep(3),
    }
  end

  local function check(name_pattern, entry, from, after)
    local log = scene()
    local expected = answers(log)
    if after == "close" then
      log:close()
    end
    local names = {}
    for _, name in ipairs(tmp.list(log.directory)) do
      if name:find(name_pattern) then
        names[#names + 1] = name
      end
    end
    local name, other_name = names[from], names[from + 1]
    local right = tmp.read(log.directory .. "/" .. name)
    local other = tmp.read(log.directory .. "/" .. other_name)
    for what, bytes in pairs(spoilings(right, other, entry)) do
      local dir = tmp.copy(log.directory)
      if bytes then
        tmp.write(dir .. "/" .. name, bytes)
      else
        assert(os.remove(dir .. "/" .. name))
      end
      local again = open(dir, settings)
      local ours = answers(again)
      assert(ours == expected, ("%s: %s"):format(name, what))
      assert.equal(80, again:append { value = "after", timestamp_ms = 90 })
      assert.equal(80, (again:offset_for_timestamp(84)))
      again:close()
      local third <close> = open(dir, settings)
      assert.equal(80, (third:offset_for_timestamp(84)))
      assert(answers(third):find("after", 1, true))
    end
  end

  for _, after in ipairs { "close", "death" } do
    it("B35: costs nothing of the offset index, after a " .. after,
      function()
        check("^%d+%.index$", 8, 1, after)
        check("^%d+%.index$", 8, 3, after)
      end)

    it("B35: costs nothing of the time index, after a " .. after, function()
      check("^%d+%.timeindex$", 12, 1, after)
      check("^%d+%.timeindex$", 12, 3, after)
    end)

    it("B35: costs nothing where all are gone, after a " .. after,
      function()
        local log = scene()
        local expected = answers(log)
        if after == "close" then
          log:close()
        end
        local dir = tmp.copy(log.directory)
        for _, name in ipairs(tmp.list(dir)) do
          if name:find("index$") then
            assert(os.remove(dir .. "/" .. name))
          end
        end
        local again <close> = open(dir, settings)
        assert.equal(expected, answers(again))
      end)
  end
end)

describe("B27: a time index that makes a segment look old", function()
  after_each(tmp.clean)

  for _, after in ipairs { "close", "death" } do
    it("B27: deletes nothing after a " .. after, function()
      local log = open(tmp.path(), { index_interval_bytes = 1 })
      for time = 1000, 1003 do
        log:append { value = "v", timestamp_ms = time }
      end
      log:roll()
      local right = tmp.read(("%s/%020d.timeindex"):format(log.directory, 0))
      assert.equal(3 * 12, #right)
      if after == "close" then
        log:close()
      end
      for _, wrong in ipairs {
        right .. ("\0"):rep(12),
        ("\0"):rep(10485756),
        "",
        right .. "stray",
        right:sub(1, -13) .. ("\0"):rep(8) .. right:sub(-4),
      } do
        local dir = tmp.copy(log.directory)
        tmp.write(("%s/%020d.timeindex"):format(dir, 0), wrong)
        local again <close> = open(dir)
        assert.equal(1003, again.segments[1].max_timestamp_ms)
        assert.same({}, (minikafka.RetentionManager(
          minikafka.ManualClock(1050)):apply(again,
          { retention_ms = 100 })))
        assert.equal(3, (again:offset_for_timestamp(1003)))
        again:append { value = "v", timestamp_ms = 1004 }
        again:roll()
        assert.equal(5, #again:fetch(0))
        assert.equal(3, #again.segments)
      end
    end)
  end
end)

describe("B45: files that a pass or somebody else left", function()
  after_each(tmp.clean)

  -- A closed log with one closed segment, and its directory.
  local function scene()
    local log = with_records(4)
    log:roll()
    log:append { value = "active" }
    log:close()
    return log.directory
  end

  it("B45: go where they are Kafka's and of no use", function()
    local dir = scene()
    local before = tmp.list(dir)
    local whole = tmp.read(dir .. first_log)
    for name, bytes in pairs {
      ["%020d.log.cleaned"] = whole:sub(1, #whole // 2),
      ["%020d.index.cleaned"] = "junk",
      ["%020d.timeindex.cleaned"] = "",
      ["%020d.log.deleted"] = whole,
      ["%020d.index.deleted"] = "",
    } do
      tmp.write(dir .. "/" .. name:format(0), bytes)
    end
    tmp.write(("%s/%020d.log.deleted"):format(dir, 77), "another")
    local log = open(dir)
    assert.equal(5, #log:fetch(0))
    log:close()
    assert.same(before, tmp.list(dir))
  end)

  local foreign = { "/x.log", "/0.log", "/0.log.tmp", "/notes.txt",
    "/7.index", "/-0000000000000000001.log" }

  -- Put names there that nobody knows.
  local function add_foreign(dir)
    for _, name in ipairs(foreign) do
      tmp.write(dir .. name, "not ours")
    end
    assert(os.execute(("mkdir %s/7.log && ln -s nowhere %s/link"):format(dir,
      dir)))
  end

  local function has_foreign(dir)
    for _, name in ipairs(foreign) do
      assert.equal("not ours", tmp.read(dir .. name))
    end
    local names = " " .. table.concat(tmp.list(dir), " ") .. " "
    assert(names:find(" 7.log ", 1, true) and names:find(" link ", 1, true))
  end

  it("B45: stay where nobody knows them", function()
    local dir = scene()
    add_foreign(dir)
    local log = open(dir)
    assert.equal(5, #log:fetch(0))
    assert.equal(5, log:append { value = "v" })
    minikafka.RetentionManager():apply(log, { retention_bytes = 1 })
    log:close()
    local again <close> = open(dir)
    assert.equal("v", again:fetch(5)[1].value)
    has_foreign(dir)
  end)

  it("B45: stay through a compaction", function()
    local dir = scene()
    add_foreign(dir)
    local log = open(dir)
    minikafka.LogCompactor():compact(log)
    has_foreign(dir)
    log:close()
    local again <close> = open(dir)
    assert.equal(5, #again:fetch(0))
    has_foreign(dir)
  end)
end)
