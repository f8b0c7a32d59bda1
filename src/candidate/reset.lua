-- Empties one shard of a pool, so that it can be filled again from MySQL.
-- KEYS: sorted set user -> score; hash user -> revision
redis.call('UNLINK', KEYS[1], KEYS[2])
return 'empty'
