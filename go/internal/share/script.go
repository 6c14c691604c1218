package share

import "github.com/redis/go-redis/v9"

// later tells in Lua whether a comes behind b in byte order; its own operator goes by the locale.
const later = `
local function later(a, b)
	for i = 1, math.min(#a, #b) do
		local x, y = string.byte(a, i), string.byte(b, i)
		if x ~= y then return x > y end
	end
	return #a > #b
end
local function rank(note) return string.match(note, '^[^\n]*') end
`

// publishScript keeps a note that is newer than the one in the hash and tells it to all; of one
// that is not it gives the newer one back. The last argument is a note that this host cannot read,
// which counts for nothing.
var publishScript = redis.NewScript(later + `
local known = redis.call('HGET', KEYS[1], ARGV[1])
if known and known ~= ARGV[3] and not later(rank(ARGV[2]), rank(known)) then return known end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PUBLISH', KEYS[1], ARGV[2])
return ''
`)

// beatScript shows this host for some time, forgets those that were not seen for theirs, and
// counts. All times are by the clock of Redis.
var beatScript = redis.NewScript(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return redis.call('ZCARD', KEYS[1])
`)

// probeScript leases the probe. A host that does not know the newest note gets that instead: the
// probe may have been made already. The last argument is as above. A token is above all before it
// even where Redis came back empty, since it is no less than the time in µs.
var probeScript = redis.NewScript(later + `
local known = redis.call('HGET', KEYS[3], ARGV[1])
if known and known ~= ARGV[4] and later(rank(known), ARGV[2]) then return {'', known} end
if redis.call('EXISTS', KEYS[1]) == 1 then return {'', ''} end
local token = redis.call('INCR', KEYS[2])
local time = redis.call('TIME')
local floor = time[1] * 1000000 + time[2]
if token < floor then
	token = floor
	redis.call('SET', KEYS[2], string.format('%.0f', token))
end
local text = string.format('%.0f', token)
redis.call('SET', KEYS[1], text, 'PX', ARGV[3], 'NX')
return {text, ''}
`)

// endScript gives a lease back unless it is another's by now.
var endScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
`)
