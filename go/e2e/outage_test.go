package e2e

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	pb "sluice/proto/sluice/v1"
	"sluice/shm-abi/shmabi"
)

func TestWithoutControlPlaneEveryRequestGets503(t *testing.T) {
	for _, how := range []string{"stopped", "killed"} {
		t.Run(how, func(t *testing.T) {
			i := install(t, withSecret(secret, "durable")) // with a deadline of 1 s
			i.start()
			if how == "stopped" {
				i.freeze()
			} else {
				i.killControl()
			}
			forged := github("/hooks/github", "forged", "{}")
			forged.body = "{ }"
			requests := []request{
				github("/hooks/github", "d-1", "{}"), forged, github("/hooks/github", "d-2", "{}"),
			}
			var wires []*wire
			for _, r := range requests {
				w := i.dial(t)
				must(t, w.write(r.bytes()))
				wires = append(wires, w)
			}
			for _, w := range wires {
				a, err := w.read("POST")
				must(t, err)
				retryAfter(t, a, 503, "Overloaded")
				if a.closes() {
					t.Errorf("%v", a)
				}
			}
			if how == "stopped" {
				i.signal(syscall.SIGCONT)
			} else {
				i.start()
			}
			// A sender comes again, on the same connection: stored once, whatever lies in the lane.
			for n, want := range []int{200, 401, 200} {
				if a := wires[n].ask(t, requests[n]); a.code != want {
					t.Errorf("again: %v, want %d", a, want)
				}
			}
			eventually(t, "the lane is drained", i.drained)
			if list := i.events(nil); len(list) != 2 {
				t.Errorf("listed: %v, want each delivery once", list)
			}
			i.stop()
		})
	}
}

