--- Let the tests find out about each change of spec/mutants/list.lua, in a copy
-- of the tree: `lua spec/mutants/run.lua [number]`. A change that all its tests
-- pass with, or whose text is not found once, is an error.

local mutants = dofile "spec/mutants/list.lua"

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

local function make(target)
  return os.execute(("make -s -C %s %s >%s/make.out 2>&1"):format(where, target,
    where))
end

--- Return the test that fails, or nil.
local function find_out(tests)
  for _, name in ipairs(tests) do
    local program = "build/release/spec/test_" .. name
    if not make(program) then
      error("it does not compile:\n" .. read(where .. "/make.out"), 0)
    end
    if not os.execute(("cd %s && timeout 100 ./%s >/dev/null 2>&1")
      :format(where, program)) then
      return name
    end
  end
  return nil
end

local only = tonumber(arg[1])
local bad = 0
for i, mutant in ipairs(mutants) do
  local path, old, new, tests = table.unpack(mutant)
  if not only or only == i then
    local text = read(path)
    local from, to = text:find(old, 1, true)
    local outcome
    if not from or text:find(old, to + 1, true) then
      outcome = "ITS TEXT DOES NOT STAND THERE ONCE"
    else
      write(where .. "/" .. path, text:sub(1, from - 1) .. new ..
        text:sub(to + 1))
      local compiled, test = pcall(find_out, tests)
      write(where .. "/" .. path, text)
      if not compiled then
        outcome = test
      elseif test then
        print(("%2d %s: found out by %s"):format(i, path, test))
      else
        outcome = "NOBODY FINDS IT OUT"
      end
    end
    if outcome then
      bad = bad + 1
      print(("%2d %s: %s:\n%s"):format(i, path, outcome, old))
    end
    io.stdout:flush()
  end
end
os.execute("rm -rf " .. where)
print(("%d mutants, %d not found out"):format(#mutants, bad))
os.exit(bad == 0)
