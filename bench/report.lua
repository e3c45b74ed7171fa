-- Runs the bare machine's loops, minikafka from C and minikafka through Lua
-- side by side, and prints each figure's ratio to the bare machine's.
--
--   lua5.4 bench/report.lua [--rounds 5] [--scale 1] [--workload W1,W2]
--                           [--dir DIR] [--out FILE]
--
-- Every round runs each program once in a process of its own, so that whatever
-- else the machine does meets all of them. The table has medians; its ratio by
-- CPU time stays true where others use the processors, too, but leaves out
-- waiting. FILE gets a
-- line of JSON for the machine, for each figure of each round, and for each
-- median. Ends with status 1 when two programs have read different records, or
-- one has failed; never because something was slow.

local root = arg[0]:match("^(.*)/bench/[^/]*$") or "."
local build = os.getenv("MINIKAFKA_BUILD") or root .. "/build/release"
local lua = arg[-1] or "lua5.4"

local options = {
    rounds = "5", scale = "1", workload = "W1,W2,W3,W4,W5,W7,W8",
    dir = build .. "/bench-data", out = build .. "/bench.jsonl",
}

local peers = {
    { name = "bare", command = ("'%s/bench-limit'"):format(build) },
    { name = "minikafka", command = ("'%s/bench'"):format(build) },
    { name = "minikafka-lua", command = ("%s '%s/bench/bench.lua'"):format(lua, root) },
}

-- What is to be reached, as a ratio to the bare machine in the same run: where
-- less time is better, at most that; a value is in the workload's own unit.
local goals = {
    minikafka = {
        W1 = 0.85, W2 = 3.0, W3 = 0.9, ["W3-group"] = 0.9, W4 = 0.95, ["W4-read"] = 0.85,
        W5 = 6, ["W5-cold"] = 0.7, ["W5-single"] = 1.0,
        ["W7-1000-clean"] = 1.5, ["W7-1000-kill"] = 1.2, W8 = 1.3,
    },
    ["minikafka-lua"] = { W1 = 0.35, W2 = 1.5, W4 = 0.12 },
}
local value_goals = { minikafka = { ["W7-1000-kill-rp"] = 10 } }

-- What a workload is held against, where that is not the one of its name.
local against = { ["W3-group"] = "W3-group-fallocate" }

local less_is_better = { ms = true }

local function parse_arguments()
    for i = 1, #arg, 2 do
        local name = arg[i]:match("^%-%-(%l+)$")
        if not name or not options[name] or not arg[i + 1] then
            io.stderr:write("usage: report.lua [--rounds N] [--scale X] [--workload W1,...] ",
                "[--dir DIR] [--out FILE]\n")
            os.exit(2)
        end
        options[name] = arg[i + 1]
    end
end

---- Lines

-- Our own programs' lines only: flat, without escapes.
local function decode(line)
    local figure = {}
    for name, text in line:gmatch '"([%w_]+)":"([^"]*)"' do figure[name] = text end
    for name, number in line:gmatch '"([%w_]+)":([^",}]+)' do figure[name] = tonumber(number) end
    return figure
end

