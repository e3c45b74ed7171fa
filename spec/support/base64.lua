-- Bytes written as base64.

local base64 = {}

local values = {}
for i = 1, 64 do
  values[("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    :byte(i)] = i - 1
end

function base64.decode(text)
  local bytes, bits, count = {}, 0, 0
  for char in text:gmatch("[^=]") do
    bits = bits << 6 | assert(values[char:byte()])
    count = count + 6
    if count >= 8 then
      count = count - 8
      bytes[#bytes + 1] = string.char(bits >> count & 0xFF)
    end
  end
  return table.concat(bytes)
end

return base64
