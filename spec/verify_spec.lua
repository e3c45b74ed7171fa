-- log:verify: nothing is found in a sound log, and all damage is.

local minikafka = require "minikafka"
local expect = require "spec.support.expect"
local tmp = require "spec.support.tmp"

local DIR = "/logs/orders"

local function open(disk, options)
  options = options or {}
  options.io = disk
  options.segment_bytes = options.segment_bytes or 250
  options.index_interval_bytes = 0
  return minikafka.open(DIR, options)
end

local function with_log(count)
  local disk = minikafka.SimDisk()
  local log = open(disk)
  for i = 1, count or 16 do log:append_kv("k" .. i % 5, ("v%02d"):format(i), i) end
  return disk, log
end

local function file(base, suffix) return ("%s/%020d.%s"):format(DIR, base, suffix) end

-- "CODE position" of each finding, notes in brackets.
local function told(findings)
  local lines = {}
  for i, finding in ipairs(findings) do
    local line = finding.position and ("%s %d"):format(finding.code, finding.position)
      or finding.code
    lines[i] = finding.severity == "note" and "(" .. line .. ")" or line
  end
  return table.concat(lines, ", ")
end

local function damages(findings)
  local count = 0
  for _, finding in ipairs(findings) do
    if finding.severity == "damage" then count = count + 1 end
  end
  return count
end

