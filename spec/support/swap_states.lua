-- What a swap of directories can leave, and what opening makes of it: the list
-- behind the table of docs/recovery.md and spec/swap_spec.lua.
--
-- A *state* of a directory is what it is and, after a blank, what the note in
-- it says. A *rule* names states of the three directories and what opening
-- does; the first rule that fits holds.

local swap_states = {}

--- The states that a directory can be in: {name, what it means}.
swap_states.states = {
  { "missing", "there is nothing of that name" },
  { "file", "something that is not a directory" },
  { "empty", "nothing in it, or the beginnings of a first note" },
  { "other", "other things in it, but no log" },
  { "other ready", "the same, with the note that it was complete" },
  { "other strange", "the same, with a note that proves nothing: cut short, "
    .. "damaged, of an unknown version, or for a directory of another name" },
  { "building", "the note says that it is not complete" },
  { "damaged", "a log that has less than its own state says, or a damaged closed segment" },
  { "damaged ready", "" },
  { "damaged strange", "" },
  { "log", "a sound log" },
  { "log ready", "" },
  { "log strange", "" },
}

-- Words for several states at once.
local sets = {
  any = function() return true end,
  ["any ready"] = function(state) return state:find("ready") end,
  ["any noted"] = function(state)
    return state == "building" or state:find("ready") or state:find("strange")
  end,
  ["any directory"] = function(state)
    return state ~= "missing" and state ~= "file"
  end,
  ["any log"] = function(state) return state:find("^log") end,
  ["any damaged"] = function(state) return state:find("^damaged") end,
  ["no directory"] = function(state)
    return state == "missing" or state == "file"
  end,
}

--- The rules, in order. `live`, `new` and `old` list states or words for
-- several, `opens` what is opened: "live", "old", "new" (which get the name),
-- "nothing" (a new log is made), "error" (SWAP_AMBIGUOUS), "as it is" (no swap
-- explains it: what is there is opened as any other). `goes` is what is
-- removed, if it is a directory: "new", "old", "both", or "new if ours": if it
-- is empty or has a note for this log.
swap_states.rules = {
  { live = "log, log strange", new = "any ready", old = "any log",
    opens = "error", why = "three logs, and none of them explains the others" },
  { live = "log, log strange", new = "any", old = "any",
    opens = "live", goes = "new if ours", why = "the swap was not made" },
  { live = "log ready", new = "any directory", old = "any directory",
    opens = "error", why = "a swap leaves one of them, not both" },
  { live = "log ready", new = "any", old = "any",
    opens = "live", goes = "both", why = "the swap was made" },
  { live = "missing", new = "any", old = "log",
    opens = "old", goes = "new if ours", why = "a death between two renames" },
  { live = "missing", new = "missing, file, any ready", old = "log ready",
    opens = "old", goes = "new if ours",
    why = "the same; the note is the last swap's" },
  { live = "missing", new = "log ready", old = "damaged, damaged ready",
    opens = "new", goes = "both",
    why = "the same, and the old tree was damaged since" },
  { live = "missing", new = "any", old = "building, any damaged, any log",
    opens = "error", why = "there was a log, and nothing sound proves to be it" },
  { live = "missing", new = "any noted", old = "any",
    opens = "error", why = "there was a log" },
  { live = "missing", new = "any", old = "any",
    opens = "nothing", goes = "new if ours", why = "no sign of a log" },
  { live = "building, other ready, other strange", new = "any", old = "any",
    opens = "error", why = "no swap puts that there" },
  { live = "any", new = "any", old = "building, any damaged, any log",
    opens = "error", why = "what is there is no sound log, and another may be" },
  { live = "any", new = "any noted", old = "any",
    opens = "error", why = "the same" },
  { live = "damaged ready, damaged strange", new = "any directory", old = "any",
    opens = "error", why = "the same" },
  { live = "damaged ready, damaged strange", new = "any", old = "any directory",
    opens = "error", why = "the same" },
  { live = "any", new = "any", old = "any",
    opens = "as it is", goes = "new if ours", why = "no sign of a swap" },
}

local function matches(list, state)
  for word in list:gmatch("[^,]+") do
    word = word:match("^%s*(.-)$")
    if word == state or sets[word] and sets[word](state) then
      return true
    end
  end
  return false
end

--- Return the rule that holds for these states, and its number.
function swap_states.find(live, new, old)
  for number, rule in ipairs(swap_states.rules) do
    if matches(rule.live, live) and matches(rule.new, new)
      and matches(rule.old, old) then
      return rule, number
    end
  end
end

--- Is a new tree in this state empty, or has it a note for this log?
function swap_states.is_ours(state)
  return state == "empty" or state == "building" or state:find("ready") ~= nil
end

-- ---- The page ----

local outcomes = {
  live = "the log's own directory",
  old = "the old one, which gets its name back",
  new = "the new one, which gets the name",
  nothing = "a new log is made",
  error = "`SWAP_AMBIGUOUS`; nothing is changed",
  ["as it is"] = "what is there, as if no swap had ever been",
}

local removals = {
  ["new if ours"] = "the new one, if it is empty or has a note for this log",
  both = "what stands beside it",
}

--- Return the table of rules, in Markdown.
function swap_states.page()
  local lines = {
    "| | the log's own | new | old | what is opened | what is removed | why |",
    "|---|---|---|---|---|---|---|",
  }
  for number, rule in ipairs(swap_states.rules) do
    lines[#lines + 1] = ("| %d | %s | %s | %s | %s | %s | %s |"):format(number,
      rule.live, rule.new, rule.old, outcomes[rule.opens],
      removals[rule.goes] or "nothing", rule.why)
  end
  return table.concat(lines, "\n") .. "\n"
end

--- Return the list of states, in Markdown.
function swap_states.glossary()
  local lines = { "| state | |", "|---|---|" }
  for _, state in ipairs(swap_states.states) do
    local text = state[2]
    if text ~= "" then
      lines[#lines + 1] = ("| %s | %s |"):format(state[1], text)
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

return swap_states
