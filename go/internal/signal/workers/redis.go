package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	heartbeatMax = 1024 // bytes of a value
	scanCount    = 1000 // keys that Redis looks at in one step
	scansMax     = 256  // steps of one reading
	chunkMax     = 512  // heartbeats fetched in one round trip
)

// heartbeats finds and reads the keys of one breaker's workers. A value is fetched up to its bound
// and together with its TTL, which MGET could not.
func (r *Registry) heartbeats(ctx context.Context, breaker string) (heartbeats, error) {
	found := heartbeats{reports: map[string]report{}}
	head := r.o.Prefix + ":worker:" + breaker + ":"
	keys, err := r.keys(ctx, head)
	if err != nil {
		return found, err
	}
	for chunk := range slices.Chunk(keys, chunkMax) {
		pipeline := r.o.Redis.Pipeline()
		values := make([]*redis.StringCmd, len(chunk))
		ttls := make([]*redis.DurationCmd, len(chunk))
		for i, key := range chunk {
			values[i] = pipeline.GetRange(ctx, key, 0, heartbeatMax)
			ttls[i] = pipeline.PTTL(ctx, key)
		}
		// The first error of a command is what Exec gives; each one is looked at by itself.
		if _, err := pipeline.Exec(ctx); err != nil && !isReply(err) {
			return found, err
		}
		for i, key := range chunk {
			worker, ttl := key[len(head):], ttls[i].Val()
			switch err := values[i].Err(); {
			case ttl == gone:
			case err != nil:
				found.spoil(worker, err)
			default:
				found.add(worker, values[i].Val(), ttl)
			}
		}
	}
	return found, nil
}

// What PTTL says instead of a time, as go-redis gives it.
const (
	gone    = -2 * time.Nanosecond
	forever = -1 * time.Nanosecond
)

// isReply tells an error that Redis gave as the reply of one command, as on a key of another type,
// from one of the connection.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// keys finds the keys that begin with head. Redis gives some twice.
func (r *Registry) keys(ctx context.Context, head string) ([]string, error) {
	quoted := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(head)
	seen := map[string]bool{}
	var cursor uint64
	for range scansMax {
		keys, next, err := r.o.Redis.Scan(ctx, cursor, quoted+"*", scanCount).Result()
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			if len(key) > len(head) {
				seen[key] = true
			}
		}
		if len(seen) > PerBreakerMax {
			return nil, fmt.Errorf("%w: more than %d heartbeats", ErrFull, PerBreakerMax)
		}
		if cursor = next; cursor == 0 {
			found := make([]string, 0, len(seen))
			for key := range seen {
				found = append(found, key)
			}
			return found, nil
		}
	}
	return nil, fmt.Errorf("more than %d keys lie in this Redis; give the heartbeats a database of "+
		"their own", scansMax*scanCount)
}

func parseHeartbeat(text string, ttl time.Duration) (report, error) {
	switch {
	case ttl == forever:
		return report{}, errors.New("the key has no TTL; set it with EX")
	case ttl > ttlMax:
		return report{}, fmt.Errorf("a TTL of %v, want up to %v", ttl, ttlMax)
	case len(text) > heartbeatMax:
		return report{}, fmt.Errorf("longer than %d bytes", heartbeatMax)
	}
	var j struct {
		State  string `json:"state"`
		SpanMS int64  `json:"state_ms"`
	}
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return report{}, err
	}
	s, err := parseState(j.State)
	if err != nil {
		return report{}, err
	}
	if j.SpanMS < 0 || j.SpanMS > stateMax.Milliseconds() {
		return report{}, fmt.Errorf("state_ms %d, want 0 to %d", j.SpanMS, stateMax.Milliseconds())
	}
	return report{state: s, span: time.Duration(j.SpanMS) * time.Millisecond}, nil
}
