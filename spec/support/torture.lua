-- A helper for busted (--helper): collects as often as the collector can be
-- told to, so that what is used after its last reference goes is seen. A cycle
-- walks over the whole heap, all specs with it. So every test has that many
-- cycles at that pace, and goes on at the usual one: a sweep, which does the
-- same over and over, would take hours.
local busted = require "busted"

local EAGER_CYCLES = 100
local LOOK_EVERY = 10000 -- Instructions.

local cycles = 0

-- Counts cycles: every one finalizes the last of these, and leaves a new one.
local function count()
  setmetatable({}, { __gc = function()
    cycles = cycles + 1
    count()
  end })
end

-- A finalizer may not tell the collector anything; a hook may.
local function ease()
  if cycles > EAGER_CYCLES then
    collectgarbage("setpause", 200)
    debug.sethook()
  end
end

-- A pause of 0 given to collectgarbage("incremental") would mean "leave it".
busted.subscribe({ "test", "start" }, function()
  collectgarbage("incremental")
  collectgarbage("setpause", 0)
  collectgarbage("setstepmul", 1000)
  cycles = 0
  debug.sethook(ease, "", LOOK_EVERY)
  return nil, true
end)
count()