describe("verify", function()
  after_each(tmp.clean)

  it("finds nothing in a sound log, whatever was done to it", function()
    local disk, log = with_log(40)
    local function nothing()
      assert.equal("", told(log:verify()))
      log:append_kv("after", "that", 50)
      assert.equal("", told(log:verify()))
    end
    nothing()
    log:flush()
    nothing()
    minikafka.LogCompactor():compact(log)
    nothing()
    log:delete_records(20)
    nothing()
    log:truncate_to(30)
    nothing()
    log:roll()
    nothing()
    log:close()
    log = open(disk)
    nothing()
    disk:crash{ keep = "kill9" }
    log = open(disk)
    nothing()
    local reader <close> = open(disk, { read_only = true })
    log:append_kv("a", "b")
    assert.equal("", told(reader:verify()))
    minikafka.LogCompactor():compact(log)
    assert.equal("", told(reader:verify()))
    log:copy_to("/copies/orders")
    local copy <close> = minikafka.open("/copies/orders", { io = disk })
    assert.equal("", told(copy:verify()))
    local empty <close> = minikafka.open("/empty", { io = disk })
    assert.equal("", told(empty:verify()))
  end)

  it("finds nothing on real files, and changes nothing", function()
    local dir = tmp.path()
    local log <close> = minikafka.open(dir, { segment_bytes = 200 })
    for i = 1, 20 do log:append_kv("k", "v" .. i) end
    log:flush()
    local before = tmp.fingerprint(dir)
    assert.equal("nothing found", tostring(log:verify()))
    assert.equal(before, tmp.fingerprint(dir))
  end)

  it("says what is wrong with a batch, where, and where the log goes on", function()
    local disk, log = with_log()
    local size = #disk:read(file(3, "log")) // 3
    disk:damage(file(3, "log"), { flip = 8 * (size + 65) })
    local findings = log:verify()
    assert.equal("CORRUPT_BATCH " .. size, told(findings))
    assert.equal(4, findings[1].offset)
    assert.equal(file(3, "log"), findings[1].path)
    assert.truthy(findings[1].message:find("checksum"), findings[1].message)
    assert.truthy(findings[1].message:find("goes on at position " .. 2 * size))
    assert.truthy(tostring(findings):find("^1 finding\n  CORRUPT_BATCH: " .. file(3, "log")))
    assert.truthy(tostring(findings[1]):find("^CORRUPT_BATCH: "))
  end)

  it("finds every stretch of damage, and damage at the end", function()
    local disk, log = with_log()
    local size = #disk:read(file(3, "log")) // 3
    disk:damage(file(3, "log"), { zero = { 0, 30 } })
    disk:damage(file(6, "log"), { zero = { 2 * size, size } })
    disk:damage(file(9, "log"), { flip = 8 * 8 + 5 }) -- a size beyond the file
    disk:damage(file(12, "log"), { cut = 2 * size + 3 })
    assert.equal(("CORRUPT_BATCH 0, CORRUPT_BATCH %d, CORRUPT_BATCH 0, " ..
      "FILE_TOO_SHORT %d, CORRUPT_BATCH %d"):format(2 * size, 2 * size + 3, 2 * size),
      told(log:verify()))
  end)

  it("finds damage below the recovery point, which opening does not", function()
    local disk, log = with_log()
    log:close()
    disk:damage(file(3, "log"), { flip = 8 * 100 })
    local again <close> = open(disk)
    assert.equal("CORRUPT_BATCH 73", (told(again:verify()):gsub("%d+", "73")))
    local reader <close> = open(disk, { read_only = true })
    assert.equal(1, damages(reader:verify()))
  end)

  it("finds every bit that is turned over in a closed segment, but for harmless ones",
    function()
      local disk, log = with_log(7)
      log:flush()
      local size = #disk:read(file(0, "log"))
      local batch = size // 3
      for bit = 0, 8 * size - 1 do
        local byte = bit // 8 % batch
        disk:damage(file(0, "log"), { flip = bit })
        local found = damages(log:verify())
        -- The leader epoch is not summed up, and any is as good as any other.
        if byte >= 12 and byte < 16 then
          assert.equal(0, found, bit)
        else
          assert.truthy(found > 0, ("bit %d, byte %d of a batch"):format(bit, byte))
        end
        disk:damage(file(0, "log"), { flip = bit })
      end
      assert.equal("", told(log:verify()))
    end)

  it("is not needed to find a wrong base offset, which no checksum covers", function()
    local disk, log = with_log(10)
    log:close()
    for bit = 0, 63 do
      disk:damage(file(3, "log"), { flip = bit })
      local again = open(disk)
      local seen = {}
      local raised = expect.error("CORRUPT_SEGMENT", function()
        for offset in again:records() do seen[#seen + 1] = offset end
      end)
      assert.equal(file(3, "log"), raised.path)
      assert.same({ 0, 1, 2 }, seen)
      assert.equal(6, again:fetch(6, 1)[1].offset)
      again:close()
      disk:damage(file(3, "log"), { flip = bit })
    end
  end)

  it("finds every bit that is turned over in an index", function()
    local disk, log = with_log(7)
    log:flush()
    for _, suffix in ipairs{ "index", "timeindex" } do
      local size = #disk:read(file(0, suffix))
      assert.truthy(size > 12)
      for bit = 0, 8 * size - 1 do
        disk:damage(file(0, suffix), { flip = bit })
        local findings = log:verify()
        assert.equal("(CORRUPT_INDEX)", (told(findings):gsub(" %d+", "")), bit)
        assert.equal(file(0, suffix), findings[1].path)
        disk:damage(file(0, suffix), { flip = bit })
      end
    end
    assert.equal("", told(log:verify()))
  end)

  it("takes an index that is missing or short for a note: it is made anew", function()
    local disk, log = with_log(7)
    disk:damage(file(0, "index"), { cut = 8 })
    disk:damage(file(3, "timeindex"), { cut = 0 })
    local findings = log:verify()
    assert.equal("(INDEX_MISSING), (INDEX_MISSING)", told(findings))
    assert.truthy(tostring(findings):find("\n  note INDEX_MISSING: "))
  end)

  it("looks at the state file, and at what else is in the directory", function()
    local disk, log = with_log(12)
    log:close()
    log = open(disk)
    local state = disk:read(DIR .. "/minikafka.state")
    disk:write(DIR .. "/minikafka.state", "x" .. state)
    assert.equal("STATE_DAMAGED", told(log:verify()))
    disk:write(DIR .. "/minikafka.state", state)
    assert.equal("", told(log:verify()))
    disk:write(file(1, "log"), "")
    disk:write(file(1, "index"), "")
    disk:write(file(50, "log.deleted"), "")
    disk:write(DIR .. "/a stranger", "")
    disk:write(DIR .. "/below/it", "")
    disk:write(DIR .. "/partition.metadata", "version: 0\n")
    disk:write(DIR .. "/leader-epoch-checkpoint", "0\n0\n")
    disk:write(("%s/%020d.snapshot"):format(DIR, 12), "")
    assert.equal("(STRANGE_FILE), STRANGE_SEGMENT, (LEFTOVER_FILE), (STRANGE_FILE), " ..
      "(STRANGE_FILE)", told(log:verify()))
  end)

  it("tells a reader where its log ends early, and why", function()
    local disk = with_log(16)
    disk:crash{ keep = "kill9" }
    disk:damage(file(3, "log"), { flip = 8 * 20 })
    expect.error("CORRUPT_SEGMENT", open, disk)
    local log = open(disk, { read_only = true })
    assert.equal(3, log.log_end_offset)
    assert.equal(true, log:stats().ends_early)
    assert.truthy(tostring(log):find("ends early", 1, true))
    local findings = log:verify()
    assert.equal("CORRUPT_BATCH 0, STRANGE_SEGMENT, STRANGE_SEGMENT, STRANGE_SEGMENT, " ..
      "STRANGE_SEGMENT", told(findings))
    assert.equal(file(3, "log"), findings[1].path)
    assert.equal(3, findings[1].offset)
    assert.truthy(findings[1].message:find("the log goes on at position ", 1, true))
    minikafka.repair(DIR, { io = disk, apply = true })
    log:refresh()
    assert.equal(16, log.log_end_offset)
    assert.equal(false, log:stats().ends_early)
    assert.is_nil(tostring(log):find("ends early", 1, true))
    assert.equal("", told(log:verify()))
  end)

  it("finds nothing in a log that another handle changes meanwhile", function()
    local disk, log = with_log(16)
    local reader = open(disk, { read_only = true })
    for _, change in ipairs{
      function() for i = 1, 4 do log:append_kv("k", "v" .. i, 9) end end,
      function() minikafka.LogCompactor():compact(log) end,
      function() log:delete_records(log.log_end_offset - 2) end,
      function() log:truncate_to(log.log_end_offset - 1) end,
    } do
      assert.equal("", told(reader:verify{ progress = change }))
    end
  end)

  it("finds a log whose file is gone, or goes on behind its end", function()
    local dir = tmp.path()
    local log = minikafka.open(dir, { segment_bytes = 200 })
    for i = 1, 12 do log:append_kv("k", "v" .. i, i) end
    local segments = log.segments
    log:close()
    log = minikafka.open(dir)
    assert(os.remove(segments[2].path))
    tmp.write(segments[3].path, tmp.read(segments[3].path) .. "more")
    local findings = log:verify()
    assert.equal(("FILE_TOO_LONG %d, FILE_MISSING"):format(segments[3].log_bytes),
      told(findings))
    assert.equal(segments[2].path, findings[2].path)
    log:close()
  end)

  it("finds what is no file, by the log that is open or by a reader", function()
    local made = { "mkdir %s", "mkfifo %s", "ln -s /etc/passwd %s" }
    local due = {
      index = "(INDEX_MISSING), (STRANGE_FILE)",
      timeindex = "(INDEX_MISSING), (STRANGE_FILE)",
      log = "(STRANGE_FILE), FILE_MISSING",
    }
    for _, command in ipairs(made) do
      for suffix, findings in pairs(due) do
        local dir = tmp.path()
        local log <close> = minikafka.open(dir,
          { segment_bytes = 250, index_interval_bytes = 0, max_open_files = 1 })
        for i = 1, 16 do log:append_kv("k", ("v%02d"):format(i), i) end
        log:flush()
        local second = log.segments[2].path:gsub("log$", suffix)
        assert(os.remove(second))
        assert(os.execute(command:format(tmp.quote(second))))
        assert.equal(findings, told(log:verify()), command .. suffix)
        if suffix ~= "log" then
          local reader <close> = minikafka.open(dir, { read_only = true })
          assert.equal(findings, told(reader:verify()), command .. suffix)
        end
        assert(os.execute("rm -rf " .. tmp.quote(second)))
      end
    end
  end)

  it("tells its progress, may be ended by it, and checks its arguments", function()
    local _, log = with_log()
    local last, total = 0, nil
    log:verify{ progress = function(done, all)
      assert.truthy(done >= last and done <= all)
      last, total = done, all
      expect.error("BUSY", log.append_kv, log, "k", "v", 1)
    end }
    assert.equal(total, last)
    local cause = {}
    local done, raised = pcall(log.verify, log, { progress = function() error(cause) end })
    assert.equal(false, done)
    assert.equal(cause, raised)
    expect.argument_error("progress", log.verify, log, { progress = 1 })
    expect.error("INVALID_ARGUMENT", log.verify, log, { progres = print })
    expect.error("CLOSED", log.verify, log, { progress = function() log:close() end })
    expect.error("CLOSED", log.verify, log)
  end)

  it("raises what the disk fails with", function()
    local disk, log = with_log()
    disk:fail{ op = "read", path = "*6.log", times = 1 }
    local raised = expect.error("IO", log.verify, log)
    assert.equal(file(6, "log"), raised.path)
    assert.equal("", told(log:verify()))
  end)

  it("finds no damage in what a recovery made of a crash", function()
    local result = minikafka.explore{ profile = "hostile", limit = 30,
      run = function(disk)
        local log = open(disk)
        for i = 1, 7 do log:append_kv("k" .. i % 3, "v" .. i, i) end
        log:flush()
        minikafka.LogCompactor():compact(log)
        log:append_kv("k", "v")
        log:truncate_to(5)
        log:close()
      end,
      check = function(disk)
        local log = open(disk)
        local findings = log:verify()
        assert(damages(findings) == 0, tostring(findings))
        for i = 1, 6 do log:append_kv("k", "v" .. i, i) end
        findings = log:verify()
        assert(damages(findings) == 0, tostring(findings))
      end }
    assert.truthy(result.distinct > 100)
  end)
end)
