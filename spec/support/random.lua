-- Numbers from a seed (SplitMix64), the same on every machine and whoever else
-- draws from math.random in between.

local random = {}
random.__index = random

function random.new(seed)
  return setmetatable({ state = seed }, random)
end

function random:bits()
  self.state = self.state + 0x9E3779B97F4A7C15
  local z = self.state
  z = (z ~ (z >> 30)) * 0xBF58476D1CE4E5B9
  z = (z ~ (z >> 27)) * 0x94D049BB133111EB
  return z ~ (z >> 31)
end

-- An integer in low..high.
function random:int(low, high)
  return low + (self:bits() >> 1) % (high - low + 1)
end

-- True once in `n` times.
function random:one_in(n)
  return self:int(1, n) == 1
end

function random:pick(list)
  return list[self:int(1, #list)]
end

function random:bytes(count)
  local bytes = {}
  for i = 1, count do
    bytes[i] = string.char(self:int(0, 255))
  end
  return table.concat(bytes)
end

return random
