-- Appenders: what is in a batch and when it goes, what a flush acknowledges, and
-- that every record is stored once, with its own time.

local minikafka = require "minikafka"
local expect = require "spec.support.expect"
local tmp = require "spec.support.tmp"

local function open(options)
  return minikafka.open(tmp.path(), options)
end

local function keys_of(log)
  local keys = {}
  for _, key in log:records() do
    keys[#keys + 1] = key
  end
  return table.concat(keys, " ")
end

local function times_of(log)
  local times = {}
  for _, _, _, timestamp_ms in log:records() do
    times[#times + 1] = timestamp_ms
  end
  return times
end

describe("an appender", function()
  after_each(tmp.clean)

  it("stores a list once, also where the log rolls in its midst", function()
    for _, segment_bytes in ipairs { 250, 300, 400, 700, 2000 } do
      local log <close> = open { segment_bytes = segment_bytes }
      local out <close> = log:appender { batch_bytes = 200 }
      local records = {}
      for i = 1, 10 do
        records[i] = { key = "k" .. i, value = ("x"):rep(60), timestamp_ms = i }
      end
      out:append(records)
      assert.same({ 0, 9 }, { out:flush() })
      assert.equal("k1 k2 k3 k4 k5 k6 k7 k8 k9 k10", keys_of(log))
    end
  end)

  it("stores a list once, also where the clock has to be asked", function()
    local log <close> = open()
    log:append_kv("k0", "v", -1)
    local out <close> = log:appender { batch_bytes = 100 }
    out:append { { key = "k1", timestamp_ms = 1 },
      { key = "k2", value = ("x"):rep(60), timestamp_ms = 2 },
      { key = "k3", timestamp_ms = 3 } }
    out:flush()
    assert.equal("k0 k1 k2 k3", keys_of(log))
  end)

  it("sends a batch as soon as it is full", function()
    local log <close> = open()
    local out <close> = log:appender { batch_bytes = 1 }
    out:append_kv("a", "1")
    assert.equal(1, log.log_end_offset)
    out:append { { value = "2" }, { value = "3" } }
    assert.equal(3, log.log_end_offset)
    -- Of exactly so many bytes.
    out:close()
    log:append_kv("k", ("v"):rep(20))
    local size
    for batch in log:batches(3) do
      size = batch.size_bytes
    end
    for _, case in ipairs { { size, 1 }, { size + 1, 0 } } do
      local exact <close> = log:appender { batch_bytes = case[1] }
      local before = log.log_end_offset
      exact:append_kv("k", ("v"):rep(20))
      assert.equal(before + case[2], log.log_end_offset)
    end
  end)

  it("tells at flush of all since the last flush", function()
    local log <close> = open()
    local out <close> = log:appender { batch_bytes = 200 }
    for i = 1, 20 do
      out:append_kv("k" .. i, ("v"):rep(30))
    end
    assert(log.log_end_offset > 0 and log.log_end_offset < 20)
    assert.same({ 0, 19 }, { out:flush() })
    assert.equal(0, select("#", out:flush()))
    -- What others had it send counts, too.
    out:append_kv("a", "1")
    log:append_kv("b", "2")
    out:append_kv("c", "3")
    log:append_kv("d", "4")
    assert.same({ 20, 22 }, { out:flush() })
    assert.equal(0, select("#", out:flush()))
  end)

  it("takes no options of an append: nothing of them would come true", function()
    local log <close> = open()
    local out <close> = log:appender()
    local raised = expect.error("INVALID_ARGUMENT", out.append, out, { {} },
      { durabel = true })
    assert.equal("durable", raised.nearest)
    expect.error("INVALID_ARGUMENT", out.append, out, { {} },
      { durable = true })
    expect.argument_error("options", out.append, out, { {} }, 5)
    out:append({ {} }, {})
    assert.same({ 0, 0 }, { out:flush() })
  end)

  it("takes an empty batch for none, as its log does", function()
    local log <close> = open()
    local out <close> = log:appender()
    expect.error("INVALID_RECORD", out.append, out, {})
    out:append { {} }
    assert.same({ 0, 0 }, { out:flush() })
  end)

  it("is sent by the closing of its log, whatever else happened", function()
    local log = open()
    log:close()
    log = minikafka.open(log.directory)
    local out = log:appender()
    out:append_kv("k", "v", 1)
    log:close()
    out:close()
    log = minikafka.open(log.directory)
    assert.equal("k", keys_of(log))
    log:close()
  end)

  it("keeps a full batch's last record out if it cannot be sent", function()
    local disk = minikafka.SimDisk()
    local log <close> = minikafka.open("/log", { io = disk })
    local out <close> = log:appender { batch_bytes = 150 }
    out:append_kv("a", ("v"):rep(30))
    disk:fail { op = "write", path = "*.log", times = 1 }
    expect.error("IO", out.append_kv, out, "b", ("v"):rep(200))
    out:append_kv("c", "1")
    out:flush()
    disk:fail { op = "write", path = "*.log", times = 1 }
    expect.error("IO", out.append_kv, out, "d", ("v"):rep(200))
    assert.equal(0, select("#", out:flush()))
    assert.equal("a c", keys_of(log))
  end)
end)

describe("the times of an appender's records", function()
  after_each(tmp.clean)

  it("are the log's with LogAppendTime, whoever sends them", function()
    for name, send in pairs {
      flush = function(_, out) out:flush() end,
      close = function(_, out) out:close() end,
      append = function(log) log:append { {} } end,
      append_kv = function(log) log:append_kv("k", "v", 4) end,
      roll = function(log) log:roll() end,
      log_flush = function(log) log:flush() end,
      another = function(log)
        local other <close> = log:appender()
        other:append_kv("k", "v", 4)
        other:flush()
      end,
      full = function(_, out) out:append_kv("k", ("v"):rep(20000), 4) end,
    } do
      local clock = minikafka.ManualClock(500)
      local log <close> = open { clock = clock,
        message_timestamp_type = "LogAppendTime" }
      local out <close> = log:appender()
      out:append_kv("k", "v", 3)
      clock:advance_ms(1)
      send(log, out)
      for _, timestamp_ms in ipairs(times_of(log)) do
        assert.equal(501, timestamp_ms, name)
      end
      assert.is_not_nil((log:fetch(0))[1], name)
    end
  end)

  it("are their own again once the setting is", function()
    local log <close> = open { message_timestamp_type = "LogAppendTime",
      clock = minikafka.ManualClock(500) }
    local out <close> = log:appender()
    out:append_kv("k", "v", 3)
    out:flush()
    log:configure { message_timestamp_type = "CreateTime" }
    out:append { { timestamp_ms = 1 }, { timestamp_ms = 2 } }
    out:flush()
    assert.same({ 500, 1, 2 }, times_of(log))
  end)

  it("count for flush_ms, whatever they are", function()
    local clock = minikafka.ManualClock(500)
    local log <close> = open { clock = clock, flush_ms = 10 }
    local out <close> = log:appender()
    out:append_kv("k", "v", 3)
    clock:advance_ms(10)
    out:flush()
    assert.equal(1, log.recovery_point)
  end)
end)
