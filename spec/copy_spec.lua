-- log:copy_to: what a copy has, when it may be made, and that a copy and its
-- original, which share files, are then two logs.

local minikafka = require "minikafka"
local expect = require "spec.support.expect"
local state = require "spec.support.state"
local tmp = require "spec.support.tmp"

local A, B = "/logs/orders", "/copies/orders"

-- A log of some segments: 16 records, each the newest of 5 keys; one segment
-- holds two batches.
local function fill(log)
  for i = 1, 16 do
    log:append{ { key = "k" .. i % 5, value = ("v%d"):format(i), timestamp_ms = i } }
  end
end

local function open(disk, dir, options)
  options = options or {}
  options.io = disk
  options.segment_bytes = options.segment_bytes or 170
  options.index_interval_bytes = options.index_interval_bytes or 0
  return minikafka.open(dir or A, options)
end

local function with_log(options)
  local disk = minikafka.SimDisk(options)
  local log = open(disk)
  fill(log)
  return disk, log
end

local function text_of(disk, dir)
  local log <close> = open(disk, dir, { create = false })
  return state.text(state.of(log))
end

local function files_of(disk, dir)
  local found = {}
  for _, path in ipairs(disk:list()) do
    local name = path:match("^" .. dir .. "/(.+)$")
    if name and not name:find("%.lock$") then
      found[#found + 1] = ("%s %q"):format(name, disk:read(path))
    end
  end
  return table.concat(found, "\n")
end

local function count_of(disk, pattern)
  local count = 0
  for _, path in ipairs(disk:list()) do
    if path:find(pattern) then count = count + 1 end
  end
  return count
end

describe("copy_to", function()
  after_each(tmp.clean)

  it("makes a log that has the same, all of it on stable storage", function()
    local disk, log = with_log()
    local before = disk:stats().used_bytes
    log:copy_to(B)
    -- Sealed segments are shared: there are the last one and the state anew.
    local new = disk:stats().used_bytes - before
    assert.truthy(new < 170 + 1500, new)
    local copy <close> = open(disk, B, { create = false })
    assert.equal(state.text(state.of(log)), state.text(state.of(copy)))
    assert.equal(log.log_end_offset, copy.recovery_point)
    assert.equal(0, copy:stats().recovered_bytes)
    assert.equal(0, count_of(disk, "/minikafka%.copy"))
    disk:crash{ keep = "lazy" }
    assert.equal(16, #open(disk, B, { create = false }):fetch(0))
  end)

  it("works on real files, below a directory that is missing", function()
    local log <close> = open(nil, tmp.path())
    fill(log)
    local dir = tmp.path() .. "/some/where"
    log:copy_to(dir)
    local copy <close> = open(nil, dir, { create = false })
    assert.equal(state.text(state.of(log)), state.text(state.of(copy)))
    local shared = assert(io.popen("stat -c %h " .. tmp.quote(log.segments[1].path)))
    assert.equal("2", shared:read("l"))
    shared:close()
  end)

  it("copies the log start, an end that truncation left, and an empty log", function()
    local disk, log = with_log()
    log:delete_records(5)
    log:truncate_to(11)
    log:append_kv("after", "truncation", 1)
    log:truncate_to(11)
    log:copy_to(B)
    assert.equal(state.text(state.of(log)), text_of(disk, B))
    log:delete_records(11)
    log:copy_to("/copies/empty")
    local copy <close> = open(disk, "/copies/empty")
    assert.equal(11, copy.log_start_offset)
    assert.equal(11, copy:append_kv("k", "v", 1))
  end)

  it("takes an empty directory, and nothing else that is there", function()
    local disk, log = with_log()
    disk:write(B .. "/stranger", "x")
    disk:write("/copies/file", "x")
    disk:write("/copies/minikafka.old.gone/" .. ("0"):rep(20) .. ".log", "")
    local before = disk:hash()
    for _, dir in ipairs{ B, "/copies/file", A, A .. "/below", "/copies/gone",
      "/copies/minikafka.copy.x", "/" } do
      local raised = expect.error("INVALID_ARGUMENT", log.copy_to, log, dir)
      assert.equal(dir, raised.path)
    end
    assert.equal(before, disk:hash())
    expect.argument_error("directory", log.copy_to, log)
    expect.argument_error("directory", log.copy_to, log, "")
    expect.argument_error("directory", log.copy_to, log, "a\0b")
    expect.argument_error("progress", log.copy_to, log, "/x", { progress = 1 })
    assert.equal("progress", expect.error("INVALID_ARGUMENT", log.copy_to, log, "/x",
      { progres = print }).nearest)
    local dir = tmp.dir()
    local real <close> = open(nil, tmp.path())
    real:copy_to(dir)
    expect.error("INVALID_ARGUMENT", real.copy_to, real, dir)
    log:close()
    expect.error("CLOSED", log.copy_to, log, "/x")
  end)

  it("copies where links fail", function()
    local disk, log = with_log()
    disk:fail{ op = "link", errno = "EXDEV" }
    log:copy_to(B)
    assert.equal(state.text(state.of(log)), text_of(disk, B))
    assert.equal(0, open(disk, B):stats().recovered_bytes)
    disk:crash{ keep = "lazy" }
    assert.equal(16, #open(disk, B, { create = false }):fetch(0))
  end)

  it("may be made of a log that is only read, and beside its writer", function()
    local disk, log = with_log()
    local reader <close> = open(disk, A, { read_only = true })
    log:append_kv("later", "record", 99)
    minikafka.LogCompactor():compact(log)
    reader:copy_to(B)
    assert.equal(state.text(state.of(log)), text_of(disk, B))
    log:delete_records(14)
    reader:copy_to("/copies/second")
    assert.equal(state.text(state.of(log)), text_of(disk, "/copies/second"))
    local nothing <close> = open(disk, "/nothing")
    nothing:close()
    local empty <close> = open(disk, "/nothing", { read_only = true })
    empty:copy_to("/copies/empty")
    assert.equal(0, open(disk, "/copies/empty").log_end_offset)
  end)

  it("may be made inside a callback, and shows the log as it is then", function()
    local disk, log = with_log()
    local before = state.text(state.of(log))
    minikafka.LogCompactor{ before_swap = function() log:copy_to(B) end }:compact(log)
    assert.not_equal(before, state.text(state.of(log)))
    assert.equal(before, text_of(disk, B))
  end)

  it("tells its progress, which may not change the log, and may end it", function()
    local disk, log = with_log()
    local last, total = 0, nil
    log:copy_to(B, { progress = function(done, all)
      assert.truthy(done >= last and done <= all)
      last, total = done, all
      expect.error("BUSY", log.append_kv, log, "k", "v", 1)
      assert.equal(1, #log:fetch(3, 1))
    end })
    assert.equal(total, last)
    local cause = {}
    local done, raised = pcall(log.copy_to, log, "/copies/x", { progress = function()
      error(cause)
    end })
    assert.equal(false, done)
    assert.equal(cause, raised)
    assert.equal(0, count_of(disk, "^/copies/.*x/"))
    assert.equal(0, count_of(disk, "^/copies/minikafka"))
    expect.error("CLOSED", log.copy_to, log, "/copies/y", { progress = function()
      log:close()
    end })
    assert.equal(0, count_of(disk, "^/copies/.*y/"))
  end)

  it("leaves out strangers, and takes along what Kafka has beside the segments", function()
    local disk, log = with_log()
    log:roll()
    disk:write(A .. "/stranger", "x")
    disk:write(A .. "/partition.metadata", "version: 0\n")
    disk:write(A .. "/leader-epoch-checkpoint", "0\n0\n")
    disk:write(A .. "/" .. ("0"):rep(20) .. ".txnindex", "")
    disk:write(A .. ("/%020d.snapshot"):format(16), "s")
    disk:write(A .. ("/%020d.snapshot"):format(17), "s")
    disk:write(A .. "/" .. ("0"):rep(20) .. ".log.deleted", "x")
    log:copy_to(B)
    local names = {}
    for _, path in ipairs(disk:list()) do
      local name = path:match("^" .. B .. "/([^0].*)$")
        or path:match("^" .. B .. "/(.*t)$") or path:match("^" .. B .. "/(.*%.d.*)$")
      names[#names + 1] = name
    end
    assert.equal(("%020d.snapshot leader-epoch-checkpoint minikafka.lock " ..
      "minikafka.state partition.metadata"):format(16), table.concat(names, " "))
    assert.equal(1, count_of(disk, B .. "/.*txnindex"))
  end)
end)

describe("a copy and its original", function()
  -- What may be done to a log; each leaves it open or closed.
  local changes = {
    ["truncation into a sealed segment"] = function(log) log:truncate_to(4) end,
    ["truncation to a batch's edge"] = function(log) log:truncate_to(6) end,
    ["truncation of all"] = function(log) log:truncate_to(0) end,
    ["delete_records"] = function(log) log:delete_records(7) end,
    ["compaction"] = function(log) minikafka.LogCompactor():compact(log) end,
    ["appends"] = function(log) for i = 1, 5 do log:append_kv("new", "v" .. i, 100) end end,
    ["dropping segments"] = function(log)
      log:delete_closed_segments{ 0, log.segments[2].base_offset }
    end,
  }

  -- What a change to one of two logs may leave of it, and what it may not touch.
  local function check(name, change, changed, other, how)
    local disk, log = with_log()
    log:copy_to(B)
    local expected = files_of(disk, other)
    local shown = text_of(disk:clone(), other)
    if changed == B then
      log:close()
      expected = files_of(disk, A)
      log = open(disk, B)
    end
    change(log)
    log:append_kv("after", "change", 200)
    log:roll()
    log:append_kv("after", "roll", 201)
    local after = state.text(state.of(log))
    if how == "killed" then
      disk:crash{ keep = "kill9" }
    else
      log:close()
    end
    assert.equal(after, text_of(disk:clone(), changed), name)
    if other == B then assert.equal(expected, files_of(disk, other), name) end
    assert.equal(shown, text_of(disk:clone(), other), name)
    -- The other one goes on, and the changed one does not notice.
    local second = open(disk, other)
    second:truncate_to(3)
    second:append_kv("other", "log", 300)
    second:close()
    assert.equal(after, text_of(disk:clone(), changed), name)
  end

  for name, change in pairs(changes) do
    it("are two logs: " .. name, function()
      for _, how in ipairs{ "closed", "killed" } do
        check(name, change, A, B, how)
        check(name, change, B, A, how)
      end
    end)
  end

  -- Real files: a segment that others share has become the last one.
  local function with_shared_tail(bytes_more)
    local dir = tmp.path()
    local log = open(nil, dir)
    fill(log)
    local copy = tmp.path()
    log:copy_to(copy)
    local segments = log.segments
    log:close()
    for i = 5, #segments do
      assert(os.remove(segments[i].path))
      os.remove((segments[i].path:gsub("log$", "index")))
    end
    if bytes_more then
      tmp.write(segments[4].path, tmp.read(segments[4].path) .. bytes_more)
    end
    return dir, copy, segments
  end

  it("are two logs where what they share becomes the end of one", function()
    local dir, copy = with_shared_tail()
    local expected = tmp.fingerprint(copy)
    local log = open(nil, dir)
    assert.equal(8, #log:fetch(0))
    log:append_kv("k", "v", 1)
    log:close()
    assert.equal(expected, tmp.fingerprint(copy))
    assert.equal(9, #open(nil, dir):fetch(0))
  end)

  it("are two logs where that end is torn", function()
    local dir, copy, segments = with_shared_tail("torn")
    local expected = tmp.fingerprint(copy)
    local log = open(nil, dir)
    assert.equal(8, #log:fetch(0))
    assert.equal(segments[4].log_bytes, #tmp.read(segments[4].path))
    log:append_kv("k", "v", 1)
    log:close()
    assert.equal(expected, tmp.fingerprint(copy))
    assert.equal(9, #open(nil, dir):fetch(0))
  end)

  it("are two logs where an index is made anew", function()
    local disk, log = with_log()
    log:copy_to(B)
    log:close()
    local index = ("%s/%020d.index"):format(A, 0)
    disk:damage(index, { cut = 4 })
    local broken = disk:read(("%s/%020d.index"):format(B, 0))
    local again <close> = open(disk)
    assert.equal(16, #again:fetch(0))
    assert.truthy(#disk:read(index) > 4)
    assert.equal(broken, disk:read(("%s/%020d.index"):format(B, 0)))
  end)
end)

describe("a copy that fails", function()
  it("leaves the log, and no copy, and can be made then", function()
    local steps
    do
      local disk, log = with_log()
      local before = disk:stats().steps
      log:copy_to(B)
      steps = disk:stats().steps - before
    end
    local failed = 0
    for after = 0, steps - 1 do
      for _, errno in ipairs{ "EIO", "ENOSPC" } do
        local disk, log = with_log()
        local before = state.text(state.of(log))
        disk:fail{ after = after, times = 1, errno = errno }
        local done, raised = pcall(log.copy_to, log, B)
        if not done then
          failed = failed + 1
          assert.truthy(minikafka.is_error(raised, "IO"), tostring(raised))
          assert.equal(0, count_of(disk, "^" .. B .. "/"))
          log:copy_to(B)
        end
        assert.equal(before, state.text(state.of(log)))
        assert.equal(before, text_of(disk, B))
        log:append_kv("still", "writes", 1)
      end
    end
    assert.truthy(failed > steps)
  end)

  it("leaves no copy where all that follows fails, too", function()
    for after = 0, 100, 3 do
      local disk, log = with_log()
      disk:fail{ after = after, errno = "EIO" }
      local done = pcall(log.copy_to, log, B)
      local found = disk:clone()
      if not done then
        expect.error("NOT_FOUND", open, found, B, { create = false })
        local again <close> = open(found, A)
        again:copy_to(B)
        assert.equal(16, #open(found, B):fetch(0))
      end
    end
  end)

  it("cut short at any step leaves the log, and a whole copy or none", function()
    local text
    local result = minikafka.explore{ profile = "hostile", limit = 40,
      setup = function(disk)
        local log <close> = open(disk)
        for i = 1, 6 do log:append_kv("k" .. i, "v" .. i, i) end
        text = state.text(state.of(log))
      end,
      run = function(disk, ack)
        local log = open(disk)
        log:copy_to(B)
        ack()
      end,
      check = function(disk, acked)
        local log <close> = open(disk, A)
        assert(state.text(state.of(log)) == text, "the log has changed")
        local there, copy = pcall(open, disk, B, { create = false })
        if there then
          assert(state.text(state.of(copy)) == text, "the copy is not whole")
          copy:close()
        else
          assert(minikafka.is_error(copy, "NOT_FOUND"), tostring(copy))
          assert(#acked == 0, "the copy is lost")
          log:copy_to(B)
          assert(text_of(disk, B) == text)
        end
      end }
    assert.truthy(result.distinct > 100)
  end)
end)
