-- A program of your own, crashed at every step of the disk.
--
-- The program is a small store of keys and values on a log: `put` appends, and
-- then tells its client that the value is safe. The careful store flushes in
-- between; the careless one forgets to.
--
-- `minikafka.explore` runs each on a simulated disk, and asks for every moment
-- which disks a death of the process, or a loss of power, could leave. `check`
-- opens each of them: what a client was told, the store has to remember. For
-- the careful store that is a proof; for the careless one there is an error
-- object with the simplest disk on which it is wrong, and a script that looks
-- at that one disk again.
--
--     lua5.4 07_crash_your_program.lua [DIRECTORY]
--
-- The careless store's disk as it was before the crash, and the script, are
-- written to a directory: the one that is given, or a temporary one that is
-- removed at the end.

local minikafka = require "minikafka"

local directory = arg[1] or io.popen("mktemp -d"):read("l")
io.stderr:write("files in ", directory, "\n")

local function open(disk)
  return minikafka.open("/store", { io = disk, segment_bytes = 200 })
end

local function scenario(safe)
  return {
    run = function(disk, ack)
      local log = open(disk)
      local function put(key, value)
        log:append_kv(key, value)
        if safe then log:flush() end
        ack(key, value)
      end

      put("alice", "tea 1")
      put("bob", "coffee 1")
      log:roll()
      put("alice", "tea 2")
    end,

    check = function(disk, acked)
      local told, found = {}, {}
      for _, put in ipairs(acked) do told[put[1]] = put[2] end
      for _, key, value in open(disk):records() do found[key] = value end
      for key, value in pairs(told) do
        assert(found[key] and found[key] >= value,
               ("%s is %s, and %s was promised"):format(key, found[key], value))
      end
    end,

    report = false, -- Else what is found is printed on stderr, too.
  }
end

local result = minikafka.explore(scenario(true))
print("careful: " .. (result.complete and "right on every disk" or tostring(result)))

local careless = scenario(false)
local ok, failure = pcall(minikafka.explore, careless)
print(("careless: right %s, %s: %s"):format(ok, failure.profile,
      failure.cause:match(": (.*)")))
print("promised by then: " .. #failure.acked)

local replay = load(failure.script)
print("replayed: " .. select(2, pcall(replay, careless)).cause:match(": (.*)"))

local function write(name, bytes)
  os.execute(("mkdir -p '%s'"):format((directory .. "/" .. name):match("(.*)/")))
  local file <close> = assert(io.open(directory .. "/" .. name, "w"))
  file:write(bytes)
end

write("replay.lua", failure.script)
for _, path in ipairs(failure.before:list()) do
  write("before" .. path, failure.before:read(path))
end

if not arg[1] then os.execute("rm -r '" .. directory .. "'") end
