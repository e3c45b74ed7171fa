--- Numbers by chance that are the same everywhere for the same seed.
--
-- SplitMix64 (Steele, Lea and Flood, 2014): math.random would share its state
-- with the caller's program, and its algorithm belongs to the Lua version.

local random = {}

--- Return a function like math.random: without an argument a float in [0, 1),
-- with one an integer in 1..n.
function random.new(seed)
  local state = seed

  return function(n)
    state = state + 0x9E3779B97F4A7C15
    local z = state
    z = (z ~ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ~ (z >> 27)) * 0x94D049BB133111EB
    z = z ~ (z >> 31)
    if n then
      return (z >> 1) % n + 1
    end
    return (z >> 11) * 0x1p-53
  end
end

return random
