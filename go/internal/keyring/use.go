package keyring

import (
	"sync/atomic"

	"sluice/go/internal/provider"
)

// use counts what one secret has proved since the start. It outlives reloads and the content of a
// file: what is counted is the place a secret comes from.
type use struct {
	verified atomic.Uint64
	last     atomic.Int64 // when it was received, ns since 1970
}

func (u *use) count(atNS int64) {
	u.verified.Add(1)
	if atNS > u.last.Load() {
		u.last.Store(atNS) // of two at once either will do
	}
}

// useOf finds the counts of a secret, or begins them.
func (r *Ring) useOf(name, key string, s *provider.Secret) *use {
	key = name + "\x00" + key + "\x00" + s.KeyID + "\x00" + s.Role
	if r.uses[key] == nil {
		r.uses[key] = &use{}
	}
	return r.uses[key]
}
