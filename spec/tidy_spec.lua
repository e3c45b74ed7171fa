-- The tree keeps the house style. What is checked here needs no other tool.

local SIZE_MAX = 600     -- lines of a file
local FUNCTION_MAX = 70  -- lines of a function's body, braces included
local COLUMNS_MAX = { c = 80, h = 80, lua = 100 }

-- The contract is one header, however long it grows.
local LONG_FILES = { ["csrc/include/minikafka.h"] = true }

-- They stand below the seam, as os/*_posix do.
local MAY_CALL_LIBC = {
  ["base/check"] = true, ["base/heap"] = true, ["os/clock"] = true, ["os/thread"] = true,
  ["os/map_guard"] = true,
}

-- Rooms whose every header has a C test of its name, or is listed here with
-- the test that exercises it all the same.
local TESTED_ROOMS = { base = true, codec = true, os = true, store = true,
                       log = true, clean = true }
local TESTED_BY = {
  ["base/bytes"] = "spec/c/test_record.c",
  ["base/heap"] = "spec/c/test_key_map.c",
  ["base/status"] = "spec/errors_spec.lua",
  ["os/posix"] = "spec/c/test_file_posix.c",
  ["os/thread"] = "spec/c/test_vfs_posix.c",
  ["os/vfs"] = "spec/c/test_vfs_sim.c",
  ["store/staged_file"] = "spec/c/test_segment_swap.c",
  ["store/text_words"] = "spec/c/test_state_file.c",
  ["log/swap_proof"] = "spec/c/test_leftovers.c",
  ["log/copy_end"] = "spec/c/test_copy.c",
  ["log/copy_target"] = "spec/c/test_copy.c",
  ["log/findings"] = "spec/verify_spec.lua",
  ["log/segment_check"] = "spec/verify_spec.lua",
  ["log/repair_files"] = "spec/repair_spec.lua",
  ["log/repair_loss"] = "spec/repair_spec.lua",
  ["log/repair_plan"] = "spec/repair_spec.lua",
  ["log/repair_run"] = "spec/repair_spec.lua",
  ["log/repair_work"] = "spec/repair_spec.lua",
  ["log/log"] = "spec/handles_spec.lua",
  ["store/reserve_file"] = "spec/c/test_disk_full.c",
  ["store/unproven_file"] = "spec/c/test_heal.c",
  ["log/state_store"] = "spec/c/test_disk_full.c",
  ["log/bounds"] = "spec/c/test_recovery.c",
  ["log/active"] = "spec/c/test_roll.c",
  ["log/segment_indexes"] = "spec/c/test_recovery_files.c",
  ["log/segment_recovery"] = "spec/c/test_recovery.c",
  ["log/renew"] = "spec/c/test_heal.c",
  ["log/refresh"] = "spec/c/test_read_only.c",
  ["log/walk"] = "spec/read_spec.lua",
}
-- It ends the process; it acts on the compiler.
local UNTESTED = { ["base/check"] = true, ["base/poison"] = true }

local function lines_of(path)
  local lines = {}
  for line in io.lines(path) do lines[#lines + 1] = line end
  return lines
end

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read("a")
end

local function exists(path)
  local file <close> = io.open(path, "rb")
  return file ~= nil
end

-- All files below the given directories, sorted; `pattern` is Lua's.
local function find(where, pattern)
  local pipe <close> = assert(io.popen("find " .. where ..
                                       " -type f 2>/dev/null | LC_ALL=C sort"))
  local found = {}
  for path in pipe:lines() do
    if path:find(pattern) then found[#found + 1] = path end
  end
  return found
end

local function extension(path) return path:match("%.([^./]+)$") end

-- "csrc/store/names.c" is the module "store/names".
local function module_of(path)
  return (path:match("^csrc/(.+)%.[ch]$"))
end

-- Fails with the list of what was found, one a line.
local function none(faults)
  assert(#faults == 0, "\n  " .. table.concat(faults, "\n  "))
end

-- The file with comments and literals blanked out, line by line, so that what
-- is left can be searched for code.
local function code_of(path)
  local text = read(path)
  local out, i = {}, 1
  local function blank(to)
    out[#out + 1] = text:sub(i, to):gsub("[^\n]", " ")
    i = to + 1
  end
  while i <= #text do
    local two, one = text:sub(i, i + 1), text:sub(i, i)
    if two == "/*" then
      blank(select(2, text:find("*/", i + 2, true)) or #text)
    elseif two == "//" then
      blank((text:find("\n", i, true) or #text + 1) - 1)
    elseif one == '"' or one == "'" then
      local stop = i + 1
      while stop < #text and text:sub(stop, stop) ~= one do
        stop = stop + (text:sub(stop, stop) == "\\" and 2 or 1)
      end
      out[#out + 1] = one
      i = i + 1
      blank(stop - 1)
      out[#out + 1] = one
      i = stop + 1
    else
      out[#out + 1] = one
      i = i + 1
    end
  end
  local lines = {}
  for line in (table.concat(out) .. "\n"):gmatch("(.-)\n") do
    lines[#lines + 1] = line
  end
  return lines
end

local core_files = find("csrc", "%.[ch]$")
local c_files = find("csrc spec/c bench", "%.[ch]$")
local lua_files = find("lua spec examples bench", "%.lua$")
local text_files = find("csrc lua spec examples bench docs rockspec",
                        "%.[%a]+$")
for _, name in ipairs { "Makefile", "README.md", "CHANGELOG.md", "LICENSE",
                        "CONTRIBUTING.md", ".busted", ".luacheckrc",
                        ".gitignore", ".clang-format", ".editorconfig",
                        "csrc/LAYERS" } do
  text_files[#text_files + 1] = name
end

-- What is copied into the tests as data is as it is.
local function is_data(path)
  return path:find("^spec/data/") or path:find("^spec/golden/")
      or path:find("^spec/c/data/")
end

describe("csrc/LAYERS", function()
  local rank, listed = {}, {}
  for _, line in ipairs(lines_of("csrc/LAYERS")) do
    for name in line:gmatch("%S+") do
      listed[#listed + 1] = name
      rank[name] = rank[name] and error("listed twice: " .. name) or #listed
    end
  end

  it("lists every file of csrc, and nothing else", function()
    local faults, there = {}, {}
    for _, path in ipairs(core_files) do
      local name = module_of(path)
      there[name] = true
      if not rank[name] then faults[#faults + 1] = path .. " is not listed" end
    end
    for _, name in ipairs(listed) do
      if not there[name] then faults[#faults + 1] = name .. " has no file" end
    end
    none(faults)
  end)

  it("is the order of inclusion: a file sees only what stands earlier", function()
    local faults = {}
    for _, path in ipairs(core_files) do
      local own = module_of(path)
      for number, line in ipairs(lines_of(path)) do
        local included = line:match('^%s*#%s*include%s+"([^"]+)"')
        if included then
          -- Installed headers name each other without their folder.
          local folder = included:find("/") and "csrc/" or path:match("^.*/")
          local name = module_of(folder .. included)
          -- Poison comes last in every file, wherever that stands.
          if name ~= own and name ~= "base/poison"
             and (rank[name] or math.huge) >= (rank[own] or 0) then
            faults[#faults + 1] = ("%s:%d includes %s"):format(path, number, included)
          end
        end
      end
    end
    none(faults)
  end)

  it("lets the binding see the public headers only", function()
    local faults = {}
    for _, path in ipairs(find("csrc/lua", "%.[ch]$")) do
      for number, line in ipairs(lines_of(path)) do
        local room = line:match('^%s*#%s*include%s+"([^"/]+)/')
        if room and room ~= "include" and room ~= "lua" then
          faults[#faults + 1] = ("%s:%d: %s"):format(path, number, line)
        end
      end
    end
    none(faults)
  end)

  it("gives every file a name of its own", function()
    local faults, seen = {}, {}
    for _, path in ipairs(core_files) do
      local name = path:match("[^/]+$")
      if seen[name] then faults[#faults + 1] = path .. " and " .. seen[name] end
      seen[name] = path
    end
    none(faults)
  end)
end)

describe("a C file", function()
  it("opens with a comment that says what it is", function()
    local faults = {}
    for _, path in ipairs(c_files) do
      if not read(path):find("^/%*") then faults[#faults + 1] = path end
    end
    none(faults)
  end)

  it("has at most " .. SIZE_MAX .. " lines", function()
    local faults = {}
    for _, path in ipairs(c_files) do
      local count = #lines_of(path)
      if count > SIZE_MAX and not LONG_FILES[path] then
        faults[#faults + 1] = ("%s has %d"):format(path, count)
      end
    end
    none(faults)
  end)

  it("has functions of at most " .. FUNCTION_MAX .. " lines", function()
    local faults = {}
    for _, path in ipairs(c_files) do
      local start
      for number, line in ipairs(lines_of(path)) do
        if line == "{" then
          start = number
        elseif line == "}" and start then
          local count = number - start + 1
          if count > FUNCTION_MAX then
            faults[#faults + 1] = ("%s:%d has %d"):format(path, start, count)
          end
          start = nil
        end
      end
    end
    none(faults)
  end)

  it("has no static that changes", function()
    local faults = {}
    for _, path in ipairs(core_files) do
      for number, line in ipairs(code_of(path)) do
        -- The handler of a signal belongs to the process.
        local rest = path ~= "csrc/os/map_guard.c"
          and line:match("^%s*static%s+(.*)")
        local is_function = rest and rest:find("%(") or rest and rest:find("inline")
        -- A signature may break before its parameters.
        local is_open = rest and not rest:find("[;={]")
        if rest and not (is_function or is_open) and not rest:find("%f[%a]const%f[%A]") then
          faults[#faults + 1] = ("%s:%d: %s"):format(path, number, line)
        end
      end
    end
    none(faults)
  end)

  -- clang-format 14 cannot insert braces, so they are looked for here.
  it("braces every body, but for a guard on one line", function()
    local faults = {}
    for _, path in ipairs(c_files) do
      local lines = code_of(path)
      local text = table.concat(lines, "\n")
      for _, word in ipairs { "if", "for", "while", "switch" } do
        local position = 1
        while true do
          local from, to = text:find("%f[%w_]" .. word .. "%s*%b()", position)
          if not from then break end
          local rest = text:sub(to + 1):match("^[^\n]*")
          local is_guard = word == "if" and rest:find("^ .*;%s*$")
          local is_tail = word == "while"
            and (rest:find("^;") or text:sub(1, from - 1):find("}%s*$"))
          local in_macro = rest:find("\\$") or text:sub(1, from):match("[^\n]*$"):find("^%s*#")
          if not (rest:find("^ {") or is_guard or is_tail or in_macro) then
            local _, number = text:sub(1, from):gsub("\n", "")
            faults[#faults + 1] = ("%s:%d: %s"):format(path, number + 1, word)
          end
          position = from + #word
        end
      end
      for number, line in ipairs(lines) do
        if line:find("%f[%w_]else%f[^%w_]") and not line:find("else {")
           and not line:find("else if") and not line:find("^%s*#") then
          faults[#faults + 1] = ("%s:%d: else"):format(path, number)
        end
      end
    end
    none(faults)
  end)
end)

describe("a file of the core", function()
  it("ends its includes with base/poison.h", function()
    local faults = {}
    for _, path in ipairs(find("csrc", "%.c$")) do
      local own = module_of(path)
      local free = own:find("^lua/") or own:find("_posix$") or MAY_CALL_LIBC[own]
      local last
      for _, line in ipairs(lines_of(path)) do
        last = line:match('^%s*#%s*include%s+(%S+)') or last
      end
      local poisoned = last == '"base/poison.h"'
      if not free and not poisoned then faults[#faults + 1] = path end
    end
    none(faults)
  end)

  it("leaves the system's headers to os/", function()
    local faults = {}
    local banned = { fcntl = true, unistd = true, dirent = true, pthread = true,
                     time = true }
    for _, path in ipairs(core_files) do
      if not path:find("^csrc/os/") and not path:find("^csrc/lua/") then
        for number, line in ipairs(lines_of(path)) do
          local header = line:match("^%s*#%s*include%s+<([^>]+)%.h>")
          if header and (banned[header] or header:find("^sys/")) then
            faults[#faults + 1] = ("%s:%d: %s"):format(path, number, header)
          end
        end
      end
    end
    none(faults)
  end)

  it("has a C test of its name, or is listed with what tests it", function()
    local faults = {}
    for _, path in ipairs(find("csrc", "%.h$")) do
      local name = module_of(path)
      local room, noun = name:match("^([^/]+)/(.+)$")
      local test = TESTED_BY[name] or "spec/c/test_" .. noun .. ".c"
      if TESTED_ROOMS[room] and not UNTESTED[name] and not exists(test) then
        faults[#faults + 1] = path .. " has no " .. test
      end
    end
    for name in pairs(TESTED_BY) do
      if not exists("csrc/" .. name .. ".h") then
        faults[#faults + 1] = name .. " is listed but does not exist"
      elseif exists("spec/c/test_" .. name:match("[^/]+$") .. ".c") then
        faults[#faults + 1] = name .. " is listed but has a test of its own"
      end
    end
    none(faults)
  end)
end)

describe("a Lua file", function()
  it("opens with a comment that says what it is", function()
    local faults = {}
    for _, path in ipairs(lua_files) do
      local text = read(path):gsub("^#![^\n]*\n", "")
      if not text:find("^%-%-") then faults[#faults + 1] = path end
    end
    none(faults)
  end)

  it("has at most " .. SIZE_MAX .. " lines", function()
    local faults = {}
    for _, path in ipairs(lua_files) do
      local count = #lines_of(path)
      if count > SIZE_MAX then faults[#faults + 1] = ("%s has %d"):format(path, count) end
    end
    none(faults)
  end)
end)

describe("a line", function()
  it("stays within its columns, without tabs and trailing blanks", function()
    local faults = {}
    for _, path in ipairs(text_files) do
      local limit = COLUMNS_MAX[extension(path)] or math.huge
      for number, line in ipairs(is_data(path) and {} or lines_of(path)) do
        local fault = line:find("%s$") and "trailing blank"
            or line:find("\t") and not (path == "Makefile" or path:find("%.mk$")) and "tab"
            or line:find("\r") and "carriage return"
            or (utf8.len(line) or #line) > limit and "too long"
        if fault then faults[#faults + 1] = ("%s:%d: %s"):format(path, number, fault) end
      end
    end
    none(faults)
  end)

  it("names nothing that is to be done, and no place outside the tree", function()
    -- Patterns; in pieces, since this file is looked at, too.
    local banned = { "%f[%w]TO" .. "DO%f[%W]", "%f[%w]FIX" .. "ME%f[%W]",
                     "%f[%w]XX" .. "X%f[%W]", "/wo" .. "rk/", "%.%./sha" .. "red" }
    local faults = {}
    for _, path in ipairs(text_files) do
      for number, line in ipairs(is_data(path) and {} or lines_of(path)) do
        for _, word in ipairs(banned) do
          local found = line:match(word)
          if found then
            faults[#faults + 1] = ("%s:%d: %s"):format(path, number, found)
          end
        end
      end
    end
    none(faults)
  end)
end)

describe("the tree", function()
  it("runs every example in examples_spec", function()
    local faults, spec = {}, read("spec/examples_spec.lua")
    for _, path in ipairs(find("examples", "%.lua$")) do
      local name = path:match("[^/]+$")
      if not spec:find(name, 1, true) then faults[#faults + 1] = name end
    end
    none(faults)
  end)

  it("links every guide from the README", function()
    local faults, readme = {}, read("README.md")
    for _, path in ipairs(find("docs examples", "%.%a+$")) do
      if not readme:find("(" .. path .. ")", 1, true) then faults[#faults + 1] = path end
    end
    none(faults)
  end)

  it("explains every error code in docs/errors.md", function()
    local faults, page = {}, read("docs/errors.md")
    local map = read("csrc/include/minikafka.h"):match("MK_STATUS_MAP%(X%)(.-)\n\n")
    for name in map:gmatch("X%(([A-Z_]+),") do
      -- These two never reach a Lua program, nor does the absence of an error.
      local hidden = { OK = true, END = true, NO_MEMORY = true }
      if not hidden[name] and not page:find("`" .. name .. "`", 1, true) then
        faults[#faults + 1] = name
      end
    end
    none(faults)
  end)
end)
