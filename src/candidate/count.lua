-- Counts one shard of a pool: the sum of its revisions, how many members it has, and how many of
-- them are eligible, absent, unfinished, and both. Changes nothing.
-- KEYS: sorted set user -> score; hash user -> revision
return {
    redis.call('HGET', KEYS[2], 'sum') or '0',
    redis.call('ZCARD', KEYS[1]),
    redis.call('ZCOUNT', KEYS[1], 0, 1),
    redis.call('ZCOUNT', KEYS[1], -1, -1),
    redis.call('ZCOUNT', KEYS[1], -2, -2),
    redis.call('ZCOUNT', KEYS[1], -3, -3),
}
