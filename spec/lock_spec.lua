-- One writer a directory: in this process, in another, through any name.

local minikafka = require "minikafka"
local tmp = require "spec.support.tmp"
local expect = require "spec.support.expect"

local function own_pid()
  local file <close> = assert(io.open("/proc/self/stat"))
  return tostring(file:read("n"))
end

-- What another process gets when it opens `dir` and appends a record there.
local function from_outside(dir)
  return tmp.child(([[
    local minikafka = require "minikafka"
    local done, raised = pcall(function()
      local log <close> = minikafka.open(%q)
      return log:append { value = "from outside" }
    end)
    io.write(done and "offset " .. raised
      or raised.code .. "\n" .. tostring(raised))
  ]]):format(dir))
end

describe("the lock", function()
  after_each(tmp.clean)

  it("B64: keeps a second opener out, and names the first", function()
    local log <close> = minikafka.open(tmp.path())
    local raised = expect.error("LOCKED", minikafka.open, log.directory)
    assert.truthy(raised.path:find(log.directory, 1, true))
    assert.truthy(tostring(raised):find(own_pid() .. ", which is this one", 1, true))
    assert.equal(0, log:append { value = "v" })
  end)

  it("B63: keeps another process out, before it changes anything", function()
    local log <close> = minikafka.open(tmp.path())
    log:append { value = "v" }
    local before = tmp.fingerprint(log.directory)
    local text = from_outside(log.directory)
    assert.truthy(text:find("^LOCKED\n"), text)
    assert.truthy(text:find(own_pid(), 1, true), text)
    assert.falsy(text:find("this one", 1, true), text)
    assert.equal(before, tmp.fingerprint(log.directory))
  end)

  it("B63: is let go at close, for this process and others", function()
    local log = minikafka.open(tmp.path())
    log:append { value = "v" }
    log:close()
    assert.equal("offset 1", (from_outside(log.directory)))
    local again <close> = minikafka.open(log.directory)
    assert.equal(2, again.log_end_offset)
  end)

  it("B63: goes with the process that holds it", function()
    local dir = tmp.path()
    local _, _, kind, number = tmp.child(([[
      local log = require "minikafka".open(%q)
      log:append { value = "returned" }
      local stat = assert(io.open("/proc/self/stat"))
      os.execute("kill -9 " .. stat:read("n"))
    ]]):format(dir))
    assert.equal("signal", kind)
    assert.equal(9, number)
    local log <close> = minikafka.open(dir)
    assert.equal("returned", log:fetch(0)[1].value)
  end)

  it("B63: holds through every name of the directory", function()
    local parent = tmp.dir()
    local log <close> = minikafka.open(parent .. "/log")
    log:append { value = "v" }
    assert(os.execute(("ln -s log %s/link"):format(parent)))
    for _, name in ipairs { "/log/", "/log/.", "/./log", "//log", "/link",
      "/link/../log" } do
      expect.error("LOCKED", minikafka.open, parent .. name)
      local text = from_outside(parent .. name)
      assert.truthy(text:find("^LOCKED\n"), text)
    end
    local text = tmp.child([[
      local minikafka = require "minikafka"
      local _, raised = pcall(minikafka.open, "log")
      io.write(raised.code)
    ]], ("cd %s; exec"):format(tmp.quote(parent)))
    assert.equal("LOCKED", text)
  end)

  it("B64: survives whatever becomes of a second opener", function()
    local log <close> = minikafka.open(tmp.path())
    for _ = 1, 100 do
      expect.error("LOCKED", minikafka.open, log.directory)
    end
    collectgarbage()
    collectgarbage()
    assert.truthy(from_outside(log.directory):find("^LOCKED\n"))
    assert.equal(0, log:append { value = "v" })
  end)

  it("B64: is let go when the log is collected", function()
    local dir = tmp.path()
    do
      local log = minikafka.open(dir)
      log:append { value = "v" }
    end
    collectgarbage()
    collectgarbage()
    local again <close> = minikafka.open(dir)
    assert.equal(1, again.log_end_offset)
  end)

  it("B63: is not asked for by a read-only opener", function()
    local log <close> = minikafka.open(tmp.path())
    log:append { value = "v" }
    local reader <close> = minikafka.open(log.directory,
      { read_only = true })
    assert.equal(1, reader.log_end_offset)
    local second <close> = minikafka.open(log.directory,
      { read_only = true })
    assert.equal(1, second.log_end_offset)
    log:append { value = "w" }
    assert.equal(2, #reader:fetch(0))
  end)

  it("B80: is not inherited by other programs", function()
    local log = minikafka.open(tmp.path())
    log:append { value = "v" }
    local pipe <close> = assert(io.popen("ls -l /proc/self/fd"))
    assert.is_nil(pipe:read("a"):find(log.directory, 1, true))
    log:close()
  end)
end)
