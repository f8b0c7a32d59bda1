-- Takes one user out of one shard of a pool that decides nothing any more.
-- KEYS: sorted set user -> score; hash user -> revision, with `sum`, the sum of all revisions
-- ARGV: the user
redis.call('ZREM', KEYS[1], ARGV[1])
local revision = redis.call('HGET', KEYS[2], ARGV[1])
if revision then
    redis.call('HDEL', KEYS[2], ARGV[1])
    redis.call('HINCRBY', KEYS[2], 'sum', '-' .. revision)
end
return 'forgotten'
