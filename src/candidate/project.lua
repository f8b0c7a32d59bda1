-- Writes what MySQL decided about users into one shard of an activity's pool.
-- The higher revision wins; an equal one is written again, which changes nothing unless it was lost.
-- KEYS: sorted set user -> score; hash user -> revision, with `sum`, the sum of all revisions
-- ARGV: when both lapse (Unix time in ms), then user, revision, score for each user
local raised = 0
for i = 2, #ARGV, 3 do
    local known = tonumber(redis.call('HGET', KEYS[2], ARGV[i]) or '0')
    local revision = tonumber(ARGV[i + 1])
    if revision >= known then
        redis.call('ZADD', KEYS[1], ARGV[i + 2], ARGV[i])
    end
    if revision > known then
        redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
        raised = raised + revision - known
    end
end
redis.call('HINCRBY', KEYS[2], 'sum', raised)
redis.call('PEXPIREAT', KEYS[1], ARGV[1])
redis.call('PEXPIREAT', KEYS[2], ARGV[1])
return 'projected'
