package deliver

import (
	"context"
	"sync"
	"time"
)

// terms gives the contexts of attempts. One ends before the lease of its attempt does: the store
// hands the delivery out again then, and whoever hangs must not be at it still. Attempts whose
// leases end at about the same time share a context, for one of their own would cost each of them
// a timer.
type terms struct {
	mu    sync.Mutex
	ctx   context.Context
	end   context.CancelFunc
	until time.Time
}

// termPart is the part of a lease that is left for the outcome to be recorded, and also by how much
// the context may end earlier than that.
const termPart = 8

// of is the context of an attempt that begins now under a lease that ends at expires; zero: none
// that does.
func (t *terms) of(parent context.Context, now, expires time.Time) context.Context {
	if expires.IsZero() {
		return parent
	}
	part := expires.Sub(now) / termPart
	last := expires.Add(-part)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx == nil || t.until.After(last) || t.until.Before(last.Add(-part)) {
		// The one before it ends by itself: attempts are under it, and how many nobody counts.
		t.ctx, t.end = context.WithTimeout(parent, last.Sub(now))
		t.until = last
	}
	return t.ctx
}
