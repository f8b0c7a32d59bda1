-- Shows a user's cool-down, unless a longer one is shown, that of a newer win.
--
-- KEYS[1]  period  string, a win record id
-- ARGV[1]  win record id
-- ARGV[2]  what is left of its cool-down, milliseconds
--
-- Returns 1 when it is shown now, else 0.

if redis.call('PTTL', KEYS[1]) > tonumber(ARGV[2]) then
    return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
