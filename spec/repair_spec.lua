-- minikafka.repair: a plan first, then what it says; everything that can be
-- read stays, nothing is unlinked, and a second repair has nothing to do.

local minikafka = require "minikafka"
local expect = require "spec.support.expect"
local tmp = require "spec.support.tmp"

local DIR = "/logs/orders"
local NEW, OLD = "/logs/minikafka.new.orders", "/logs/minikafka.old.orders"
local ALL = 18

local function open(disk, options)
  options = options or {}
  options.io = disk
  options.segment_bytes = 300
  options.index_interval_bytes = 0
  return minikafka.open(DIR, options)
end

local function file(base, suffix, dir)
  return ("%s/%020d.%s"):format(dir or DIR, base, suffix)
end

-- Files of a closed log: segments at 0, 4, 8, 12 and 16, of four records each
-- but for the last; every record has an offset of its own for a value.
local function files_of_log()
  local disk = minikafka.SimDisk()
  local log = open(disk)
  for i = 0, ALL - 1 do log:append_kv("k" .. i % 5, ("v%02d"):format(i), i) end
  log:close()
  local files = {}
  for _, path in ipairs(disk:list()) do
    if not path:find("reserve$") then files[path:match("[^/]+$")] = disk:read(path) end
  end
  return files
end

local sound = files_of_log()
local SIZE = #sound[file(4, "log", ""):sub(2)] // 4 -- of a batch

-- Write a log's files to `dir`, but for those that `without` finds.
local function put(disk, dir, without, note)
  for name, bytes in pairs(sound) do
    if not without or not name:find(without) then disk:write(dir .. "/" .. name, bytes) end
  end
  if note then
    disk:write(dir .. "/minikafka.swap",
      ("minikafka swap 1\nlive orders\nphase %s\n"):format(note))
  end
end

local function batch(i)
  local base = i // 4 * 4
  local at = (i - base) * SIZE
  return sound[file(base, "log", ""):sub(2)]:sub(at + 1, at + SIZE)
end