local function encode(figure, names)
    local parts = {}
    for _, name in ipairs(names) do
        local value = figure[name]
        if type(value) == "string" then
            value = '"' .. value:gsub('[%c"\\]', " ") .. '"'
        elseif value then
            value = ("%.6g"):format(value)
        end
        if value then parts[#parts + 1] = ('"%s":%s'):format(name, value) end
    end
    return "{" .. table.concat(parts, ",") .. "}"
end

local function first_match(path, pattern)
    local file <close> = io.open(path)
    return file and file:read("a"):match(pattern)
end

local function machine()
    return {
        cpu = first_match("/proc/cpuinfo", "model name%s*:%s*([^\n]*)") or "unknown",
        kernel = first_match("/proc/sys/kernel/osrelease", "[^\n]*") or "unknown",
        load = tonumber(first_match("/proc/loadavg", "^%S+")),
        scale = tonumber(options.scale), rounds = tonumber(options.rounds),
        time = os.date "!%Y-%m-%dT%H:%M:%SZ",
    }
end

---- Running

local failed = false

-- What the figure would be if only the processor's time counted.
local function cpu_value(figure)
    local part = figure.cpu_seconds / figure.seconds
    return less_is_better[figure.unit] and figure.value * part or figure.value / part
end

-- Runs one program once; its figures go to `out` and, by name, to `results`.
local function measure(peer, workload, results, out)
    local command = ("%s %s '%s' %s 1"):format(peer.command, workload, options.dir, options.scale)
    local pipe = assert(io.popen(command))
    for line in pipe:lines() do
        if line:sub(1, 1) == "{" then
            local figure = decode(line)
            local key = figure.peer .. " " .. figure.workload .. " " .. figure.unit
            local list = results[key]
            if not list then
                list = { first = figure, checksums = {}, cpu = {} }
                results[key], results[#results + 1] = list, list
            end
            list[#list + 1] = figure.value
            list.cpu[#list.cpu + 1] = cpu_value(figure)
            if figure.checksum then list.checksums[figure.checksum] = true end
            out:write(line, "\n")
        end
    end
    if not pipe:close() then
        io.stderr:write("failed: ", command, "\n")
        failed = true
    end
end

local function run_all(out)
    local results = {}
    for workload in options.workload:gmatch "[^,]+" do
        for round = 1, tonumber(options.rounds) do
            io.stderr:write(("%s, round %d of %s\n"):format(workload, round, options.rounds))
            for _, peer in ipairs(peers) do
                measure(peer, workload, results, out)
            end
        end
    end
    return results
end

---- Judging

local function median(list)
    local sorted = table.move(list, 1, #list, 1, {})
    table.sort(sorted)
    local middle = (#sorted + 1) // 2
    return (sorted[middle] + sorted[#sorted + 1 - middle]) / 2, sorted[1], sorted[#sorted]
end

-- The bare machine's list for a workload: that of the same name, or of a
-- shorter one ("W5-cold-read" is held against "W5").
local function limit_of(results, figure)
    local name = against[figure.workload] or figure.workload
    while name do
        local list = results["bare " .. name .. " " .. figure.unit]
        if list then return list end
        name = name:match "^(.*)%-[^-]*$"
    end
end

-- The median of the rounds' ratios: what slows down a round slows down both.
local function ratio_of(list, limit)
    local ratios = {}
    for i = 1, math.min(#list, #limit) do ratios[i] = list[i] / limit[i] end
    return (median(ratios))
end

-- Was a goal reached? Nothing where there is none.
local function judge(row)
    local value = (value_goals[row.peer] or {})[row.workload]
    local ratio = (goals[row.peer] or {})[row.workload]
    if row.unit == "MB/s" or not (value or ratio and row.ratio) then return end
    row.goal = value and ("%g %s"):format(value, row.unit) or ("%g"):format(ratio)
    local is, wanted = value and row.value or row.ratio, value or ratio
    if less_is_better[row.unit] then return is <= wanted end
    return is >= wanted
end

local function summarize(results)
    local rows = {}
    for _, list in ipairs(results) do
        local figure = list.first
        local value, low, high = median(list)
        local limit = limit_of(results, figure)
        local row = {
            peer = figure.peer, workload = figure.workload, unit = figure.unit,
            value = value, min = low, max = high, config = figure.config,
            rss_kb = figure.rss_kb, disk_bytes = figure.disk_bytes, fds = figure.fds,
            syncs_per_s = figure.syncs_per_s,
            ratio = limit and ratio_of(list, limit),
            cpu_ratio = limit and ratio_of(list.cpu, limit.cpu),
        }
        row.reached = judge(row)
        rows[#rows + 1] = row
    end
    return rows
end

local function short(value)
    if value >= 1e6 then return ("%.2f M"):format(value / 1e6) end
    if value >= 1e4 then return ("%.0f k"):format(value / 1e3) end
    return value >= 100 and ("%.0f"):format(value) or ("%.3g"):format(value)
end

-- A ratio to the bare machine's figure; that of itself says nothing.
local function ratio_text(row, ratio)
    return row.peer ~= "bare" and ratio and ("%.3g"):format(ratio) or ""
end

local function print_table(rows)
    print "| workload | peer | unit | median | min - max | to bare | by CPU time | goal | |"
    print "|---|---|---|---:|---:|---:|---:|---:|---|"
    for _, row in ipairs(rows) do
        if row.unit ~= "MB/s" then
            local reached = row.goal and (row.reached and "reached" or "missed") or ""
            print(("| %s | %s | %s | %s | %s - %s | %s | %s | %s | %s |"):format(
                row.workload, row.peer, row.unit, short(row.value), short(row.min),
                short(row.max), ratio_text(row, row.ratio), ratio_text(row, row.cpu_ratio),
                row.goal or "", reached))
        end
    end
end

-- Variants of one workload read the same records.
local function check_checksums(results)
    local seen = {}
    for _, list in ipairs(results) do
        local name = list.first.workload
        for _, variant in ipairs { "-read", "-incremental", "-appender", "-threads" } do
            name = name:gsub(variant, "")
        end
        for checksum in pairs(list.checksums) do
            seen[name] = seen[name] or checksum
            if seen[name] ~= checksum then
                failed = true
                print(("%s: %s has read other records"):format(name, list.first.peer))
            end
        end
    end
end

parse_arguments()
local out <close> = assert(io.open(options.out, "w"))
local about = machine()
out:write(encode(about, { "cpu", "kernel", "load", "scale", "rounds", "time" }), "\n")
local results = run_all(out)
local rows = summarize(results)
for _, row in ipairs(rows) do
    out:write(encode(row, { "peer", "workload", "unit", "value", "min", "max", "ratio",
        "cpu_ratio", "goal", "fds", "syncs_per_s", "rss_kb", "disk_bytes", "config" }), "\n")
end
print(("%s, Linux %s, load %s; scale %s, medians of %s\n"):format(
    about.cpu, about.kernel, about.load, options.scale, options.rounds))
print_table(rows)
check_checksums(results)
print("\nAll figures: " .. options.out)
out:close()
os.exit(not failed)
