-- Looks at one shard of a pool: the sum of its revisions, how many members it has, how many of
-- them are eligible, and the best of those with their scores, best first. Changes nothing.
-- KEYS: sorted set user -> score; hash user -> revision
-- ARGV: how many of the best
return {
    redis.call('HGET', KEYS[2], 'sum') or '0',
    redis.call('ZCARD', KEYS[1]),
    redis.call('ZCOUNT', KEYS[1], 0, 1),
    redis.call('ZREVRANGEBYSCORE', KEYS[1], 1, 0, 'WITHSCORES', 'LIMIT', 0, ARGV[1]),
}
