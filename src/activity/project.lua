-- Writes an activity's detail unless a newer version is there already.
--
-- KEYS[1]  detail      string, JSON with a numeric field "version"
-- ARGV[1]  the detail to write, JSON
-- ARGV[2]  its version
-- ARGV[3]  time to live, milliseconds
--
-- Returns "written", or "older" when what is stored has a higher version.

local stored = redis.call('GET', KEYS[1])
if stored then
    local is_json, detail = pcall(cjson.decode, stored)
    if is_json and type(detail) == 'table' and type(detail.version) == 'number'
        and detail.version > tonumber(ARGV[2]) then
        return 'older'
    end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
return 'written'
