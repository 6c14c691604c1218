package e2e

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"sluice/go/internal/faultpoint"
)

// both is a config with a source of each level, delivered to one destination.
func both(to *sink) string {
	return "sources:\n" + githubSource("ring", "ring", "billing") +
		githubSource("durable", "durable", "billing") + "destinations:\n" + to.config("billing")
}

// loaded waits until so many more deliveries were acknowledged.
func (f *traffic) loaded(more int) {
	f.i.t.Helper()
	from := f.acknowledged()
	eventually(f.i.t, "deliveries are acknowledged", func() bool {
		return f.acknowledged() >= from+more
	})
}

func TestA2xxSurvivesEveryKillOfEitherProcess(t *testing.T) {
	random := seeded(t)
	to := newSink(t)
	i := install(t, "workers: 2\n"+both(to))
	i.start()
	f := begin(i, random, 3, "ring", "durable")
	for round := range count(12, 30) {
		f.loaded(1 + random.IntN(400))
		time.Sleep(time.Duration(random.IntN(30)) * time.Millisecond) // any moment will do
		what := []string{"data plane", "control plane", "both"}[(round+random.IntN(2))%3]
		t.Logf("round %d: kill %s", round, what)
		switch what {
		case "data plane":
			i.killPlanes()
			eventually(t, "a new data plane serves", func() bool {
				return i.readyz() == 200 && len(i.planes()) == 1
			})
		case "control plane":
			i.killControl()
			i.start()
		default:
			if random.IntN(2) == 0 {
				i.killBoth()
			} else {
				i.killPlanes()
				i.killControl()
				i.killPlanes() // one that was started between the two
			}
			i.start()
		}
	}
	f.loaded(100)
	f.end()
	f.holds(t, to)
	t.Logf("%d deliveries, %d acknowledged", f.begun, f.acknowledged())
	i.stop()
	i.start()
	f.holds(t, to)
}

func TestACrashDuringRecoveryLosesNothing(t *testing.T) {
	random := seeded(t)
	to := newSink(t)
	i := install(t, "workers: 2\n"+both(to))
	for range count(4, 20) {
		i.start()
		f := begin(i, random, 2, "ring", "durable")
		f.loaded(1 + random.IntN(200))
		i.killControl()
		if random.IntN(2) == 0 {
			i.killPlanes()
		}
		for range 6 { // anywhere between the first lock and the first request
			i.launch()
			time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
			i.killControl()
			if random.IntN(3) == 0 {
				i.killPlanes()
			}
		}
		i.start()
		f.loaded(20)
		f.end()
		f.holds(t, to)
		if left := i.planes(); len(left) != 1 {
			eventually(t, "one data plane is left", func() bool { return len(i.planes()) == 1 })
		}
		i.killBoth()
	}
}

func TestADurable2xxSurvivesTheLossOfAllMemory(t *testing.T) {
	random := seeded(t)
	to := newSink(t)
	i := install(t, "workers: 2\n"+both(to))
	for range count(4, 20) {
		i.start()
		f := begin(i, random, 4, "durable")
		f.loaded(1 + random.IntN(300))
		i.killBoth()
		must(t, os.RemoveAll(i.shm))
		must(t, os.Mkdir(i.shm, 0o700))
		i.start()
		f.loaded(10)
		f.end()
		f.holds(t, to)
		if damage := i.status().GetJournal().GetDamage(); len(damage) > 0 {
			t.Errorf("damage is reported: %v", damage)
		}
		i.stop()
	}
}

func TestACrashAtEachStepLosesNothing(t *testing.T) {
	random := seeded(t)
	passes := []int{1, 2, 7, 30}
	if soak {
		passes = []int{1, 2, 3, 4, 5, 7, 11, 20, 50}
	}
	for _, point := range faultpoint.All {
		t.Run(string(point), func(t *testing.T) {
			to := newSink(t)
			i := install(t, both(to))
			for _, n := range passes {
				if point == faultpoint.LaneEnded {
					n = min(n, 2) // a lane ends once in the life of a data plane
				}
				f := begin(i, random, 2, "ring", "durable")
				i.launch("--fault-point", fmt.Sprintf("%s:%d", point, n))
				eventually(t, "the process reaches the step", func() bool {
					if point == faultpoint.LaneEnded && !i.exited() && i.readyz() == 200 {
						i.killPlanes()
					}
					return i.exited()
				})
				state, _ := i.control.ProcessState.Sys().(syscall.WaitStatus)
				if !state.Signaled() {
					t.Fatalf("it ended by itself, with %d", i.awaitExit())
				}
				if random.IntN(2) == 0 {
					i.killPlanes()
				}
				i.start()
				f.loaded(20)
				f.end()
				f.holds(t, to)
				i.killBoth()
			}
		})
	}
}

func TestListenersStayOpenWhileDataPlanesAreKilled(t *testing.T) {
	random := seeded(t)
	to := newSink(t)
	i := install(t, both(to))
	i.start()
	f := begin(i, random, 2, "ring", "durable")
	refused := make(chan error, 1)
	halt := make(chan struct{})
	go func() { // connects all the time; none may be refused
		defer close(refused)
		for {
			w, err := connect(i.address)
			if err != nil {
				refused <- err
				return
			}
			_ = w.conn.Close()
			select {
			case <-halt:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	before := i.status()
	kills := count(4, 10)
	for n := range kills {
		f.loaded(10)
		i.killPlanes()
		eventually(t, "the next generation serves", func() bool {
			s := i.status()
			return s.GetReady() && s.GetGeneration() == before.GetGeneration()+uint32(n)+1 &&
				s.GetDataplane().GetRestarts() == uint64(n)+1
		})
	}
	f.loaded(10)
	close(halt)
	if err := <-refused; err != nil {
		t.Errorf("a connect was refused: %v", err)
	}
	f.end()
	f.holds(t, to)
}
