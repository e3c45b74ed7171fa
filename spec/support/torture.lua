-- A helper for busted (--helper): collects as often as the collector can be
-- told to, so that what is used after its last reference goes is seen.
-- A pause of 0 given to collectgarbage("incremental") would mean "leave it".
collectgarbage("incremental")
collectgarbage("setpause", 0)
collectgarbage("setstepmul", 1000)
