-- Gives a claim back, for its holder alone.
-- KEYS: the claim; ARGV: its holder
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 'lost'
end
redis.call('DEL', KEYS[1])
return 'released'
