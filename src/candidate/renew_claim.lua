-- Makes a claim last on, for its holder alone.
-- KEYS: the claim; ARGV: its holder, its life in ms
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 'lost'
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 'renewed'
