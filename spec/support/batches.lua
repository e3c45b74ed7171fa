-- Record batches as bytes: where they are in a .log file, and their checksum.

local batches = {}

local function crc_table()
  local entries = {}
  for i = 0, 255 do
    local crc = i
    for _ = 1, 8 do
      crc = (crc >> 1) ~ (0x82F63B78 * (crc & 1))
    end
    entries[i] = crc
  end
  return entries
end

local entries = crc_table()

local function crc32c(bytes)
  local crc = 0xFFFFFFFF
  for i = 1, #bytes do
    crc = entries[(crc ~ bytes:byte(i)) & 0xFF] ~ (crc >> 8)
  end
  return crc ~ 0xFFFFFFFF
end

-- Make a batch's checksum fit its bytes.
function batches.seal(bytes)
  return bytes:sub(1, 17) .. (">I4"):pack(crc32c(bytes:sub(22)))
    .. bytes:sub(22)
end

-- Put `bytes` in the place of as many at `position`, from 0.
function batches.patch(whole, position, bytes)
  return whole:sub(1, position) .. bytes .. whole:sub(position + #bytes + 1)
end

-- The batches of a file's bytes: {base_offset, position, codec, bytes}, codec
-- as a number. What is no whole batch any more ends the list.
function batches.split(bytes)
  local list, at = {}, 1
  while at + 61 <= #bytes + 1 do
    local base_offset, length = (">i8i4"):unpack(bytes, at)
    if length < 49 or at + 12 + length > #bytes + 1 then
      break
    end
    list[#list + 1] = { base_offset = base_offset, position = at - 1,
      codec = bytes:byte(at + 22) & 7,
      bytes = bytes:sub(at, at + 11 + length) }
    at = at + 12 + length
  end
  return list
end

return batches
