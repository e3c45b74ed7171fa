-- Workloads: the same records for the same seed, with the shares that were
-- asked for.

local minikafka = require "minikafka"
local expect = require "spec.support.expect"
local tmp = require "spec.support.tmp"

local keys = minikafka.keys

local function open(clock)
  return minikafka.open(tmp.path(), { clock = clock or minikafka.ManualClock() })
end

-- Everything in a log, as one string.
local function text(log)
  local lines = {}
  for offset, key, value, timestamp_ms in log:records() do
    lines[#lines + 1] = ("%d %s %s %d"):format(offset, key, value, timestamp_ms)
  end
  return table.concat(lines, "\n")
end

-- What `count` records of a workload with these options are.
local function made(options, count)
  local log <close> = open()
  minikafka.workload(options):run(log, count)
  return text(log)
end

-- How often each key comes in `count` records, and all other shares.
local function shares(options, count)
  local log <close> = open()
  minikafka.workload(options):run(log, count)
  local found = { keys = {}, keyless = 0, tombstones = 0, sizes = {} }
  for _, key, value in log:records() do
    if key then
      found.keys[key] = (found.keys[key] or 0) + 1
    else
      found.keyless = found.keyless + 1
    end
    if value then
      found.sizes[#value] = (found.sizes[#value] or 0) + 1
    else
      found.tombstones = found.tombstones + 1
    end
  end
  return found
end

local function is_near(expected, got)
  assert(math.abs(got - expected) < expected * 0.25 + 5,
    ("%s is not near %s"):format(got, expected))
end

describe("a workload", function()
  after_each(tmp.clean)

  it("is the same for the same seed, and another for another", function()
    local function options(seed)
      return { seed = seed, keys = keys.zipf(50, 1.1), value_bytes = { 5, 20 },
        tombstones = 0.1, keyless = 0.1, interval_ms = { 0, 9 } }
    end
    assert.equal(made(options(1), 200), made(options(1), 200))
    assert.not_equal(made(options(1), 200), made(options(2), 200))
    assert.equal(made({}, 20), made({ seed = 1 }, 20))
  end)

  it("is what it was in the first release", function()
    assert.equal(table.concat({
      "0 key-2 bsNL 0", "1 nil Ee2-G 5", "2 nil 9s3 7",
    }, "\n"), made({ seed = 7, keys = keys.uniform(4), value_bytes = { 3, 9 },
      keyless = 0.3, interval_ms = { 1, 5 } }, 3))
  end)

  it("does not draw from math.random, nor disturb it", function()
    local first = made({ seed = 3 }, 50)
    math.randomseed(5)
    local expected = math.random(1000000)
    math.randomseed(5)
    assert.equal(first, made({ seed = 3 }, 50))
    assert.equal(expected, math.random(1000000))
  end)

  it("goes on where it stopped", function()
    local log <close> = open()
    local workload = minikafka.workload { seed = 4, interval_ms = 3 }
    assert.same({ 0, 29 }, { workload:run(log, 30) })
    assert.same({}, { workload:run(log, 0) })
    assert.same({ 30, 99 }, { workload:run(log, 70) })
    assert.equal(made({ seed = 4, interval_ms = 3 }, 100), text(log))
  end)

  it("has the shares that it was asked for", function()
    local found = shares({ keys = keys.uniform(10), tombstones = 0.2,
      keyless = 0.3, value_bytes = { 7, 9 } }, 2000)
    is_near(600, found.keyless)
    is_near(2000 * 0.7 * 0.2, found.tombstones)
    local names = 0
    for _, count in pairs(found.keys) do
      names = names + 1
      is_near(140, count)
    end
    assert.equal(10, names)
    local values = 2000 - found.tombstones
    for size, count in pairs(found.sizes) do
      assert(size >= 7 and size <= 9)
      is_near(values / 3, count)
    end
  end)

  it("has all or nothing, where that was asked for", function()
    local found = shares({ keyless = 1, tombstones = 1 }, 100)
    assert.equal(100, found.keyless)
    assert.equal(0, found.tombstones) -- Those need a key.
    found = shares({ tombstones = 1 }, 100)
    assert.equal(100, found.tombstones)
    found = shares({}, 100)
    assert.same({ 0, 0, 100 }, { found.keyless, found.tombstones,
      found.sizes[100] })
    found = shares({ value_bytes = 0 }, 10)
    assert.equal(10, found.sizes[0])
    found = shares({ value_bytes = 200000 }, 3)
    assert.equal(3, found.sizes[200000])
  end)

  it("moves a ManualClock on, and is stamped by it", function()
    local clock = minikafka.ManualClock(1000)
    local log <close> = open(clock)
    minikafka.workload { interval_ms = 10 }:run(log, 5)
    assert.equal(1050, clock:now_ms())
    for offset, _, _, timestamp_ms in log:records() do
      assert.equal(1000 + offset * 10, timestamp_ms)
    end
  end)

  it("stamps its records where the clock is not to be moved", function()
    local log <close> = open(function() return 500 end)
    local workload = minikafka.workload { interval_ms = 10 }
    workload:run(log, 2)
    workload:run(log, 2)
    for offset, _, _, timestamp_ms in log:records() do
      assert.equal(500 + offset * 10, timestamp_ms)
    end
  end)

  it("leaves time alone unless told otherwise", function()
    local clock = minikafka.ManualClock(7)
    local log <close> = open(clock)
    minikafka.workload {}:run(log, 3)
    assert.equal(7, clock:now_ms())
    assert.equal(7, log:fetch(2)[1].timestamp_ms)
  end)

  it("takes any function for keys", function()
    local log <close> = open()
    minikafka.workload { keys = function(random, index)
      local number = random(3)
      assert(number >= 1 and number <= 3 and math.type(number) == "integer")
      assert(random() >= 0 and random() < 1)
      return "mine-" .. index
    end }:run(log, 3)
    assert.same({ "mine-0", "mine-1", "mine-2" }, { log:fetch(0)[1].key,
      log:fetch(1)[1].key, log:fetch(2)[1].key })
  end)

  it("refuses what it cannot do", function()
    for _, options in ipairs { { tombstones = -0.1 }, { keyless = 1.1 },
      { value_bytes = -1 }, { value_bytes = { 5, 4 } }, { interval_ms = -1 },
      { tombstones = 0 / 0 }, { nothing = 1 } } do
      expect.error("INVALID_ARGUMENT", minikafka.workload, options)
    end
    for name, wrong in pairs { seed = "1", keys = 5, value_bytes = 1.5,
      tombstones = "0.5", interval_ms = {} } do
      expect.argument_error(name, minikafka.workload, { [name] = wrong })
    end
    expect.argument_error("workload", minikafka.workload, 5)
    local log <close> = open()
    local workload = minikafka.workload()
    expect.argument_error("run", workload.run, workload, log, "5")
    for _, wrong in ipairs { 5, "log", {}, io.stdout, log:cursor() } do
      expect.argument_error("log", workload.run, workload, wrong, 5)
      expect.argument_error("self", workload.run, wrong, log, 5)
    end
    expect.argument_error("log", workload.run, workload)
    expect.argument_error("self", workload.run)
    expect.error("INVALID_ARGUMENT", workload.run, workload, log, -1)
    assert.equal(0, log.log_end_offset)
  end)
end)

describe("a generator of keys", function()
  after_each(tmp.clean)

  it("makes some keys hotter than others", function()
    local counts = shares({ keys = keys.zipf(100, 1) }, 2000).keys
    -- The sum of 1/1 .. 1/100 is 5.19.
    is_near(2000 / 5.19, counts["key-0"])
    is_near(2000 / 5.19 / 2, counts["key-1"])
    is_near(2000 / 5.19 / 10, counts["key-9"])
    counts = shares({ keys = keys.zipf(10, 0) }, 2000).keys
    for i = 0, 9 do
      is_near(200, counts["key-" .. i])
    end
    assert.is_nil(counts["key-10"])
  end)

  it("goes through keys in order, and round again", function()
    local found = shares({ keys = keys.sequence(4) }, 10).keys
    assert.same({ ["key-0"] = 3, ["key-1"] = 3, ["key-2"] = 2, ["key-3"] = 2 },
      found)
    found = shares({ keys = keys.sequence() }, 100).keys
    assert.equal(1, found["key-99"])
  end)

  it("serves two workloads at once", function()
    local shared = keys.sequence(5)
    local function alone(seed)
      return made({ seed = seed, keys = shared }, 20)
    end
    local expected = { alone(1), alone(2) }
    local logs = { open(), open() }
    local workloads = { minikafka.workload { seed = 1, keys = shared },
      minikafka.workload { seed = 2, keys = shared } }
    for _ = 1, 20 do
      for i = 1, 2 do
        workloads[i]:run(logs[i], 1)
      end
    end
    for i = 1, 2 do
      assert.equal(expected[i], text(logs[i]))
      logs[i]:close()
    end
  end)

  it("is refused where it would have no keys", function()
    for _, name in ipairs { "uniform", "zipf", "sequence" } do
      expect.error("INVALID_ARGUMENT", keys[name], 0)
      expect.error("INVALID_ARGUMENT", keys[name], -1)
      expect.argument_error(name, keys[name], "5")
      expect.argument_error(name, keys[name], 1.5)
    end
    expect.argument_error("uniform", keys.uniform)
    expect.argument_error("zipf", keys.zipf, 5, "1")
    for _, s in ipairs { -1, -0.001, 0 / 0, 1 / 0, -1 / 0 } do
      expect.error("INVALID_ARGUMENT", keys.zipf, 5, s)
    end
  end)
end)
