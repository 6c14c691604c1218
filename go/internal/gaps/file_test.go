package gaps

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/shm-abi/shmabi"
)

// filled is a desk whose ledger has something of everything, saved.
func filled(t testing.TB) *desk {
	d := newDesk(t, bounds{gaps: 3, ids: 100, idsPerGap: 10})
	p := newFake(t, 7, 2, d.now)
	d.Attach(p.plane())
	for i := range 6 {
		p.refuse(i%2, i%3, shmabi.ShedHold, fmt.Sprint("id \"", i))
		p.count(0, i%2, shmabi.ShedRate, 2)
		d.look(time.Minute)
	}
	d.save(false)
	return d
}

func (d *desk) shown() string { return fmt.Sprint(d.List(Filter{})) }

func TestAFileThatCannotBeBelievedIsSetAside(t *testing.T) {
	d := filled(t)
	good := d.mem.Dump(ledgerFile)
	instead := func(old, by string) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.Replace(b, []byte(old), []byte(by), 1) }
	}
	for name, damage := range map[string]func([]byte) []byte{
		"empty":        func([]byte) []byte { return []byte{} },
		"cut":          func(b []byte) []byte { return b[:len(b)-2] },
		"longer":       func(b []byte) []byte { return append(b, ' ') },
		"a line":       func(b []byte) []byte { return b[:bytes.IndexByte(b, '\n')+1] },
		"zeroes":       func(b []byte) []byte { return make([]byte, len(b)) },
		"other kind":   instead("gaps", "gasp"),
		"later format": instead(":1,", ":2,"),
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, bounds{})
			bad := damage(bytes.Clone(good))
			d.mem.Put(ledgerFile, bad)
			d.open()
			if list := d.List(Filter{}); len(list) != 0 || len(d.planes) != 0 {
				t.Errorf("it holds %+v", list)
			}
			kept := d.mem.Names(ledgerFile)
			if len(kept) != 1 || !strings.HasPrefix(kept[0], ledgerFile+".damaged-2026") ||
				!bytes.Equal(d.mem.Dump(kept[0]), bad) {
				t.Errorf("kept %v", kept)
			}
			p := newFake(t, 1, 1, d.now)
			d.Attach(p.plane())
			p.count(0, 0, shmabi.ShedHold, 1)
			d.look(time.Second)
			d.save(false)
			d.kill()
			if g := d.one(); g.Count != 1 {
				t.Errorf("afterwards: %+v", g)
			}
		})
	}
}

func TestNoFlippedBitIsBelieved(t *testing.T) {
	d := filled(t)
	good, want := d.mem.Dump(ledgerFile), d.shown()
	head := bytes.IndexByte(good, '\n')
	for at := range good {
		bad := bytes.Clone(good)
		bad[at] ^= 1 << (at % 8)
		body, err := decode(bad)
		if err == nil && at > head {
			t.Fatalf("a bit of byte %d is flipped, and %+v is believed", at, body)
		}
		// In the first line some flips change only letters' case, which JSON's names do not mind.
		if err == nil {
			d.mem.Put(ledgerFile, bad)
			if d.open(); d.shown() != want {
				t.Fatalf("a bit of byte %d is flipped, and another ledger is believed", at)
			}
		}
	}
}

func TestACrashLeavesTheLedgerOfOneSave(t *testing.T) {
	seed := seedOf(t)
	// A save has so many steps: halt at each of them.
	count := filled(t)
	before := count.mem.Steps()
	p := newFake(t, 8, 1, count.now)
	count.Attach(p.plane())
	p.count(0, 0, shmabi.ShedHold, 1)
	count.look(time.Minute)
	count.save(false)
	steps := count.mem.Steps() - before
	if steps < 5 {
		t.Fatalf("a save has %d steps", steps)
	}
	olds, news := 0, 0
	for step := 1; step <= steps+1; step++ {
		for try := range 20 {
			d := filled(t)
			old := d.shown()
			p := newFake(t, 8, 1, d.now)
			d.Attach(p.plane())
			p.count(0, 0, shmabi.ShedHold, 1)
			d.look(time.Minute)
			fresh := d.shown()
			if step <= steps {
				d.mem.HaltAt(d.mem.Steps() + step)
			}
			d.save(false)
			if d.mem.Halted() != (step <= steps) {
				t.Fatalf("step %d: halted %v", step, d.mem.Halted())
			}
			random := rand.New(rand.NewPCG(seed, uint64(step*100+try)))
			if try%2 == 0 {
				d.mem = d.mem.Crash(random)
			} else {
				d.mem = d.mem.Kill(random)
			}
			d.open()
			switch d.shown() {
			case old:
				olds++
				if step > steps {
					t.Errorf("a save that was done is lost")
				}
			case fresh:
				news++
			default:
				t.Fatalf("step %d: the ledger is %s, neither\n%s nor\n%s", step, d.shown(), old, fresh)
			}
			// What the crash left is no hindrance for the next save.
			d.Attach(p.plane())
			d.look(time.Second)
			d.save(true)
			d.kill()
			if slices.Contains(d.mem.Names("data"), ledgerFile+".new") {
				t.Errorf("step %d: a draft is left: %v", step, d.mem.Names("data"))
			}
		}
	}
	if olds == 0 || news == 0 {
		t.Errorf("%d times the old one, %d times the new one", olds, news)
	}
}

func FuzzDecode(f *testing.F) {
	d := newDesk(f, bounds{})
	d.changes = 1
	d.save(false)
	f.Add(d.mem.Dump(ledgerFile))
	f.Fuzz(func(t *testing.T, data []byte) {
		d := newDesk(t, bounds{gaps: 3, ids: 10, idsPerGap: 2})
		d.mem.Put(ledgerFile, data)
		d.open()
		d.List(Filter{})
		d.save(true)
	})
}
