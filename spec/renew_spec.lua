-- After a sync that failed, what may not have been written is written again: no
-- loss of power meanwhile may harm what was flushed.

local minikafka = require "minikafka"
local expect = require "spec.support.expect"

local DIRECTORY = "/logs/t-0"

local function open(disk) return minikafka.open(DIRECTORY, { io = disk }) end

-- The values in a log, with its end: "a b |2".
local function values(log)
  local list = {}
  for _, _, value in log:records() do
    list[#list + 1] = value
  end
  return table.concat(list, " ") .. " |" .. log.log_end_offset
end

describe("a log that writes again what a failed sync may have lost", function()
  -- Crash the disk at every step of what is done, and open all that may be left.
  local function with_cuts(disk, wanted, act)
    local function look(at)
      for state in disk:crash_states() do
        local found = values(open(state))
        assert(found:find(wanted, 1, true) == 1, at .. ": " .. found)
      end
    end
    disk:trace(function(event)
      look(tostring(event))
      local over = event.op == "write" and event.path:find("%.log$") and event.position < 5000
      assert(not over, event) -- Not every disk harms what is written over.
    end)
    act()
    disk:trace(nil)
    look("at the end")
  end

  local function fail_sync(disk, times)
    disk:fail{ op = "fdatasync", path = "*.log", errno = "ENOSPC", flavour = "retryable",
      times = times }
  end

  -- One record was flushed, which the state does not tell, and one was not; a
  -- sync failed before the process died.
  local function make_unproven(options)
    local disk = minikafka.SimDisk(options)
    local log = open(disk)
    log:append_kv("k", ("a"):rep(5000), 1)
    log:flush()
    log:append_kv("k", "b", 1)
    fail_sync(disk, 1)
    expect.error("IO", log.flush, log)
    disk:crash{ keep = "kill9" }
    return disk
  end

  it("does not write over it when it is opened, on a full disk, too", function()
    local disk = make_unproven{ capacity_bytes = 30000 }
    disk:write(DIRECTORY .. "/minikafka.reserve", "") -- There is not even this.
    disk:write("/ballast", ("b"):rep(30000 - disk:stats().used_bytes))
    local log
    with_cuts(disk, ("a"):rep(5000), function()
      log = open(disk)
      assert.is_true(log:stats().refusing)
      assert.equal(("a"):rep(5000) .. " b |2", values(log))
      local raised = expect.error("IO", log.append_kv, log, "k", "c", 1)
      assert.equal("ENOSPC", raised.errno)
    end)
    disk:write("/ballast", "")
    with_cuts(disk, ("a"):rep(5000), function() log:append_kv("k", "c", 1) end)
    assert.equal(("a"):rep(5000) .. " b c |3", values(log))
    log:close()
  end)

  it("is known to the next opening, though no note of it could be made", function()
    local disk = minikafka.SimDisk()
    local log = open(disk)
    log:append_kv("k", "a", 1)
    log:flush()
    log:append_kv("k", "b", 1)
    disk:fail{ op = "fdatasync", path = "*.log", times = 1, flavour = "lost" }
    disk:fail{ op = "open", path = "*unproven", errno = "ENOSPC" }
    expect.error("IO", log.flush, log)
    disk:crash{ keep = "kill9" }
    log = open(disk)
    log:append({ value = "c" }, { durable = true })
    for state in disk:crash_states() do assert.equal("a b c |3", values(open(state))) end
    assert(table.concat(disk:list(), " "):find("minikafka.reserve", 1, true))
  end)

  it("makes room for a copy by the reserve, or lets records be deleted", function()
    local disk = make_unproven{ capacity_bytes = 30000 }
    disk:write("/ballast", ("b"):rep(30000 - disk:stats().used_bytes))
    local log = open(disk)
    assert.is_false(log:stats().refusing)
    log:close()
    disk = make_unproven{ capacity_bytes = 60000 }
    log = open(disk)
    log:roll()
    log:append_kv("k", ("d"):rep(12000), 1)
    fail_sync(disk, 1)
    expect.error("IO", log.flush, log)
    disk:crash{ keep = "kill9" }
    disk:write("/ballast", ("b"):rep(60000 - disk:stats().used_bytes))
    log = open(disk)
    assert.is_true(log:stats().refusing)
    log:delete_records(2)
    assert.equal(("d"):rep(12000) .. " |3", values(log))
  end)

  it("does not write over it when it heals before it has flushed", function()
    local disk = make_unproven()
    disk:write(DIRECTORY .. "/minikafka.unproven", "")
    fail_sync(disk, 2)
    local log = open(disk)
    assert.is_true(log:stats().refusing)
    with_cuts(disk, ("a"):rep(5000), function()
      expect.error("IO", log.append_kv, log, "k", "c", 1)
      log:append_kv("k", "c", 1)
    end)
    assert.equal(("a"):rep(5000) .. " b c |3", values(log))
    log:close()
  end)

  it("does not write over it when a truncation made it forget what was flushed", function()
    local disk = minikafka.SimDisk()
    local log = open(disk)
    log:append_kv("k", ("a"):rep(5000), 1)
    for _ = 1, 2 do log:append_kv("k", "b", 1) end
    log:flush()
    fail_sync(disk, 1)
    with_cuts(disk, ("a"):rep(5000) .. " b", function()
      expect.error("IO", log.truncate_to, log, 2)
      log:append_kv("k", "c", 1)
    end)
    assert.equal(("a"):rep(5000) .. " b c |3", values(log))
    log:close()
  end)
end)