func TestAControlPlaneBackInsideTheBudgetStillAnswers2xx(t *testing.T) {
	i := install(t, "sources:\n"+githubSource("github", "durable", "")+
		githubSource("ring", "ring", ""))
	i.start()
	pid := i.plane()
	kept := i.dial(t) // idle all the time
	if a := kept.ask(t, github("/hooks/github", "kept-0", "{}")); a.code != 200 {
		t.Fatal(a)
	}
	halt, dials := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(dials)
		for {
			w, err := connect(i.address)
			if err != nil {
				dials <- err
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
	for round := range count(4, 20) {
		var wires []*wire
		ask := func(name string) {
			w := i.dial(t)
			must(t, w.write(github("/hooks/"+name, fmt.Sprintf("%s-%d", name, round), "{}").bytes()))
			wires = append(wires, w)
		}
		if round%2 == 0 {
			i.freeze()
			ask("github")
			ask("ring")
			i.signal(syscall.SIGCONT)
		} else {
			i.freeze()
			ask("github")
			i.killControl()
			ask("ring")
			i.start()
		}
		for _, w := range wires {
			a, err := w.read("POST")
			must(t, err)
			if a.code != 200 {
				t.Errorf("round %d: %v", round, a)
			}
		}
		a := kept.ask(t, github("/hooks/github", fmt.Sprintf("kept-%d", round+1), "{}"))
		if a.code != 200 {
			t.Errorf("round %d, on the connection that is kept: %v", round, a)
		}
		if now := i.plane(); now != pid {
			t.Fatalf("round %d: data plane %d, it was %d", round, now, pid)
		}
		if s := i.status(); s.GetGeneration() != 1 || int(s.GetDataplane().GetPid()) != pid {
			t.Errorf("round %d: status says %v", round, s.GetDataplane())
		}
	}
	close(halt)
	if err := <-dials; err != nil {
		t.Errorf("a connect failed: %v", err)
	}
	if list := i.events(nil); len(list) != 1+3*count(4, 20) {
		t.Errorf("%d events are listed, want %d", len(list), 1+3*count(4, 20))
	}
}

func TestASilentDataPlaneDoesNotBlockAStart(t *testing.T) {
	i := install(t, "sources:\n"+githubSource("github", "durable", "")+
		githubSource("ring", "ring", ""))
	i.start()
	want := map[string]bool{
		i.accepted(github("/hooks/github", "d-1", "{}")): true,
		i.accepted(github("/hooks/ring", "d-2", "{}")):   true,
	}
	pid := i.plane()
	must(t, syscall.Kill(pid, syscall.SIGSTOP))
	i.killControl()
	i.start()
	if now := i.plane(); now == pid {
		t.Error("the silent data plane is still there")
	}
	if g := i.status().GetGeneration(); g != 2 {
		t.Errorf("generation %d, want 2", g)
	}
	want[i.accepted(github("/hooks/github", "d-3", "{}"))] = true
	for _, e := range i.events(nil) {
		delete(want, e.GetId())
	}
	if len(want) > 0 {
		t.Errorf("lost: %v", want)
	}
}

func TestAFullLaneShedsAndLosesNothing(t *testing.T) {
	const senders = 60
	i := install(t, "ring_size: 1MiB\nhttp: {max_body: 64KiB}\n"+withSecret(secret, "durable"))
	i.start()
	w := i.dial(t)
	first := w.ask(t, github("/hooks/github", "first", "{}"))
	i.freeze()
	body := strings.Repeat("x", 60<<10)
	requests := make([]request, senders)
	wires := make([]*wire, senders)
	var work sync.WaitGroup
	for n := range senders {
		requests[n] = github("/hooks/github", fmt.Sprintf("d-%d", n), body)
		wires[n] = i.dial(t)
		work.Go(func() {
			a, err := wires[n].exchange(requests[n])
			if err != nil || a.code != 503 || a.get("X-Backpressure-Reason") != "Overloaded" ||
				a.get("Retry-After") == "" {
				t.Errorf("%d: %v %v", n, a, err)
			}
		})
	}
	work.Wait()
	i.signal(syscall.SIGCONT)
	eventually(t, "the lane is drained", i.drained)
	stored := len(i.events(nil))
	if stored >= senders {
		t.Errorf("%d events fit into a lane of 1 MiB", stored)
	}
	t.Logf("%d of %d lay in the lane when their senders gave up", stored-1, senders)
	for n := range senders {
		if a := wires[n].ask(t, requests[n]); a.code != 200 {
			t.Errorf("%d again: %v", n, a)
		}
	}
	list := i.events(nil)
	if len(list) != senders+1 || list[senders].GetId() != first.get("X-Event-Id") {
		t.Errorf("%d events are listed, want %d", len(list), senders+1)
	}
}

func TestALaneOfAnotherVersionIsKeptAndNamed(t *testing.T) {
	i := install(t, withSecret(secret, "durable"))
	i.start()
	i.accepted(github("/hooks/github", "d-1", "{}"))
	i.killBoth()
	lanes, err := filepath.Glob(filepath.Join(i.shm, "*", "lanes", "*"))
	must(t, err)
	if len(lanes) != 1 {
		t.Fatalf("lanes: %v", lanes)
	}
	file, err := os.OpenFile(lanes[0], os.O_RDWR, 0)
	must(t, err)
	own := make([]byte, 8)
	binary.LittleEndian.PutUint64(own, shmabi.LayoutHash)
	word := make([]byte, 8)
	_, err = file.ReadAt(word, shmabi.LaneHeaderLayoutHashOffset)
	must(t, err)
	if !bytes.Equal(own, word) {
		t.Skip("these tests were built for another layout than the binaries")
	}
	_, err = file.WriteAt([]byte("strange!"), shmabi.LaneHeaderLayoutHashOffset)
	must(t, err)
	i.launch()
	if code := i.awaitExit(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if tail := i.logTail(1); !strings.Contains(tail, lanes[0]) || !strings.Contains(tail, "version") {
		t.Errorf("it says %q", tail)
	}
	if _, err := os.Stat(lanes[0]); err != nil {
		t.Errorf("the lane is gone: %v", err)
	}
	if left := i.planes(); len(left) > 0 {
		t.Errorf("data planes %v serve all the same", left)
	}
	_, err = file.WriteAt(own, shmabi.LaneHeaderLayoutHashOffset)
	must(t, err)
	must(t, file.Close())
	i.start()
	if list := i.events(nil); len(list) != 1 {
		t.Errorf("listed: %v", list)
	}
}

func TestAppendingGoesOnBehindATornTail(t *testing.T) {
	i := install(t, withSecret(secret, "durable"))
	i.start()
	i.accepted(github("/hooks/github", "A", `{"event":"A, which is whole"}`))
	i.accepted(github("/hooks/github", "B", `{"event":"B, which gets torn"}`))
	i.killBoth()
	must(t, os.RemoveAll(i.shm)) // a power loss: memory holds no witness either
	must(t, os.Mkdir(i.shm, 0o700))
	tear(t, i.data, "B, which gets torn")
	i.start()
	i.accepted(github("/hooks/github", "C", "{}"))
	i.accepted(github("/hooks/github", "D", "{}"))
	i.stop()
	i.start()
	var names []string
	for _, e := range i.events(nil) {
		names = append(names, e.GetProviderId())
	}
	if got := strings.Join(names, " "); got != "D C A" {
		t.Errorf("listed: %s, want D C A", got)
	}
}

func TestACutTailWithAWitnessIsReported(t *testing.T) {
	i := install(t, withSecret(secret, "durable"))
	i.start()
	i.accepted(github("/hooks/github", "A", `{"event":"A, which is whole"}`))
	i.accepted(github("/hooks/github", "B", `{"event":"B, which gets torn"}`))
	i.killBoth() // shared memory goes on and knows that B was durable
	tear(t, i.data, "B, which gets torn")
	i.start()
	if damage := i.status().GetJournal().GetDamage(); len(damage) == 0 {
		t.Error("an acknowledged event is gone, and nobody says so")
	}
	i.accepted(github("/hooks/github", "C", "{}"))
	if list := i.events(&pb.EventFilter{ProviderId: "A"}); len(list) != 1 {
		t.Errorf("what lay before the damage is gone, too: %v", list)
	}
}

// tear overwrites a journal file from the middle of a text on.
func tear(t testing.TB, dir, text string) {
	t.Helper()
	torn := errors.New("not found")
	must(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		all, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at := bytes.LastIndex(all, []byte(text))
		if at < 0 {
			return nil
		}
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		torn = file.Truncate(int64(at + len(text)/2))
		return errors.Join(file.Close())
	}))
	must(t, torn)
}
