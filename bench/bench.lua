-- minikafka through Lua at the workloads: bench.c says what they are.
--
--   lua5.4 bench/bench.lua WORKLOAD DIR SCALE REPS
--
--   W1        an appender's append_kv, batches of 500
--   W2        log:append_kv
--   W4        for offset, key, value in log:records()
--   W5        log:fetch(offset, 1)
--   W3        log:append(record, { durable = true })
--   W7        minikafka.open after a clean close
--   W8        log:delete_records
--
-- Finds this checkout's build by its own path. The collector stays as the
-- interpreter has it; "W4-incremental" has the mode in which a host's Lua
-- states begin.

local root = arg[0]:match("^(.*)/bench/[^/]*$") or "."
local build = os.getenv("MINIKAFKA_BUILD") or root .. "/build/release"

package.path = ("%s/lua/?.lua;%s/lua/?/init.lua;%s"):format(root, root, package.path)
package.cpath = ("%s/?.so;%s"):format(build, package.cpath)

local core = require "bench_core"
local minikafka = require "minikafka"

if #arg ~= 4 then
    io.stderr:write("usage: lua5.4 bench/bench.lua WORKLOAD DIR SCALE REPS\n")
    os.exit(2)
end

local workload, directory = arg[1], arg[2]
local scale, repetitions = tonumber(arg[3]), math.tointeger(tonumber(arg[4]))
local run = core.run("minikafka-lua", workload, directory, scale, repetitions)
local touch = core.touch

local setups = {
    { suffix = "", config = "defaults: mapped" },
    { suffix = "-read", config = "mapped = false: read", mapped = false },
}

local function new_log()
    core.clear(directory)
    return minikafka.open(directory)
end

local function open_written(setup)
    return minikafka.open(directory, { mapped = setup.mapped })
end

-- The first `count` keys and values, as two lists.
local function records(count)
    local keys, values = {}, {}
    for i = 1, count do
        keys[i], values[i] = core.key(i - 1), core.value(i - 1)
    end
    return keys, values
end

local function scan(log)
    local sum, count = 0, 0
    for _, key, value in log:records() do
        sum = sum + touch(key, value)
        count = count + 1
    end
    return sum, count
end

---- Appending

local function append_batches(log, keys, values)
    local appender <close> = log:appender { batch_bytes = core.batch_bytes }
    local time_ms = core.time_ms(0) - 1
    for i = 1, #keys do
        appender:append_kv(keys[i], values[i], time_ms + i)
    end
end

local function append_singles(log, keys, values)
    local time_ms = core.time_ms(0) - 1
    for i = 1, #keys do
        log:append_kv(keys[i], values[i], time_ms + i)
    end
end

local function check_batches(log, size)
    for batch in log:batches() do
        assert(batch.record_count == size, "a batch of another size")
    end
end

local function measure_append(name, config, append, full, batch)
    local keys, values = records(core.count(full, scale))
    collectgarbage()
    for repetition = 0, repetitions - 1 do
        local log = new_log()
        run:start()
        append(log, keys, values)
        run:stop()
        local disk_bytes = core.disk_bytes(directory)
        local sum, count = scan(log)
        check_batches(log, batch)
        run:tell_rate({
            workload = name, config = config, repetition = repetition,
            disk_bytes = disk_bytes, checksum = sum,
        }, count)
        -- What was not to be synced is not synced by the closing.
        core.clear(directory)
        assert(not pcall(log.close, log))
    end
end

---- Reading

-- Leaves a new log behind and as little as can be in this Lua state: others'
-- strings slow down the making of new ones.
local function write_log(full, options)
    local count = core.count(full, scale)
    local log <close> = new_log()
    local append_kv, target = log.append_kv, log
    local appender <close> = options and log:appender(options)
    if appender then append_kv, target = appender.append_kv, appender end
    for i = 0, count - 1 do
        append_kv(target, core.key(i), core.value(i), core.time_ms(i))
    end
    return count
end

local function measure_scan(setup, suffix)
    local log <close> = open_written(setup)
    for repetition = -1, repetitions - 1 do
        collectgarbage()
        run:start()
        local sum, count = scan(log)
        run:stop()
        run:tell_rate({
            workload = "W4" .. setup.suffix .. (suffix or ""), config = setup.config,
            repetition = repetition, disk_bytes = core.disk_bytes(directory), checksum = sum,
        }, count)
    end
end

local function fetch_many(log, order, reads, count)
    local sum = 0
    for j = 0, reads - 1 do
        local record = log:fetch(order(j, count), 1)[1]
        sum = sum + touch(record.key, record.value)
    end
    return sum
end

-- Tells of `reads` that were measured.
local function tell_reads(name, setup, repetition, reads, seconds, sum)
    run:tell {
        workload = name .. setup.suffix, unit = "op/s", value = reads / seconds,
        config = setup.config, repetition = repetition,
        disk_bytes = core.disk_bytes(directory), checksum = sum,
    }
end

