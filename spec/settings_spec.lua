-- The tables of docs/settings.md agree with the module, and the names that Lua
-- programs can use all stand in the guides.

local minikafka = require "minikafka"

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read("a")
end

-- The lines of the page's tables below a heading: lists of cells.
local function rows_below(heading)
  local page = read("docs/settings.md")
  local from = assert(select(2, page:find("\n## " .. heading .. "\n", 1, true)), heading)
  local rows = {}
  for line in page:sub(from, page:find("\n## ", from, true)):gmatch("\n(|[^\n]+|)%f[\n]") do
    local row = {}
    for cell in line:gmatch("| ([^|]*) ") do row[#row + 1] = cell:match("^(.-)%s*$") end
    if row[1] and row[1]:find("^`") then rows[#rows + 1] = row end
  end
  return rows
end

local function names_in(cells)
  local names = {}
  for _, cell in ipairs(cells) do
    for name in cell:gmatch("`([a-z0-9_]+)`") do names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

local function firsts(rows)
  local cells = {}
  for i, row in ipairs(rows) do cells[i] = row[1] end
  return cells
end

local function sorted_keys(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local function open() return minikafka.open("/log", { io = minikafka.SimDisk() }) end

-- Of a table `<what>[] = {"...", ...}` or `{{"...", function}, ...}` in C.
local function names_of(path, what)
  local names = {}
  for list in read(path):gmatch(what .. "%[%] = (%b{});") do
    for name in list:gmatch('"([a-z_]+)"') do names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

describe("docs/settings.md", function()
  it("has the options of open, of which none is a setting", function()
    assert.same(names_of("csrc/lua/lmk_log.c", "names"),
      names_in(firsts(rows_below("Options of `open`"))))
  end)

  it("has all settings with their defaults", function()
    local log <close> = open()
    local told = {}
    for _, row in ipairs(rows_below("Settings of a topic")) do
      local name = names_in{ row[1] }[1]
      local value = log.config[name]
      told[name] = true
      assert.equal(value == math.maxinteger and "no limit" or ("`%s`"):format(value), row[2],
        name)
    end
    assert.same(sorted_keys(log.config), sorted_keys(told))
  end)

  it("has the fields of a log and of a segment", function()
    assert.same(names_of("csrc/lua/lmk_log.c", "fields"),
      names_in(firsts(rows_below("Fields of a log"))))
    local log <close> = open()
    for name in pairs(log.active_segment) do
      assert(read("docs/settings.md"):find("`" .. name .. "`", 1, true), name)
    end
  end)

  it("has all that stats tells", function()
    local log <close> = open()
    local stats = log:stats()
    for _, name in ipairs(names_in(firsts(rows_below("Fields of a log")))) do
      stats[name] = nil
    end
    stats.lost_from_offset, stats.lost_to_offset = 0, 0
    assert.same(sorted_keys(stats),
      names_in(firsts(rows_below("What `log:stats()` counts"))))
  end)
end)

describe("the guides", function()
  it("have every method, field and option", function()
    local text, missing = read("README.md"), {}
    for page in io.popen("ls docs/*.md"):lines() do text = text .. read(page) end
    local function look_for(name, where)
      if not text:find("%f[%w_]" .. name .. "%f[^%w_]") then
        missing[#missing + 1] = where .. ": " .. name
      end
    end
    for path in io.popen("ls csrc/lua/*.c lua/minikafka/*.lua"):lines() do
      local source = read(path)
      for name in source:gmatch('\n%s+{"(%a[%w_]+)", [%w_]+}') do
        if not path:find("lmk_core") or minikafka[name] then look_for(name, path) end
      end
      for name in source:gmatch('lmk_option_%w+%(L, %w+, "([a-z_]+)"') do look_for(name, path) end
      for name in source:gmatch('lmk_push_option%(L, %w+, "([a-z_]+)"') do look_for(name, path) end
      for list in source:gmatch("local [%w_]*names = (%b{})") do
        for name in list:gmatch('"([a-z_]+)"') do look_for(name, path) end
      end
      for list in source:gmatch("local %w+_options = (%b{})") do
        for name in list:gmatch('"([a-z_]+)"') do look_for(name, path) end
      end
    end
    for name in pairs(minikafka.keys) do look_for(name, "keys") end
    assert.same({}, missing)
  end)
end)
