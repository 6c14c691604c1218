package config

import "reflect"

// NeedsRestart names the keys that differ between a running config and a new one and that a reload
// cannot change, because what they name is opened once in a daemon's life.
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
	differ("workers", c.Workers != next.Workers)
	differ("ring_size", c.RingSize != next.RingSize)
	differ("listeners", !reflect.DeepEqual(c.Listeners, next.Listeners))
	differ("http.max_connections", c.HTTP.MaxConnections != next.HTTP.MaxConnections)
	differ("admin.socket", c.Admin.Socket != next.Admin.Socket)
	differ("admin.address", c.Admin.Address != next.Admin.Address)
	differ("admin.http", c.Admin.HTTP != next.Admin.HTTP)
	differ("redis", !reflect.DeepEqual(c.Redis, next.Redis))
	return keys
}
