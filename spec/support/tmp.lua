-- Temporary directories for specs, real ones, below one root that `clean`
-- removes. A spec file says `after_each(tmp.clean)` once and forgets them.

local tmp = {}

local root -- Made at first use.
local made = 0

local function quote(text)
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

-- Run a shell command that must succeed.
local function run(...)
  local command = table.concat({ ... }, " ")
  assert(os.execute(command), command)
end

-- Return a path where nothing is yet. Its parent exists.
function tmp.path()
  if not root then
    root = os.tmpname()
    assert(os.remove(root))
    run("mkdir", quote(root))
  end
  made = made + 1
  return ("%s/%d"):format(root, made)
end

-- Return a new empty directory.
function tmp.dir()
  local path = tmp.path()
  run("mkdir", quote(path))
  return path
end

-- Copy a directory, as a death of the process that holds it would leave it:
-- what has been written is there, what its memory held is not.
function tmp.copy(dir)
  local path = tmp.path()
  run("cp -a", quote(dir), quote(path))
  return path
end

-- Names in a directory, sorted.
function tmp.list(dir)
  local names = {}
  local pipe = assert(io.popen("LC_ALL=C ls -A " .. quote(dir)))
  for name in pipe:lines() do
    names[#names + 1] = name
  end
  pipe:close()
  return names
end

-- The bytes of a file, or nil where there is none.
function tmp.read(path)
  local file = io.open(path, "rb")
  if not file then
    return nil
  end
  local bytes = file:read("a")
  file:close()
  return bytes
end

function tmp.write(path, bytes)
  local file = assert(io.open(path, "wb"))
  assert(file:write(bytes))
  assert(file:close())
end

-- Name, size and bytes of everything in a directory, as one string.
function tmp.fingerprint(dir)
  local parts = {}
  for i, name in ipairs(tmp.list(dir)) do
    parts[i] = ("%s\n%s"):format(name, tmp.read(dir .. "/" .. name) or "-")
  end
  return table.concat(parts, "\n")
end

tmp.quote = quote

-- A search path that holds in any directory.
local function absolute(search_path)
  return (search_path:gsub("[^;]+", function(template)
    return template:sub(1, 1) == "/" and template
      or os.getenv("PWD") .. "/" .. template
  end))
end

-- Run Lua source in a process of its own, with this one's module paths.
-- Returns what it printed, and how it ended: true, or nil, "exit" or "signal",
-- and the number. `prefix` is shell that comes first: "ulimit -n 20; exec".
function tmp.child(source, prefix)
  local script = tmp.path()
  tmp.write(script, ("package.path, package.cpath = %q, %q\n%s"):format(
    absolute(package.path), absolute(package.cpath), source))
  local lua = os.getenv("MINIKAFKA_LUA") or "lua5.4"
  local pipe = assert(io.popen(("%s %s %s 2>&1"):format(
    prefix or "exec", lua, quote(script))))
  local text = pipe:read("a")
  return text, pipe:close()
end

-- Remove everything that was made.
function tmp.clean()
  if root then
    run("rm -rf", quote(root))
  end
  root = nil
end

return tmp
