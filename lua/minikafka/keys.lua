--- Generators of keys, for minikafka.workload.
--
-- A generator is a function (random, index) -> key: `random` is like
-- math.random, `index` counts the workload's records from 0. It keeps no state
-- of its own, so that one generator may serve several workloads. Any function
-- of that shape will do.

local core = require "minikafka.core"

local keys = {}

local function key(number)
  return ("key-%d"):format(number)
end

local function check_count(n, name)
  local count = core.integer(n)
  if not count then
    error(("bad argument #1 to '%s' (n: integer expected, got %s)")
      :format(name, math.type(n) or type(n)), 3)
  end
  if count < 1 then
    core.raise{ code = "INVALID_ARGUMENT",
      message = ("n is %d, and must be at least 1"):format(count) }
  end
  return count
end

--- Each of `n` keys is as likely as any other.
function keys.uniform(n)
  local count = check_count(n, "uniform")

  return function(random)
    return key(random(count) - 1)
  end
end

--- The key with number i (from 0) has a likelihood of 1 / (i + 1)^s: a few keys
-- are hot, most are rare. `s` is 1 if left out; 0 makes all alike.
function keys.zipf(n, s)
  local count = check_count(n, "zipf")
  local exponent = s == nil and 1 or s
  if not math.type(exponent) then
    error(("bad argument #2 to 'zipf' (s: number expected, got %s)")
      :format(type(s)), 2)
  end
  if not (exponent >= 0 and exponent < math.huge) then
    core.raise{ code = "INVALID_ARGUMENT",
      message = ("s is %s, and must be a number from 0 up"):format(exponent) }
  end
  local sums, total = {}, 0.0
  for i = 1, count do
    total = total + i ^ -exponent
    sums[i] = total
  end

  return function(random)
    local wanted = random() * total
    local low, high = 1, count
    while low < high do
      local middle = (low + high) // 2
      if sums[middle] > wanted then
        high = middle
      else
        low = middle + 1
      end
    end
    return key(low - 1)
  end
end

--- One key after the other; after `n` of them from the first again, or never
-- if `n` is left out.
function keys.sequence(n)
  local count = n and check_count(n, "sequence") or math.maxinteger

  return function(_, index)
    return key(index % count)
  end
end

return keys
