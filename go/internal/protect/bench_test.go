package protect

import (
	"errors"
	"testing"
	"time"

	"sluice/go/internal/breaker"
	"sluice/go/internal/destination"
	"sluice/go/internal/event"
)

func BenchmarkAClosedGate(b *testing.B) {
	for name, groups := range map[string][]string{"alone": nil, "in a group": {"db"}} {
		b.Run(name, func(b *testing.B) {
			s := New(Options{})
			config := breaker.Default()
			config.Latency = 500 * time.Millisecond
			err := s.Apply(Config{
				Targets: []Target{{ID: 1, Name: "billing", Breaker: config, Groups: groups}},
				Groups:  []Group{{Name: "db", Breaker: config}},
			})
			if err != nil {
				b.Fatal(err)
			}
			g := s.Gate(1)
			now := time.Now()
			result := destination.Delivery(200)
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Microsecond)
				g.Admit(now, 1)
				g.Report(now, result, event.Done, time.Millisecond)
			}
		})
	}
}

func BenchmarkNotClosed(b *testing.B) {
	s := New(Options{})
	if err := s.Apply(Config{Targets: []Target{{ID: 1, Name: "billing"}}}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if s.NotClosed(1) {
			b.Fatal(errors.New("not closed"))
		}
	}
}
