-- The rock builds what the checkout holds: its list of files is complete.

local ROCKSPEC = "rockspec/minikafka-scm-1.rockspec"

local function load_rockspec()
  local rock = {}
  assert(loadfile(ROCKSPEC, "t", rock))()
  return rock
end

-- The files below `where` whose names end in `suffix`, as a sorted list.
local function find(where, suffix)
  local pipe <close> = assert(io.popen("find " .. where .. " -type f -name '*" ..
                                       suffix .. "' | LC_ALL=C sort"))
  local found = {}
  for path in pipe:lines() do found[#found + 1] = path end
  return found
end

local function sorted(list)
  local copy = table.move(list, 1, #list, 1, {})
  table.sort(copy)
  return copy
end

local function run(command)
  local pipe <close> = assert(io.popen(command .. " 2>&1; echo status=$?"))
  local output = pipe:read("a")
  return output:match("status=0\n$") ~= nil, output
end

describe("the rockspec", function()
  local rock = load_rockspec()
  local core = rock.build.modules["minikafka.core"]

  it("is for this package, license and Lua", function()
    assert.equal("minikafka", rock.package)
    assert.equal("MIT", rock.description.license)
    assert.same({ "lua >= 5.4, < 5.5" }, rock.dependencies)
  end)

  it("compiles every C file, once", function()
    assert.same(find("csrc", ".c"), sorted(core.sources))
  end)

  it("installs every Lua module under its name", function()
    local expected = {}
    for _, path in ipairs(find("lua", ".lua")) do
      local name = path:gsub("^lua/", ""):gsub("%.lua$", ""):gsub("/init$", "")
      expected[name:gsub("/", ".")] = path
    end
    local listed = {}
    for name, what in pairs(rock.build.modules) do
      if type(what) == "string" then listed[name] = what end
    end
    assert.same(expected, listed)
  end)

  it("needs no library but libc's", function()
    assert.same({ "dl", "pthread" }, core.libraries)
    assert.is_nil(rock.external_dependencies)
  end)

  -- Looks at the file only: nothing is fetched.
  it("is one that LuaRocks takes", function()
    if not run("command -v luarocks") then return pending("luarocks is not installed") end
    local clean = "env -u LUA_PATH -u LUA_CPATH -u LUA_PATH_5_4 -u LUA_CPATH_5_4 -u LD_PRELOAD "
    local ok, output = run(clean .. "luarocks --lua-version=5.4 lint " .. ROCKSPEC)
    assert(ok, output)
  end)
end)
