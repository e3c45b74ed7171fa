-- Calls that have to fail, and how.

local minikafka = require "minikafka"

local expect = {}

-- `call(...)` raises an error object with this code. Returns the object.
function expect.error(code, call, ...)
  local done, raised = pcall(call, ...)
  if done then
    error(("%s expected, nothing was raised"):format(code), 2)
  end
  if not minikafka.is_error(raised, code) then
    error(("%s expected, raised was: %s"):format(code, tostring(raised)), 2)
  end
  local sentence = tostring(raised)
  assert(type(raised.message) == "string" and #raised.message > 0)
  assert(#sentence > 0 and not sentence:find("\n"), "not one sentence")
  assert(raised.code == code)
  return raised
end

-- `call(...)` raises an ordinary argument error that names `name`.
function expect.argument_error(name, call, ...)
  local done, raised = pcall(call, ...)
  if done then
    error(("an argument error about '%s' expected"):format(name), 2)
  end
  if type(raised) ~= "string" or not raised:find("bad argument", 1, true)
    or not raised:find(name, 1, true) then
    error(("an argument error about '%s' expected, raised was: %s"):format(
      name, tostring(raised)), 2)
  end
  return raised
end

-- Offset, key and value of records, short: "3 a=1" (keyless "3 -=1").
function expect.brief(records)
  local lines = {}
  for i, record in ipairs(records) do
    lines[i] = ("%d %s=%s"):format(record.offset, record.key or "-",
      record.value or "-")
  end
  return lines
end

return expect
