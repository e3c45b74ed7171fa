--- The changes that `make mutants` makes to the engine still fit it.

local mutants = dofile "spec/mutants/list.lua"

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

describe("the mutants", function()
  it("are forty at least", function()
    assert.is_true(#mutants >= 40)
  end)

  it("stand for text that is there once, and tests that are there", function()
    for i, mutant in ipairs(mutants) do
      local path, old, new, tests = table.unpack(mutant)
      local text = read(path)
      local from, to = text:find(old, 1, true)
      assert.message(("mutant %d: %s: %s"):format(i, path, old)).is_truthy(from)
      assert.message(("mutant %d: twice"):format(i))
        .is_nil(text:find(old, to + 1, true))
      assert.are_not.equal(old, new)
      assert.is_true(#tests > 0)
      for _, name in ipairs(tests) do
        read("spec/c/test_" .. name .. ".c")
      end
    end
  end)
end)
