-- Writes a user's participation summary unless a newer one is there.
-- KEYS: the summary; ARGV: its revision, its JSON, its life in seconds
local known = redis.call('GET', KEYS[1])
if known then
    local is_json, summary = pcall(cjson.decode, known)
    if is_json and type(summary) == 'table' and type(summary.revision) == 'number'
        and summary.revision > tonumber(ARGV[1]) then
        return 'older'
    end
end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
return 'written'
