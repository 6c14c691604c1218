package share

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// answerPatience bounds each step of a command: connect, write, read.
	answerPatience = 2 * time.Second
	connectionsMax = 4
)

// Connect makes a client for redis://[user:password@]host:port/db or rediss://. It fails fast and
// repeats nothing; it connects when it is used. The caller closes it, after the boards on it.
func Connect(url string) (*redis.Client, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		// Its text repeats parts of the URL.
		return nil, errors.New("the Redis URL cannot be read; " +
			"write it as redis://user:password@host:6379/0 or rediss://")
	}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = answerPatience, answerPatience, answerPatience
	o.ContextTimeoutEnabled = true
	o.MaxRetries, o.DialerRetries = -1, 1
	o.PoolSize = connectionsMax
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	// The library writes to stderr by itself what it also returns as errors.
	logging.Disable()
	return redis.NewClient(o), nil
}
