-- The same script and seed do the same, byte for byte, in builds of two
-- compilers: gcc and clang where both are there, else of one, differently
-- optimized. The second build is kept in build/other for the next time.

local tmp = require "spec.support.tmp"

local BUILD = os.getenv("MINIKAFKA_BUILD") or "build/release"
local OTHER = "build/other"
local PROGRAM = "/spec/test_determinism"

after_each(tmp.clean)

local function output_of(command)
  local pipe <close> = assert(io.popen(command .. " 2>&1"))
  return pipe:read("a"), pipe:close()
end

local function is_there(command)
  return (os.execute("command -v " .. command .. " >/dev/null 2>&1"))
end

local function is_clang(compiler)
  return output_of(compiler .. " --version"):find("clang", 1, true) ~= nil
end

-- A make of its own: nothing of the one that runs the specs goes to it.
local function make(target, settings)
  local output, done = output_of(("env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u LD_PRELOAD "
    .. "make -s %s %s"):format(settings, target))
  assert(done, output)
end

local function trace_of(build)
  local path = tmp.path()
  local output, done = output_of(("MK_TRACE='%s' '%s'"):format(path, build .. PROGRAM))
  assert(done, output)
  return tmp.read(path)
end

describe("the trace of a long script", function()
  it("is the same in another compiler's build, byte for byte", function()
    local mine = os.getenv("CC") or "cc"
    local other = is_clang(mine) and "gcc" or "clang"
    if not is_there(other) then other = mine end
    make(OTHER .. PROGRAM, ("CC='%s' CFLAGS=-O0 BUILD=%s VARIANT=release"):format(other, OTHER))
    local first, second = trace_of(BUILD), trace_of(OTHER)
    assert(#first > 100000, #first)
    assert(first == second, "the builds do not agree")
  end)
end)
