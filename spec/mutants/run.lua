--- Let the tests find out about each change of spec/mutants/list.lua, in a copy
-- of the tree: `lua spec/mutants/run.lua [first [last]]`, by their numbers. The
-- tests of a change run in turn, up to the first that fails or hangs. It is an
-- error when all of them pass, when the text to change does not stand there
-- once, when the changed text does not compile, and when the test that fails
-- does so without the change.

local mutants = dofile "spec/mutants/list.lua"

--- Seconds, many times what the slowest program takes.
local HANGS = 400

local function capture(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read "a"
  pipe:close()
  return text
end

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local function write(path, text)
  local file <close> = assert(io.open(path, "wb"))
  file:write(text)
end

local where = capture("mktemp -d"):gsub("%s+$", "")
assert(os.execute(("cp -a Makefile bench csrc spec lua build %s/"):format(where)))

--- Return how a test program ends: nil when it passes. One of its tests that
-- fails is enough: what it prints next ends it.
local function outcome_of(name)
  local program = "build/release/spec/test_" .. name
  if not os.execute(("make -s -C %s %s >%s/make.out 2>&1")
    :format(where, program, where)) then
    error("it does not compile:\n" .. read(where .. "/make.out"), 0)
  end
  local pipe = assert(io.popen(("cd %s && timeout -k 9 %d ./%s 2>&1")
    :format(where, HANGS, program)))
  for line in pipe:lines() do
    if line:find("[  FAILED  ]", 1, true) then
      pipe:close()
      return "fails"
    end
  end
  local passes, _, status = pipe:close()
  if passes then return nil end
  return status == 124 and "hangs" or "dies"
end

--- Return the first of the tests that does not pass, and how it ends.
local function find_out(tests)
  for _, name in ipairs(tests) do
    local outcome = outcome_of(name)
    if outcome then return name, outcome end
  end
  error("NOBODY FINDS IT OUT", 0)
end

local sound = {}

--- The test passes when nothing is changed. Asked once for each.
local function check_sound(name)
  if sound[name] == nil then sound[name] = outcome_of(name) == nil end
  if not sound[name] then error(name .. " fails without it, too", 0) end
end

local function find_out_mutant(mutant)
  local path, old, new, tests = table.unpack(mutant)
  local copy = where .. "/" .. path
  local text = read(copy)
  local from, to = text:find(old, 1, true)
  if not from or text:find(old, to + 1, true) then
    error("its text does not stand there once", 0)
  end
  write(copy, text:sub(1, from - 1) .. new .. text:sub(to + 1))
  local found, name, outcome = pcall(find_out, tests)
  write(copy, text)
  if not found then error(name, 0) end
  check_sound(name)
  return name, outcome
end

local first = tonumber(arg[1]) or 1
local last = tonumber(arg[2]) or tonumber(arg[1]) or #mutants
local asked, caught = 0, 0
for i = first, last do
  local mutant = mutants[i]
  local began = os.time()
  local found, name, outcome = pcall(find_out_mutant, mutant)
  asked = asked + 1
  if found then
    caught = caught + 1
    print(("%2d %s: caught, %s %s (%d s)"):format(i, mutant[1], name, outcome,
      os.time() - began))
  else
    print(("%2d %s: %s:\n%s"):format(i, mutant[1], name, mutant[2]))
  end
  io.stdout:flush()
end
os.execute("rm -rf " .. where)
print(("%d of %d caught"):format(caught, asked))
os.exit(caught == asked)
