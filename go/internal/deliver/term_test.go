package deliver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestATermEndsBeforeTheLeaseAndIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := seeded(t)
		parent, cancel := context.WithCancel(context.Background())
		defer cancel()
		var shared terms
		last, made := context.Context(nil), 0
		for range 2000 {
			time.Sleep(time.Duration(rng.Int64N(int64(20 * time.Second))))
			term := 15 * time.Minute
			if rng.IntN(50) == 0 {
				term = time.Duration(1 + rng.Int64N(int64(time.Hour)))
			}
			now := time.Now()
			ctx := shared.of(parent, now, now.Add(term))
			end, ok := ctx.Deadline()
			if left := end.Sub(now); !ok || left > term-term/termPart || left < term-2*(term/termPart)-1 {
				t.Fatalf("of a lease of %v the attempt has %v", term, left)
			}
			if ctx != last {
				last = ctx
				made++
			}
		}
		if made > 400 {
			t.Errorf("%d contexts for 2000 attempts", made)
		}
		if shared.of(parent, time.Now(), time.Time{}) != parent {
			t.Error("a lease without an end ends")
		}
	})
}
