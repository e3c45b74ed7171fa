-- An opening that refuses a damaged directory changes nothing in it, whatever
-- else stands there to be put in order.

local minikafka = require "minikafka"
local collector = require "spec.support.collector"

local PATH = "/d/t-0"

local ACTS = {
  { "delete_records", function(log) log:delete_records(5) end },
  { "retention", function(log)
    minikafka.RetentionManager():apply(log, { retention_bytes = 200 })
  end },
  { "delete_closed_segments", function(log)
    log:delete_closed_segments { 0, 2 }
  end },
  { "truncate_to", function(log) log:truncate_to(5) end },
  { "truncate_to the start", function(log) log:truncate_to(0) end },
  { "a roll", function(log)
    log:append_kv("k", "v")
    log:roll()
  end },
  { "a compaction", function(log) minikafka.LogCompactor():compact(log) end },
}

-- Names and bytes of the log's directory. A compaction's note is not the log's.
local function image(disk)
  local parts = {}
  for _, path in ipairs(disk:list()) do
    local name = path:match "/t%-0/(.+)$"
    if name and name ~= "minikafka.swap" then
      parts[#parts + 1] = path .. "=" .. disk:read(path):gsub(".", function(byte)
        return ("%02x"):format(byte:byte())
      end)
    end
  end
  return table.concat(parts, "\n")
end

-- The disks that a death at each step of `act` leaves.
local function deaths_of(act)
  local disk = minikafka.SimDisk { seed = 1 }
  local log = minikafka.open(PATH, { io = disk })
  for i = 0, 9 do
    log:append_kv("k" .. i % 3, "v" .. i)
    if i % 2 == 1 then log:roll() end
  end
  local disks = {}
  disk:trace(function() disks[#disks + 1] = disk:clone() end)
  act(log)
  disk:trace(nil)
  for _, dead in ipairs(disks) do dead:crash { keep = "kill9" } end
  return disks
end

-- A copy of the disk on which a log has a bit turned over in its last record.
local function damage(disk, path)
  local copy, bytes = disk:clone(), disk:read(path)
  if #bytes == 0 then return nil end
  copy:write(path, bytes:sub(1, -4) .. string.char(bytes:byte(-3) ~ 1) ..
    bytes:sub(-2))
  return copy
end

describe("an opening that refuses", function()
  setup(collector.relax)
  teardown(collector.restore)

  for _, act in ipairs(ACTS) do
    it("changes nothing after a death in " .. act[1], function()
      local refused = 0
      for step, disk in ipairs(deaths_of(act[2])) do
        for _, path in ipairs(disk:list()) do
          local damaged = path:find "/t%-0/.+%.log$" and damage(disk, path)
          if damaged then
            local before = image(damaged)
            local good, raised = pcall(minikafka.open, PATH, { io = damaged })
            if not good then
              assert(minikafka.is_error(raised, "CORRUPT_SEGMENT") or
                minikafka.is_error(raised, "SWAP_AMBIGUOUS"), raised)
              assert.equal(before, image(damaged), ("step %d, %s"):format(step, path))
              refused = refused + 1
            end
          end
        end
      end
      assert.is_true(refused > 0)
    end)
  end
end)
