-- Every example runs by itself, from anywhere, and prints what it should.

local ROOT = io.popen("pwd"):read("l")
local BUILD = os.getenv("MINIKAFKA_BUILD") or ROOT .. "/build/release"
local LUA = os.getenv("MINIKAFKA_LUA") or "lua5.4"

local PATHS = ("LUA_PATH_5_4='%s/lua/?.lua;%s/lua/?/init.lua;;' LUA_CPATH_5_4='%s/?.so;;'")
                :format(ROOT, ROOT, BUILD)

-- What the examples print, to the letter.
local EXPECTED = {
  ["01_chapter_experiment.lua"] = [[
retention deleted: (0, 1, 2) start: 3
compaction: 4 -> 3
records: [(1, b'b', b'x'), (2, b'a', b'2'), (3, None, b'event'), (4, b'active', b'keep')]
]],
  ["02_nonmonotonic_timestamps.lua"] = [[
at 300, boundary 200: deleted {}
  closed segment 0, greatest timestamp 250
  closed segment 1, greatest timestamp 0
  closed segment 2, greatest timestamp 0
at 351, boundary 251: deleted {0, 1, 2}
]],
  ["03_tombstone_expiry.lua"] = [[
at 500: 2 -> 1 records, log 0..2
  offset 1: a = (deleted)
at 2000: 2 -> 0 records, log 0..2
]],
  ["04_retention_and_compaction_at_work.lua"] = [[
evening of day 1
  visits  2402 bytes  [0..15) 15  [15..24) 9*
  prices   927 bytes  [0..12) 12*
night: retention drops {}, compaction 12 -> 4 records
  visits  2402 bytes  [0..15) 15  [15..24) 9*
  prices   321 bytes  [0..12) 4  [12..12) 0*
  prices say 8 bread 2.64, 9 cheese 4.72, 10 dates 1.80, 11 apple 3.88
evening of day 2
  visits  4816 bytes  [0..15) 15  [15..30) 15  [30..45) 15  [45..48) 3*
  prices  1321 bytes  [0..12) 4  [12..25) 13*
night: retention drops {}, compaction 17 -> 4 records
  visits  4816 bytes  [0..15) 15  [15..30) 15  [30..45) 15  [45..48) 3*
  prices   317 bytes  [0..25) 4  [25..25) 0*
  prices say 20 cheese 2.64, 22 apple 1.80, 23 bread 3.88, 24 dates (gone)
evening of day 3
  visits  7218 bytes  [0..15) 15  [15..30) 15  [30..45) 15  [45..60) 15  [60..72) 12*
  prices  1245 bytes  [0..25) 4  [25..37) 12*
night: retention drops {0, 15}, compaction 16 -> 4 records
  visits  4210 bytes  [30..45) 15  [45..60) 15  [60..72) 12*
  prices   317 bytes  [0..37) 4  [37..37) 0*
  prices say 24 dates (gone), 34 apple 4.72, 35 bread 1.80, 36 cheese 3.88
evening of day 4
  visits  6624 bytes  [30..45) 15  [45..60) 15  [60..75) 15  [75..90) 15  [90..96) 6*
  prices  1245 bytes  [0..37) 4  [37..49) 12*
night: retention drops {30, 45}, compaction 16 -> 3 records
  visits  3614 bytes  [60..75) 15  [75..90) 15  [90..96) 6*
  prices   244 bytes  [0..49) 3  [49..49) 0*
  prices say 46 bread 4.72, 47 cheese 1.80, 48 apple 3.88
]],
  ["05_read_back.lua"] = [[
read back
  offset 0: a = 1
  offset 1: b = x
  offset 2: a = 2
  offset 3: (no key) = event
read on, from offset 4
  offset 4: active = keep
follow, from offset 5
  offset 5: b = y
  offset 6: c = z
  offset 7: end = bye
]],
  ["06_swap_crash_points.lua"] = [[
BY EXCHANGING NAMES
crash before open 00000000000000000000.log
  found   prices-0 (0:79 2:70 3:70 state)
  opened  prices-0 (0:79 2:70 3:70 state): the old log
crash before write minikafka.swap.tmp
  found   minikafka.new.prices-0 ()
          prices-0 (0:79 2:70 3:70 state)
  opened  prices-0 (0:79 2:70 3:70 state): the old log
crash before fsync_dir minikafka.new.prices-0
  found   minikafka.new.prices-0 (note building)
          prices-0 (0:79 2:70 3:70 state)
  opened  prices-0 (0:79 2:70 3:70 state): the old log
crash before write 00000000000000000000.log
  found   minikafka.new.prices-0 (0:0 note building)
          prices-0 (0:79 2:70 3:70 state)
  opened  prices-0 (0:79 2:70 3:70 state): the old log
crash before unlink 00000000000000000000.index
  found   minikafka.new.prices-0 (0:140 note building)
          prices-0 (0:79 2:70 3:70 state)
  opened  prices-0 (0:79 2:70 3:70 state): the old log
crash before link minikafka.lock
  found   minikafka.new.prices-0 (0:140 3:70 note building)
          prices-0 (0:79 2:70 3:70 state)
  opened  prices-0 (0:79 2:70 3:70 state): the old log
crash before fsync_dir minikafka.new.prices-0
  found   minikafka.new.prices-0 (0:140 3:70 state note building)
          prices-0 (0:79 2:70 3:70 state)
  opened  prices-0 (0:79 2:70 3:70 state): the old log
crash before fsync_dir minikafka.new.prices-0
  found   minikafka.new.prices-0 (0:140 3:70 state note ready)
          prices-0 (0:79 2:70 3:70 state)
  opened  prices-0 (0:79 2:70 3:70 state): the old log
crash before fsync_dir data
  found   minikafka.new.prices-0 (0:79 2:70 3:70 state)
          prices-0 (0:140 3:70 state note ready)
  opened  prices-0 (0:140 3:70 state): the new log
crash before unlink 00000000000000000000.timeindex
  found   minikafka.new.prices-0 (2:70 3:70 state)
          prices-0 (0:140 3:70 state note ready)
  opened  prices-0 (0:140 3:70 state): the new log
crash before unlink 00000000000000000002.timeindex
  found   minikafka.new.prices-0 (3:70 state)
          prices-0 (0:140 3:70 state note ready)
  opened  prices-0 (0:140 3:70 state): the new log
crash before unlink 00000000000000000003.timeindex
  found   minikafka.new.prices-0 (state)
          prices-0 (0:140 3:70 state note ready)
  opened  prices-0 (0:140 3:70 state): the new log
crash before rmdir minikafka.new.prices-0
  found   prices-0 (0:140 3:70 state note ready)
  opened  prices-0 (0:140 3:70 state): the new log
crash before the end
  found   prices-0 (0:140 3:70 state)
  opened  prices-0 (0:140 3:70 state): the new log
a loss of power at any of them: the old log or the new one
BY TWO RENAMES
crash before open 00000000000000000000.log
  found   prices-0 (0:79 2:70 3:70 state)
  opened  prices-0 (0:79 2:70 3:70 state): the old log
crash before write minikafka.swap.tmp
  found   minikafka.new.prices-0 ()
          prices-0 (0:79 2:70 3:70 state)
  opened  prices-0 (0:79 2:70 3:70 state): the old log
crash before fsync_dir minikafka.new.prices-0
  found   minikafka.new.prices-0 (note building)
          prices-0 (0:79 2:70 3:70 state)
  opened  prices-0 (0:79 2:70 3:70 state): the old log
crash before write 00000000000000000000.log
  found   minikafka.new.prices-0 (0:0 note building)
          prices-0 (0:79 2:70 3:70 state)
  opened  prices-0 (0:79 2:70 3:70 state): the old log
crash before unlink 00000000000000000000.index
  found   minikafka.new.prices-0 (0:140 note building)
          prices-0 (0:79 2:70 3:70 state)
  opened  prices-0 (0:79 2:70 3:70 state): the old log
crash before link minikafka.lock
  found   minikafka.new.prices-0 (0:140 3:70 note building)
          prices-0 (0:79 2:70 3:70 state)
  opened  prices-0 (0:79 2:70 3:70 state): the old log
crash before fsync_dir minikafka.new.prices-0
  found   minikafka.new.prices-0 (0:140 3:70 state note building)
          prices-0 (0:79 2:70 3:70 state)
  opened  prices-0 (0:79 2:70 3:70 state): the old log
crash before fsync_dir minikafka.new.prices-0
  found   minikafka.new.prices-0 (0:140 3:70 state note ready)
          prices-0 (0:79 2:70 3:70 state)
  opened  prices-0 (0:79 2:70 3:70 state): the old log
crash before rename minikafka.new.prices-0
  found   minikafka.new.prices-0 (0:140 3:70 state note ready)
          minikafka.old.prices-0 (0:79 2:70 3:70 state)
  opened  prices-0 (0:79 2:70 3:70 state): the old log
crash before fsync_dir data
  found   minikafka.old.prices-0 (0:79 2:70 3:70 state)
          prices-0 (0:140 3:70 state note ready)
  opened  prices-0 (0:140 3:70 state): the new log
crash before unlink 00000000000000000000.timeindex
  found   minikafka.old.prices-0 (2:70 3:70 state)
          prices-0 (0:140 3:70 state note ready)
  opened  prices-0 (0:140 3:70 state): the new log
crash before unlink 00000000000000000002.timeindex
  found   minikafka.old.prices-0 (3:70 state)
          prices-0 (0:140 3:70 state note ready)
  opened  prices-0 (0:140 3:70 state): the new log
crash before unlink 00000000000000000003.timeindex
  found   minikafka.old.prices-0 (state)
          prices-0 (0:140 3:70 state note ready)
  opened  prices-0 (0:140 3:70 state): the new log
crash before rmdir minikafka.old.prices-0
  found   prices-0 (0:140 3:70 state note ready)
  opened  prices-0 (0:140 3:70 state): the new log
crash before the end
  found   prices-0 (0:140 3:70 state)
  opened  prices-0 (0:140 3:70 state): the new log
a loss of power at any of them: the old log or the new one
ON REAL FILES, BETWEEN THE RENAMES
  opened  0:a=1 1:b=1 2:a=2 3:c=1
]],
  ["07_crash_your_program.lua"] = [[
careful: right on every disk
careless: right false, lazy: alice is nil, and tea 1 was promised
promised by then: 1
replayed: alice is nil, and tea 1 was promised
]],
}

local function run(command)
  local pipe <close> = assert(io.popen(command))
  return pipe:read("a")
end

-- A directory of its own for a test, removed afterwards.
local function temporary()
  local path = run("mktemp -d"):match("[^\n]+")
  finally(function() os.execute("rm -rf '" .. path .. "'") end)
  return path
end

for name, expected in pairs(EXPECTED) do
  describe(name, function()
    it("prints what it promises, and keeps the directory it was given", function()
      local directory = temporary()
      local output = run(("cd / && %s %s '%s/examples/%s' '%s' 2>&1")
                           :format(PATHS, LUA, ROOT, name, directory))
      assert.equal("files in " .. directory .. "\n" .. expected, output)
      assert.truthy(run("find '" .. directory .. "' -name '*.log'"):find("%S"))
    end)

    it("cleans up when it was given none", function()
      local directory = temporary()
      local output = run(("cd / && TMPDIR='%s' %s %s '%s/examples/%s' 2>&1")
                           :format(directory, PATHS, LUA, ROOT, name))
      assert.equal(expected, (output:gsub("^files in [^\n]*\n", "")))
      assert.equal("", run("ls -A '" .. directory .. "'"))
    end)
  end)
end
