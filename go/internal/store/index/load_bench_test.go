package index

import (
	"context"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"testing"

	"sluice/go/internal/event"
)

// BenchmarkLoadFilters is what a start does before lookups of dedup keys need no rows: for eight
// million keys, of which some are always read from rows.
func BenchmarkLoadFilters(b *testing.B) {
	const keys = 8_000_000
	for name, least := range map[string]int64{"rows": math.MaxInt64, "kept": keepBytesMin} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			opened := func() *Index {
				x, err := Open(dir, Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
				if err != nil {
					b.Fatal(err)
				}
				x.keepBytes = least
				return x
			}
			x := opened()
			x.Meta().Horizon = keptDay * dayNS
			rng := rand.New(rand.NewPCG(1, 1))
			for n := range keys {
				d := Dedup{Source: 1, First: event.ID{1}, Until: keptDay*dayNS + 1}
				for i := range d.Key {
					d.Key[i] = byte(rng.Uint32())
				}
				x.AddDedup(d)
				if n%8192 == 0 || n == keys-1 {
					if err := x.Commit(); err != nil {
						b.Fatal(err)
					}
				}
			}
			if err := x.Close(); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			for range b.N {
				b.StopTimer()
				x := opened()
				b.StartTimer()
				if err := x.LoadFilters(context.Background()); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := x.Abandon(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
