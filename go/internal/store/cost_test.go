package store

import (
	"context"
	"testing"
	"time"
)

func TestStatsTellWhatTheWorkCosts(t *testing.T) {
	b := newBench(t, nil)
	deadline := time.Now().Add(10 * time.Second)
	for cpu := (CPU{}); cpu.Committer == 0 || cpu.Applier == 0 || cpu.Engine == 0; {
		if time.Now().After(deadline) {
			t.Fatalf("after 10 s of work: %+v", cpu)
		}
		b.take(plain("x"))
		b.must(b.flush(context.Background()))
		cpu = b.Stats().CPU
	}
}
