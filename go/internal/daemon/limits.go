package daemon

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sluice/go/internal/config"
	"sluice/go/internal/lane"
)

// staticLimit is in force where the config asks for an adaptive algorithm, none of which is in this
// version: high enough for one group of a fast disk, low enough to bound what waits in a slow one.
const staticLimit = 1024

// limits publishes the numbers that admission works by: fixed ones, and what an operator pins.
type limits struct {
	control *lane.Control

	mu     sync.Mutex
	config config.Admission
	pinned *time.Timer
	until  time.Time
}

func newLimits(c *config.Config, control *lane.Control) *limits {
	l := &limits{control: control, config: c.Admission}
	l.publish()
	return l
}

func (l *limits) configure(c *config.Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.config = c.Admission
	l.publish()
}

// publish stores the numbers; the caller holds the lock, but for the first time.
func (l *limits) publish() {
	if l.pinned == nil {
		l.control.StoreLimit(uint64(l.own()))
	}
	l.control.StoreMaxHeld(uint64(l.config.MaxHeld))
	l.control.StoreHoldBudgetNS(uint64(l.config.HoldBudget))
}

// own is the limit without a pin.
func (l *limits) own() int {
	if l.config.Algorithm == "fixed" {
		return l.config.InitialLimit
	}
	return min(staticLimit, l.config.MaxLimit)
}

// set pins the limit for a while.
func (l *limits) set(limit uint64, d time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	low, high := uint64(l.config.MinLimit), uint64(l.config.MaxLimit)
	if limit < low || limit > high {
		return fmt.Errorf("limit %d: the config bounds it to %d..%d", limit, low, high)
	}
	if d <= 0 {
		return errors.New("a pin lasts longer than 0")
	}
	l.unpin()
	l.until = time.Now().Add(d)
	var own *time.Timer
	own = time.AfterFunc(d, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.pinned == own { // not if it fired while another pin took its place
			l.unpin()
			l.publish()
		}
	})
	l.pinned = own
	l.control.StoreLimit(limit)
	return nil
}

// stop ends a pin's clock; the control page is not written any more.
func (l *limits) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unpin()
}

// reset lets the limit go.
func (l *limits) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unpin()
	l.publish()
}

func (l *limits) unpin() {
	if l.pinned != nil {
		l.pinned.Stop()
		l.pinned, l.until = nil, time.Time{}
	}
}

// bootNow is the boot clock in ns, as the data plane reads it.
func bootNow() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0 // no kernel that we run on lacks it
	}
	return uint64(t.Nano())
}
