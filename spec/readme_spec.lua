-- Every Lua block of the README and the guides runs, and prints what the page
-- says: what follows `-->` in a block, line by line. In the page two blanks
-- stand for the tab that print puts between values. C blocks are programs.

local ROOT = io.popen("pwd"):read("l")
local BUILD = os.getenv("MINIKAFKA_BUILD") or ROOT .. "/build/release"
local LUA = os.getenv("MINIKAFKA_LUA") or "lua5.4"

local PATHS = ("LUA_PATH_5_4='%s/lua/?.lua;%s/lua/?/init.lua;;' LUA_CPATH_5_4='%s/?.so;;'")
                :format(ROOT, ROOT, BUILD)

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read("a")
end

local function write(path, text)
  local file <close> = assert(io.open(path, "wb"))
  file:write(text)
end

local function run(command)
  local pipe <close> = assert(io.popen(command))
  return pipe:read("a")
end

local function temporary()
  local path = run("mktemp -d"):match("[^\n]+")
  finally(function() os.execute("rm -rf '" .. path .. "'") end)
  return path
end

-- The blocks of a page in `language` (Lua), joined, each line at its line
-- number in the page.
local function script_of(path, language)
  local lines, inside = {}, false
  for line in (read(path) .. "\n"):gmatch("(.-)\n") do
    local fence = line:match("^```(.*)")
    if fence then inside = fence == (language or "lua") and not inside end
    lines[#lines + 1] = (inside and not fence) and line or ""
  end
  return table.concat(lines, "\n") .. "\n"
end

-- What a script says that it prints.
local function promised(script)
  local lines = {}
  for text in script:gmatch("%-%-> ?([^\n]*)") do lines[#lines + 1] = text .. "\n" end
  return table.concat(lines)
end

local function run_in(directory, script)
  write(directory .. "/page.lua", script)
  return run(("cd '%s' && %s %s page.lua 2>&1"):format(directory, PATHS, LUA))
end

local function run_at_prompt(directory, script)
  write(directory .. "/page.lua", script)
  return run(("cd '%s' && %s %s -i < page.lua 2>&1"):format(directory, PATHS, LUA))
end

describe("README.md", function()
  local SHOWN = "0\talice\ttea\n1\tbob\tcoffee\n2\talice\tcake\n3\tnil\tclosing time\n" ..
                "4\tbob\tnil\n5 -> 3\n2\talice\tcake\n3\tnil\tclosing time\n4\tbob\tnil\n"

  it("shows a first look that runs as a script", function()
    assert.equal(SHOWN, run_in(temporary(), script_of("README.md")))
  end)

  it("shows a first look that can be pasted at the prompt", function()
    local output = run_at_prompt(temporary(), script_of("README.md"))
    for line in SHOWN:gmatch("[^\n]+\n") do
      assert(output:find(line, 1, true), "not printed: " .. line .. output)
    end
    assert.is_nil(output:find("stdin:", 1, true), output)
  end)
end)

describe("the blocks of", function()
  for page in io.popen("ls docs/*.md"):lines() do
    local script = script_of(page)
    if script:find("%S") then
      it(page .. " print what the page says", function()
        assert.equal(promised(script), (run_in(temporary(), script):gsub("\t", "  ")))
      end)

      it(page .. " print that at the prompt, too", function()
        local output, from = run_at_prompt(temporary(), script):gsub("\t", "  "), 1
        for line in promised(script):gmatch("([^\n]+)\n") do
          local _, last = output:find(line, from, true)
          assert(last, "not printed: " .. line .. "\n" .. output)
          from = last + 1
        end
        assert.is_nil(output:find("\nstdin:", 1, true), output)
      end)
    end
  end
end)

describe("the failure that docs/disks.md shows", function()
  it("is printed so by a program of its own", function()
    local shown = read("docs/disks.md"):match("```text\n(check fails.-)```")
    local directory = temporary()
    write(directory .. "/queue.lua", [[
local minikafka = require "minikafka"

local function logs(disk)
  return minikafka.open("/jobs", { io = disk }), minikafka.open("/done", { io = disk })
end

minikafka.explore {
  run = function(disk, ack)
    local jobs = logs(disk)
    local offset = jobs:append { value = "a job" }
    ack("accepted", offset)
    jobs:flush()
  end,
  check = function(disk, acked)
    local jobs = logs(disk)
    assert(jobs.log_end_offset >= #acked, "an accepted job is lost")
  end,
}
]])
    local printed = run(("cd '%s' && %s %s queue.lua 2>&1"):format(directory, PATHS, LUA))
    local folded = shown:gsub("seed 1:\n", "seed 1: ")
    assert.equal(folded, printed:sub(1, #folded))
  end)
end)

describe("the C program of docs/guide.md", function()
  it("compiles against the public header alone, and runs", function()
    local directory = temporary()
    write(directory .. "/page.c", script_of("docs/guide.md", "c"))
    local output = run(("cd '%s' && %s -std=c11 -Wall -Wextra -Werror %s -I'%s/csrc/include' " ..
                        "page.c '%s/libminikafka.a' -pthread -o page 2>&1 && ./page 2>&1")
                         :format(directory, os.getenv("CC") or "cc",
                                 os.getenv("MINIKAFKA_CFLAGS") or "", ROOT, BUILD))
    assert.equal("offset 0\n", output)
  end)
end)

describe("the public headers", function()
  it("compile as C++, without a warning", function()
    local compiler = os.getenv("CC") or "cc"
    if run(compiler .. " -x c++ -fsyntax-only /dev/null 2>&1") ~= "" then
      pending("there is no C++ compiler")
      return
    end
    local directory = temporary()
    write(directory .. "/page.cc", "#include <minikafka_sim.h>\n")
    for _, standard in ipairs { "c++11", "c++20" } do
      assert.equal("", run(("%s -x c++ -std=%s -fsyntax-only -Wall -Wextra -Wpedantic " ..
        "-Wold-style-cast -Werror -I'%s/csrc/include' '%s/page.cc' 2>&1")
        :format(compiler, standard, ROOT, directory)))
    end
  end)
end)

describe("a link", function()
  it("leads to a file that is there", function()
    local broken = {}
    for page in io.popen("ls *.md docs/*.md"):lines() do
      local folder = page:match("^(.*/)") or ""
      for target in read(page):gmatch("%]%(([^)#]+)%)") do
        local file <close> = not target:find("://") and io.open(folder .. target)
        if not file and not target:find("://") then
          broken[#broken + 1] = page .. ": " .. target
        end
      end
    end
    assert.same({}, broken)
  end)
end)
