package gaps

import (
	"fmt"
	"testing"
	"time"

	"sluice/shm-abi/shmabi"
)

// BenchmarkLook is a look at a data plane that refuses with ids what it gets, by sources.
func BenchmarkLook(b *testing.B) {
	for _, refusals := range []int{0, 100} {
		b.Run(fmt.Sprint(refusals, " refused"), func(b *testing.B) {
			d := newDesk(b, bounds{})
			p := newFake(b, 1, 2, d.now)
			d.Attach(p.plane())
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				for n := range refusals {
					p.refuse(n%2, n%3, shmabi.ShedHold, fmt.Sprint(i, "-", n))
				}
				b.StartTimer()
				d.look(100 * time.Millisecond)
			}
		})
	}
}

// BenchmarkEncode is the file of a full ledger.
func BenchmarkEncode(b *testing.B) {
	d := newDesk(b, bounds{})
	p := newFake(b, 1, 1, d.now)
	d.Attach(p.plane())
	for i := range gapsMax {
		for n := range idsMax / gapsMax {
			p.refuse(0, i%3, shmabi.ShedHold, fmt.Sprintf("3f2a7c0e-%08d-%08d", i, n))
		}
		d.look(time.Minute)
	}
	for b.Loop() {
		data, err := d.encode()
		must(b, err)
		b.SetBytes(int64(len(data)))
	}
}
