package config

import (
	"bytes"
	"reflect"
	"slices"
)

// NeedsRestart names the keys that differ between a running config and a new one and that only a
// restart changes, because what they name is opened once in a daemon's life.
func (c *Config) NeedsRestart(next *Config) []string {
	var keys []string
	differ := func(key string, is bool) {
		if is {
			keys = append(keys, key)
		}
	}
	differ("data_dir", c.DataDir != next.DataDir)
	differ("shm_dir", c.ShmDir != next.ShmDir)
	differ("journal", c.Journal != next.Journal)
	differ("admin.socket", c.Admin.Socket != next.Admin.Socket)
	differ("admin.address", c.Admin.Address != next.Admin.Address)
	differ("admin.http", c.Admin.HTTP != next.Admin.HTTP)
	differ("secrets_key", !slices.EqualFunc(c.SecretsKey, next.SecretsKey, sameSecret))
	differ("redis", !reflect.DeepEqual(c.Redis, next.Redis))
	return keys
}

// NeedsDataplane names the keys that differ and that only a new data plane takes up, because they
// are about its sockets, its threads or what it may do. All others change in the living one.
func (c *Config) NeedsDataplane(next *Config) []string {
	var keys []string
	differ := func(key string, is bool) {
		if is {
			keys = append(keys, key)
		}
	}
	differ("workers", c.Workers != next.Workers)
	differ("ring_size", c.RingSize != next.RingSize)
	differ("driver", c.Driver != next.Driver)
	differ("sandbox", c.Sandbox != next.Sandbox)
	differ("user", c.User != next.User)
	differ("listeners", !slices.EqualFunc(c.Listeners, next.Listeners, sameSockets))
	differ("http.max_connections", c.HTTP.MaxConnections != next.HTTP.MaxConnections)
	return keys
}

// sameSockets leaves out what is agreed on a connection: that changes for the next one.
func sameSockets(a, b Listener) bool {
	return a.Address == b.Address && a.Backlog == b.Backlog && a.DeferAccept == b.DeferAccept &&
		a.KeepAlive == b.KeepAlive && a.Mode == b.Mode
}

func sameSecret(a, b Secret) bool { return bytes.Equal(a.Reveal(), b.Reveal()) }