local function measure_reads(name, setup, log, count, repetition)
    local reads = core.count(core.reads, scale)
    collectgarbage()
    run:start()
    local sum = fetch_many(log, core.read, reads, count)
    tell_reads(name, setup, repetition, reads, run:stop(), sum)
end

-- Reads each batch once since the log was opened, several times over.
local function measure_cold(setup, count, repetition)
    local reads = count // core.batch
    local sum, seconds
    for pass = 1, core.cold_passes do
        local log <close> = open_written(setup)
        collectgarbage()
        if pass == 1 then run:start() else run:resume() end
        sum = fetch_many(log, core.first_read, reads, count)
        seconds = run:stop()
    end
    tell_reads("W5-cold", setup, repetition, reads * core.cold_passes, seconds, sum)
end

-- Reads where nothing is known of a batch, and where it was met before.
local function measure_fetch(setup, count)
    for repetition = 0, repetitions - 1 do
        measure_cold(setup, count, repetition)
        local log <close> = open_written(setup)
        fetch_many(log, core.first_read, count // core.batch, count)
        measure_reads("W5", setup, log, count, repetition)
    end
end

local function measure_fetch_single(setup, count)
    for repetition = 0, repetitions - 1 do
        local log <close> = open_written(setup)
        measure_reads("W5-single", setup, log, count, repetition)
    end
end

---- The disk

local durable = { durable = true }

-- The first `count` records, as lists of `size` of them.
local function groups(count, size)
    local list = {}
    for first = 0, count - 1, size do
        local group = {}
        for i = first, first + size - 1 do
            group[#group + 1] = {
                key = core.key(i), value = core.value(i), timestamp_ms = core.time_ms(i),
            }
        end
        list[#list + 1] = group
    end
    return list
end

local function measure_synced(name, list, repetition)
    local log <close> = new_log()
    collectgarbage()
    run:start()
    for _, group in ipairs(list) do log:append(group, durable) end
    run:stop()
    local disk_bytes = core.disk_bytes(directory)
    local sum, count = scan(log)
    run:tell_rate({
        workload = name, config = "log:append, durable", repetition = repetition,
        disk_bytes = disk_bytes, checksum = sum, syncs = #list,
    }, count)
end

-- A new log of `count` segments of 1 MiB.
local function fill_segments(count)
    core.clear(directory)
    local log = minikafka.open(directory, { segment_bytes = core.segment_bytes })
    local appender <close> = log:appender { batch_bytes = core.batch_bytes }
    local key, value = core.key(0), core.value(0)
    while #log.segments < count do
        for _ = 1, core.batch do appender:append_kv(key, value, core.time_ms(0)) end
    end
    return log
end

local function measure_open(repetition)
    local before = core.descriptors()
    run:start()
    local log = minikafka.open(directory, { segment_bytes = core.segment_bytes })
    local seconds = run:stop()
    run:tell {
        workload = "W7-1000-clean", unit = "ms", value = seconds * 1e3, repetition = repetition,
        config = "minikafka.open", disk_bytes = core.disk_bytes(directory),
        descriptors = core.descriptors() - before,
    }
    log:close()
end

local function measure_drop(count, repetition)
    local log <close> = fill_segments(count)
    local middle = log.segments[count // 2 + 1].base_offset
    run:start()
    log:delete_records(middle)
    run:tell {
        workload = "W8", unit = "ms", value = run:stop() * 1e3, repetition = repetition,
        config = "log:delete_records", disk_bytes = core.disk_bytes(directory),
    }
end

---- Workloads

local workloads = {}

function workloads.W1()
    measure_append("W1", "appender:append_kv", append_batches, core.bulk, core.batch)
end

function workloads.W2()
    measure_append("W2", "log:append_kv, defaults", append_singles, core.singles, 1)
end

function workloads.W4()
    write_log(core.bulk, { batch_bytes = core.batch_bytes })
    for _, setup in ipairs(setups) do measure_scan(setup) end
    collectgarbage("incremental")
    for _, setup in ipairs(setups) do measure_scan(setup, "-incremental") end
end

function workloads.W5()
    local count = write_log(core.bulk, { batch_bytes = core.batch_bytes })
    for _, setup in ipairs(setups) do measure_fetch(setup, count) end
    count = write_log(core.singles)
    for _, setup in ipairs(setups) do measure_fetch_single(setup, count) end
end

function workloads.W3()
    local singles = groups(core.count(core.synced, scale), 1)
    local many = groups(core.groups(scale) * core.group, core.group)
    for repetition = 0, repetitions - 1 do
        measure_synced("W3", singles, repetition)
        measure_synced("W3-group", many, repetition)
    end
end

function workloads.W7()
    fill_segments(core.segments(scale)):close()
    for repetition = -1, repetitions - 1 do measure_open(repetition) end
end

function workloads.W8()
    for repetition = 0, repetitions - 1 do measure_drop(core.segments(scale), repetition) end
end

if not workloads[workload] then os.exit(core.not_ours) end
workloads[workload]()
core.remove(directory)