local function offsets(log)
  local found = {}
  for offset, _, value in log:records() do
    assert(value == ("v%02d"):format(offset), "a record is not what it was")
    found[#found + 1] = offset
  end
  return table.concat(found, " ")
end

-- "0..3 6 8" as "0 1 2 3 6 8".
local function range(text)
  return (text:gsub("(%d+)%.%.(%d+)", function(a, b)
    local list = {}
    for i = a, b do list[#list + 1] = ("%d"):format(i) end
    return table.concat(list, " ")
  end))
end

local function actions(plan)
  local list = {}
  for i, step in ipairs(plan) do list[i] = step.action end
  return table.concat(list, " ")
end

local function damages(findings)
  local count = 0
  for _, finding in ipairs(findings) do
    if finding.severity == "damage" then count = count + 1 end
  end
  return count
end

-- What may be wrong: how to make it, which records can be read when it is mended,
-- how opening fails before (`code`; nil: it does not), which offsets a step says
-- are lost, where the log starts, whether opening passes over the damage, and
-- whether it ends sooner then.
local cases = {
  { "nothing", function(disk) put(disk, DIR) end, "0..17", nothing = true },
  { "a damaged batch", function(disk)
    put(disk, DIR)
    disk:damage(file(4, "log"), { flip = 8 * (SIZE + 40) })
  end, "0..4 6..17", lost = "5..6" },
  { "a damaged batch, and no state", function(disk)
    put(disk, DIR, "state")
    disk:damage(file(4, "log"), { flip = 8 * (SIZE + 40) })
  end, "0..4 6..17", code = "CORRUPT_SEGMENT" },
  { "several damaged batches", function(disk)
    put(disk, DIR)
    disk:damage(file(0, "log"), { zero = { 0, SIZE // 2 } })
    disk:damage(file(4, "log"), { zero = { SIZE, 2 * SIZE } })
    disk:damage(file(12, "log"), { cut = 2 * SIZE + 7 })
  end, "1..4 7..13 16..17" },
  { "a segment of which nothing can be read", function(disk)
    put(disk, DIR, "state")
    disk:damage(file(8, "log"), { cut = 20 })
  end, "0..7 12..17", code = "CORRUPT_SEGMENT" },
  { "a wrong base offset, which no checksum covers", function(disk)
    put(disk, DIR)
    disk:damage(file(4, "log"), { flip = 8 * 7 + 5 })
  end, "0..3 5..17", opens = true },
  { "a damaged last segment that goes on", function(disk)
    put(disk, DIR)
    disk:damage(file(16, "log"), { flip = 8 * 30 })
  end, "0..15 17" },
  { "a last segment that is cut below what was flushed", function(disk)
    put(disk, DIR)
    disk:damage(file(16, "log"), { cut = SIZE + 5 })
  end, "0..16", lost = "17..18", short = true },
  { "segments that overlap", function(disk)
    put(disk, DIR)
    disk:write(file(6, "log"), batch(6) .. batch(7) .. batch(8) .. batch(9))
  end, "0..17", code = "CORRUPT_SEGMENT" },
  { "a segment that others have whole", function(disk)
    put(disk, DIR)
    disk:write(file(5, "log"), batch(5) .. batch(6))
  end, "0..17", code = "CORRUPT_SEGMENT" },
  { "overlaps that are all that is left of some offsets", function(disk)
    put(disk, DIR, "08%.")
    disk:write(file(6, "log"), batch(6) .. batch(7) .. batch(8) .. batch(9))
    disk:write(file(9, "log"), batch(9) .. batch(10) .. batch(11) .. batch(12))
  end, "0..17", code = "CORRUPT_SEGMENT" },
  { "a missing first segment", function(disk) put(disk, DIR, "0000%.") end, "4..17",
    code = "CORRUPT_SEGMENT", lost = "0..4", start = 4 },
  { "a missing segment", function(disk) put(disk, DIR, "0008%.") end, "0..7 12..17",
    code = "CORRUPT_SEGMENT", lost = "8..12" },
  { "a missing segment beside a stray leftover", function(disk)
    put(disk, DIR, "0008%.")
    disk:write(file(0, "timeindex.swap"), "")
    disk:write(file(16, "log.deleted"), "")
  end, "0..7 12..17", code = "CORRUPT_SEGMENT", lost = "8..12" },
  { "a segment whose only copy seems to be given up", function(disk)
    put(disk, DIR, "0008%.log")
    disk:write(file(8, "log.deleted"), sound[file(8, "log", ""):sub(2)])
  end, "0..17", code = "CORRUPT_SEGMENT" },
  { "a segment whose only copy seems to be incomplete", function(disk)
    put(disk, DIR, "0008%.log")
    disk:write(file(8, "log.cleaned"), sound[file(8, "log", ""):sub(2)])
  end, "0..17", code = "CORRUPT_SEGMENT" },
  { "a first segment whose only copy seems to be given up", function(disk)
    put(disk, DIR, "0000%.log")
    disk:write(file(0, "log.deleted"), sound[file(0, "log", ""):sub(2)])
  end, "0..17", code = "CORRUPT_SEGMENT" },
  { "a last segment whose only copy seems to be given up", function(disk)
    put(disk, DIR, "0016%.log")
    disk:write(file(16, "log.deleted"), sound[file(16, "log", ""):sub(2)])
  end, "0..17", code = "CORRUPT_SEGMENT" },
  { "a missing last segment", function(disk) put(disk, DIR, "0016%.") end, "0..15",
    lost = "16..18", short = true },
  { "no segment at all", function(disk) put(disk, DIR, "00%d%d%.") end, "",
    lost = "0..18", start = 18, short = true },
  { "a file that is no segment", function(disk)
    put(disk, DIR)
    disk:write(file(5, "log"), "x")
    disk:write(file(500, "log"), "no batch at all, but longer than the header of one is")
  end, "0..17", code = "CORRUPT_SEGMENT" },
  { "wrong indexes", function(disk)
    put(disk, DIR, "0012.index")
    disk:damage(file(4, "index"), { flip = 3 })
    disk:damage(file(8, "timeindex"), { cut = 0 })
  end, "0..17" },
  { "a damaged state", function(disk)
    put(disk, DIR)
    disk:damage(DIR .. "/minikafka.state", { flip = 100 })
  end, "0..17" },
  { "three directories of a swap", function(disk)
    put(disk, DIR, nil, "ready")
    put(disk, NEW)
    put(disk, OLD)
  end, "0..17", code = "SWAP_AMBIGUOUS" },
  { "only the new directory of a swap", function(disk) put(disk, NEW, nil, "ready") end,
    "0..17", code = "SWAP_AMBIGUOUS" },
  { "a damaged old directory, alone", function(disk)
    put(disk, OLD)
    disk:damage(file(8, "log", OLD), { cut = SIZE })
  end, "0..8 12..17", code = "SWAP_AMBIGUOUS" },
  { "a damaged directory beside a sound old one", function(disk)
    put(disk, OLD)
    put(disk, DIR, "0008%.")
  end, "0..17", code = "SWAP_AMBIGUOUS" },
  { "an empty directory beside a new one", function(disk)
    put(disk, NEW, nil, "ready")
    disk:write(DIR .. "/stranger", "x")
  end, "0..17", code = "SWAP_AMBIGUOUS" },
  { "a swap of segments with damage on either side", function(disk)
    put(disk, DIR)
    disk:write(file(4, "log.swap"), sound[file(4, "log", ""):sub(2)] .. batch(8) .. "junk"
      .. batch(9) .. batch(10) .. batch(11))
    disk:damage(file(8, "log"), { cut = 20 })
  end, "0..17", code = "SWAP_AMBIGUOUS" },
  { "the log file of a swap of segments before its last rename", function(disk)
    put(disk, DIR, "0008%.log")
    disk:write(file(8, "log.swap"), sound[file(8, "log", ""):sub(2)])
  end, "0..17", opens = true },
  { "a swap of segments whose source is gone, and that is damaged", function(disk)
    put(disk, DIR, "0008%.")
    disk:write(file(4, "log.swap"), sound[file(4, "log", ""):sub(2)] .. batch(8) .. "junk"
      .. batch(9) .. batch(10) .. batch(11))
  end, "0..17", code = "SWAP_AMBIGUOUS" },
  { "a wrong base offset that reaches into the next segments", function(disk)
    put(disk, DIR)
    disk:damage(file(4, "log"), { flip = 8 * (3 * SIZE + 7) + 3 })
  end, "0..6 8..17", opens = true, lost = "7..8" },
  { "a wrong base offset behind damage, and no state", function(disk)
    put(disk, DIR, "state")
    disk:damage(file(0, "log"), { zero = { SIZE, 2 * SIZE } })
    disk:damage(file(0, "log"), { flip = 8 * (3 * SIZE + 6) })
  end, "0 4..17", code = "CORRUPT_SEGMENT" },
  { "a wrong base offset of the last batch of all", function(disk)
    put(disk, DIR)
    disk:damage(file(16, "log"), { flip = 8 * (SIZE + 7) + 6 })
  end, "0..16", opens = true },
  { "a wrong base offset in the only copy of a segment", function(disk)
    put(disk, DIR, "0008%.")
    local bytes = sound[file(8, "log", ""):sub(2)]
    disk:write(file(8, "log.deleted"), bytes)
    disk:damage(file(8, "log.deleted"), { flip = 8 * (3 * SIZE + 5) })
  end, "0..10 12..17", code = "CORRUPT_SEGMENT", lost = "11..12" },
  { "an end whose name is taken", function(disk)
    put(disk, DIR)
    disk:damage(file(16, "log"), { cut = 20 })
    disk:write(file(18, "log"), "x")
  end, "0..15", lost = "16..18", code = "CORRUPT_SEGMENT" },
  { "an empty segment in the place of an only copy", function(disk)
    put(disk, DIR, "0008%.")
    disk:write(file(8, "log.deleted"), sound[file(8, "log", ""):sub(2)])
    disk:write(file(10, "log"), "")
  end, "0..17", code = "CORRUPT_SEGMENT" },
}

local function broken(case)
  local disk = minikafka.SimDisk()
  case[2](disk)
  return disk
end

local function repair(disk, apply) return minikafka.repair(DIR, { io = disk, apply = apply }) end

-- All bytes that were on the disk are still there, below some name.
local function assert_kept(before, disk)
  local now = {}
  for _, path in ipairs(disk:list()) do now[disk:read(path)] = true end
  for _, path in ipairs(before:list()) do
    local bytes = before:read(path)
    if not path:find("lock$") and #bytes > 0 and not now[bytes] then
      error(path .. " is gone")
    end
  end
end

local function check_repaired(case, disk)
  local log <close> = open(disk, { create = false })
  assert(offsets(log) == range(case[3]), case[1] .. ": " .. offsets(log))
  assert(log.log_end_offset == ALL, "the end has moved")
  assert(log.log_start_offset == (case.start or 0), "the start has moved")
  for _, finding in ipairs(log:verify()) do
    assert(finding.code == "STRANGE_FILE", tostring(finding))
  end
  assert(log:append_kv("k", "after", 99) == ALL)
end

-- Who opens a disk that is mended half gets all of it, or is told.
local function check_opening(case, disk)
  local whole, found, log_end = pcall(function()
    local log <close> = open(disk, { create = false })
    return offsets(log), log.log_end_offset
  end)
  if whole and not case.opens then
    assert(found == range(case[3]), found)
    assert(case.short or log_end == ALL, "the end has moved")
  end
end

describe("repair", function()
  after_each(tmp.clean)

  for _, case in ipairs(cases) do
    it("mends " .. case[1], function()
      local disk = broken(case)
      local before = disk:clone()
      local done, raised = pcall(open, disk:clone(), { create = false })
      assert.equal(case.code, not done and raised.code or nil)

      local plan = repair(disk)
      assert.equal(before:hash(), disk:hash())
      assert.equal(false, plan.applied)
      local applied = repair(disk, true)
      assert.equal(true, applied.applied)
      assert.equal(#plan, #applied)
      for i, step in ipairs(plan) do assert.equal(tostring(step), tostring(applied[i])) end
      assert.equal(case.nothing and "nothing to repair" or nil,
        #plan == 0 and tostring(plan) or nil)
      assert.equal(plan.quarantine, applied.quarantine)
      if case.lost then
        local lost
        for _, step in ipairs(plan) do
          if step.lost_from then lost = ("%d..%d"):format(step.lost_from, step.lost_to) end
        end
        assert.equal(case.lost, lost)
      end
      assert_kept(before, disk)
      assert.equal("nothing to repair", tostring(repair(disk)))
      check_repaired(case, disk)
      assert.equal(0, #repair(disk, true))
    end)
  end

  it("is content with what it made of a log without a state", function()
    local disk = minikafka.SimDisk()
    put(disk, DIR, "0012%.")
    disk:damage(DIR .. "/minikafka.state", { cut = 10 })
    disk:damage(file(16, "log"), { cut = 20 })
    repair(disk, true)
    assert.equal("nothing to repair", tostring(repair(disk)))
    local log <close> = open(disk, { create = false })
    assert.equal(range("0..11"), offsets(log))
  end)

  it("prints its plan, step by step, with reasons", function()
    local disk = broken(cases[2])
    local text = tostring(repair(disk))
    assert.truthy(text:find("^2 steps, not done\n  rewrite " .. file(4, "log")), text)
    assert.truthy(text:find("; offset 5 is lost\n", 1, true), text)
    assert.truthy(text:find("\nquarantine: /logs/orders/minikafka.quarantine.1$"), text)
    assert.truthy(tostring(repair(disk, true)):find("^2 steps, done\n"))
    disk:damage(file(8, "log"), { flip = 300 })
    assert.equal(DIR .. "/minikafka.quarantine.2", repair(disk, true).quarantine)
  end)

  it("mends a compacted log whose first segment is missing", function()
    local disk = minikafka.SimDisk()
    local log = open(disk)
    for i = 0, ALL - 1 do log:append_kv("k" .. i, ("v%02d"):format(i), i) end
    minikafka.LogCompactor(minikafka.ManualClock(1)):compact(log)
    log:close()
    local path = file(0, "log")
    local broken_disk = minikafka.SimDisk()
    for _, name in ipairs(disk:list()) do
      if name ~= path then broken_disk:write(name, disk:read(name)) end
    end
    local before = broken_disk:hash()
    expect.error("CORRUPT_SEGMENT", open, broken_disk)
    assert.equal(before, broken_disk:hash())
    repair(broken_disk, true)
    log = open(broken_disk)
    assert.equal(ALL, log.log_end_offset)
    log:close()
    assert.equal("nothing to repair", tostring(repair(broken_disk)))
  end)

  it("keeps a log start that was advanced, and an end behind a gap", function()
    local disk = minikafka.SimDisk()
    local log = open(disk)
    for i = 0, ALL - 1 do log:append_kv("k", ("v%02d"):format(i), i) end
    log:delete_records(2)
    log:truncate_to(14)
    log:append({ { value = "v14" }, { value = "v15" } })
    log:truncate_to(15)
    log:close()
    disk:damage(file(4, "log"), { flip = 8 * 100 })
    repair(disk, true)
    log = open(disk)
    assert.equal(2, log.log_start_offset)
    assert.equal(15, log.log_end_offset)
    assert.equal(range("2..4 6..13"), offsets(log))
  end)

  it("has nothing to do where a log was cut in the midst of a batch", function()
    for _, after in ipairs { "close", "kill9" } do
      local disk = minikafka.SimDisk()
      local log = open(disk)
      log:append { { value = "v00" }, { value = "v01" } }
      log:append { { value = "v02" }, { value = "v03" }, { value = "v04" } }
      log:truncate_to(3)
      if after == "close" then log:close() else disk:crash { keep = after } end
      assert.equal(0, #minikafka.repair(DIR, { io = disk }), after)
      local again <close> = open(disk)
      assert.equal(3, again.log_end_offset)
      assert.equal("0 1", offsets(again))
    end
  end)

  it("works on real files, and refuses while somebody writes", function()
    local dir = tmp.path()
    local log = minikafka.open(dir, { segment_bytes = 300 })
    for i = 1, 20 do log:append_kv("k", "v" .. i, i) end
    expect.error("LOCKED", minikafka.repair, dir)
    expect.error("LOCKED", minikafka.repair, dir, { apply = true })
    local path = log.segments[2].path
    log:close()
    local bytes = tmp.read(path)
    tmp.write(path, bytes:sub(1, 30) .. "x" .. bytes:sub(32))
    local before = tmp.fingerprint(dir)
    local plan = minikafka.repair(dir)
    assert.equal("rewrite state", actions(plan))
    assert.equal(before, tmp.fingerprint(dir))
    minikafka.repair(dir, { apply = true })
    assert.equal(bytes:sub(1, 30) .. "x" .. bytes:sub(32),
      tmp.read(plan.quarantine .. path:match("/[^/]+$")))
    log = minikafka.open(dir)
    assert.equal(19, #log:fetch(log.log_start_offset))
    assert.equal(0, damages(log:verify()))
    log:close()
    expect.error("NOT_FOUND", minikafka.repair, tmp.path())
    local empty = tmp.dir()
    assert.equal(0, #minikafka.repair(empty, { apply = true }))
  end)

  it("checks its arguments, and tells its progress, which may end it", function()
    local disk = broken(cases[2])
    expect.argument_error("directory", minikafka.repair)
    expect.argument_error("apply", minikafka.repair, DIR, { apply = 1 })
    expect.argument_error("io", minikafka.repair, DIR, { io = 1 })
    expect.argument_error("progress", minikafka.repair, DIR, { progress = 1 })
    assert.equal("apply", expect.error("INVALID_ARGUMENT", minikafka.repair, DIR,
      { aply = true }).nearest)
    local last, total = 0, nil
    minikafka.repair(DIR, { io = disk, progress = function(done, all)
      assert.truthy(done >= last and done <= all)
      last, total = done, all
    end })
    assert.equal(total, last)
    local cause = {}
    local before = disk:hash()
    local done, raised = pcall(minikafka.repair, DIR, { io = disk, apply = true,
      progress = function() error(cause) end })
    assert.equal(false, done)
    assert.equal(cause, raised)
    assert.equal(before, disk:hash())
  end)

  it("that fails at any step is ended by the next one", function()
    for _, case in ipairs(cases) do
      if not case.nothing then
        local probe = broken(case)
        repair(probe, true)
        local steps = probe:stats().steps
        for after = 0, steps - 1 do
          local disk = broken(case)
          local before = disk:clone()
          disk:fail{ after = after, times = 1, errno = "EIO" }
          local done, raised = pcall(repair, disk, true)
          if not done then
            assert.truthy(minikafka.is_error(raised, "IO"), tostring(raised))
            repair(disk, true)
          end
          assert_kept(before, disk)
          check_repaired(case, disk)
        end
      end
    end
  end)

  for _, case in ipairs(cases) do
    if not case.nothing then
      it("cut short at any step is ended by the next one: " .. case[1], function()
        local limit = tonumber(os.getenv("MK_REPAIR_LIMIT")) or 40
        local result = minikafka.explore{ profile = "hostile", limit = limit,
          setup = function(disk) case[2](disk) end,
          run = function(disk, ack)
            repair(disk, true)
            ack()
          end,
          check = function(disk, acked)
            check_opening(case, disk:clone())
            local plan = repair(disk, true)
            assert(#acked == 0 or #plan == 0, "it was not done for good")
            assert_kept(broken(case), disk)
            check_repaired(case, disk)
          end }
        assert.truthy(result.distinct > 5)
      end)
    end
  end
end)
