-- A small strict JSON reader. Objects and arrays become tables, an integer
-- stays an integer, null becomes `json.null`. Anything else than JSON raises.

local json = { null = setmetatable({}, { __tostring = function()
  return "null"
end }) }

local escapes = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t",
  ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }

local words = { ["true"] = true, ["false"] = false, ["null"] = json.null }

local value -- The text at `at` as a value, and where it ends.

local function fail(at, what)
  error(("JSON: %s at byte %d"):format(what, at), 0)
end

local function skip(text, at)
  return text:find("[^ \t\r\n]", at) or #text + 1
end

-- Read \uXXXX, at the X's, and its second half if it is the first of a pair.
local function unicode(text, at)
  local code = tonumber(text:match("^%x%x%x%x", at) or fail(at, "bad \\u"), 16)
  if code < 0xD800 or code > 0xDFFF then
    return utf8.char(code), at + 4
  end
  local low = text:match("^\\u([dD][c-fC-F]%x%x)", at + 4)
  if code > 0xDBFF or not low then
    fail(at, "half a surrogate pair")
  end
  low = tonumber(low, 16)
  return utf8.char(0x10000 + (code - 0xD800) * 0x400 + low - 0xDC00), at + 10
end

-- Read a string, from behind its opening quote.
local function string_at(text, at)
  local parts = {}
  while true do
    local stop = text:find('[%c"\\]', at) or fail(at, "open string")
    parts[#parts + 1] = text:sub(at, stop - 1)
    local char = text:sub(stop, stop)
    if char == '"' then
      return table.concat(parts), stop + 1
    elseif char ~= "\\" then
      fail(stop, "control character")
    end
    local escape = text:sub(stop + 1, stop + 1)
    if escape == "u" then
      parts[#parts + 1], at = unicode(text, stop + 2)
    else
      parts[#parts + 1] = escapes[escape] or fail(stop, "bad escape")
      at = stop + 2
    end
  end
end

local function number_at(text, at)
  local digits = text:match("^-?[0-9]+%.?[0-9]*[eE]?[+-]?[0-9]*", at)
  local number = digits and tonumber(digits)
  if not number or digits:find("^-?0[0-9]") or digits:find("%.$") then
    fail(at, "bad number")
  end
  return number, at + #digits
end

-- Read the members of an array or object up to `close`; `member` reads one.
local function members(text, at, close, member)
  at = skip(text, at)
  if text:sub(at, at) == close then
    return at + 1
  end
  while true do
    at = skip(text, member(at))
    local char = text:sub(at, at)
    if char == close then
      return at + 1
    elseif char ~= "," then
      fail(at, "no comma")
    end
    at = skip(text, at + 1)
  end
end

local function array_at(text, at)
  local array = {}
  return array, members(text, at, "]", function(from)
    array[#array + 1], from = value(text, from)
    return from
  end)
end

local function object_at(text, at)
  local object = {}
  return object, members(text, at, "}", function(from)
    if text:sub(from, from) ~= '"' then
      fail(from, "no name")
    end
    local name, colon = string_at(text, from + 1)
    colon = skip(text, colon)
    if text:sub(colon, colon) ~= ":" or object[name] ~= nil then
      fail(colon, "no colon, or a name twice")
    end
    object[name], from = value(text, skip(text, colon + 1))
    return from
  end)
end

function value(text, at)
  local char = text:sub(at, at)
  if char == "{" then
    return object_at(text, at + 1)
  elseif char == "[" then
    return array_at(text, at + 1)
  elseif char == '"' then
    return string_at(text, at + 1)
  end
  local word = text:match("^%l+", at)
  if word and words[word] ~= nil then
    return words[word], at + #word
  end
  return number_at(text, at)
end

-- Return the value that `text` is.
function json.decode(text)
  local result, at = value(text, skip(text, 1))
  if skip(text, at) <= #text then
    fail(at, "more than one value")
  end
  return result
end

-- Iterate over the lines of a file of one JSON value a line.
function json.lines(path)
  local next_line = io.lines(path)
  return function()
    local line = next_line()
    return line and json.decode(line)
  end
end

return json
