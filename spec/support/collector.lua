-- Specs with very many objects let the collector work as it usually does, even
-- where spec/support/torture.lua has told it otherwise: the calls they make
-- are all made in other specs, too, and an hour is long.
--
--     setup(collector.relax)
--     teardown(collector.restore)

local collector = {}

local pause, step

function collector.relax()
  pause = collectgarbage("setpause", 200)
  step = collectgarbage("setstepmul", 100)
end

function collector.restore()
  collectgarbage("setpause", pause)
  collectgarbage("setstepmul", step)
end

return collector
