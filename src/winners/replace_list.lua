-- Puts a list that was built beside the current one in its place, unless the current one is newer.
--
-- KEYS[1]  list         hash win record id -> winner JSON, and "-" = {"round":n,"rows":n,"revoked":[…]},
--                       without "revoked" for a prize
-- KEYS[2]  built list   the same, in the slot of the list
-- ARGV[1]  round of the built list
-- ARGV[2]  rows of the built list, without "-"
-- ARGV[3]  life of the list, seconds
--
-- Returns the name of the outcome: "replaced", "newer" (the current list has a higher round) or
-- "incomplete" (the built list is not what it should be: it took so long that it lapsed).

local current = redis.call('HGET', KEYS[1], '-')
if current then
    local ok, mark = pcall(cjson.decode, current)
    if ok and type(mark) == 'table' and type(mark.round) == 'number'
        and mark.round > tonumber(ARGV[1]) then
        redis.call('DEL', KEYS[2])
        return 'newer'
    end
end
if redis.call('HLEN', KEYS[2]) ~= tonumber(ARGV[2]) + 1 then
    return 'incomplete'
end
redis.call('RENAME', KEYS[2], KEYS[1])
redis.call('EXPIRE', KEYS[1], ARGV[3])
return 'replaced'
