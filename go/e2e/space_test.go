package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	pb "sluice/proto/sluice/v1"
)

// mounted gives the installation a data directory on a file system of its own, of so many MiB, in a
// mount namespace that only it sees. It is skipped where the machine does not allow that.
func (i *installation) mounted(mib int) {
	i.t.Helper()
	if os.Geteuid() != 0 {
		i.t.Skip("only root can mount a small file system")
	}
	for _, name := range []string{"unshare", "nsenter", "mount"} {
		if _, err := exec.LookPath(name); err != nil {
			i.t.Skipf("no small file system: %v", err)
		}
	}
	must(i.t, os.MkdirAll(i.data, 0o700))
	ready := filepath.Join(i.dir, "mounted")
	holder := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c",
		`mount -t tmpfs -o size="$1"m none "$2" && : > "$3" && exec sleep 3600`, "sh",
		fmt.Sprint(mib), i.data, ready)
	var errs strings.Builder
	holder.Stderr = &errs
	must(i.t, holder.Start())
	ended := make(chan struct{})
	go func() {
		_ = holder.Wait() // it is killed, or said why
		close(ended)
	}()
	i.t.Cleanup(func() {
		_ = holder.Process.Kill()
		<-ended
	})
	refused := false
	eventually(i.t, "the file system is mounted", func() bool {
		select {
		case <-ended:
			refused = true
		default:
		}
		_, err := os.Stat(ready)
		return refused || err == nil
	})
	if refused {
		i.t.Skipf("no mount namespace: %s", strings.TrimSpace(errs.String()))
	}
	i.prefix = []string{"nsenter", fmt.Sprintf("--mount=/proc/%d/ns/mnt", holder.Process.Pid)}
}

// inside runs a shell command where the daemon sees its data directory.
func (i *installation) inside(script string) error {
	words := append(append([]string{}, i.prefix...), "sh", "-c", script, "sh", i.data)
	cmd := exec.Command(words[0], words[1:]...)
	return cmd.Run()
}

// fill sends until the journal takes no more, and gives what was acknowledged.
func (i *installation) fill(t *testing.T, prefix string, bodyBytes, most int) map[string]string {
	t.Helper()
	taken := map[string]string{}
	w := i.dial(t)
	body := strings.Repeat("x", bodyBytes)
	for n := range most {
		delivery := fmt.Sprintf("%s-%d", prefix, n)
		a := w.ask(t, github("/hooks/github", delivery, body))
		if a.code == 200 || queued(a) {
			taken[delivery] = a.get("X-Event-Id")
			continue
		}
		if seconds := retryAfter(t, a, 503, "Ingestion-Queue-Full"); seconds < 100 {
			t.Errorf("Retry-After: %d, want about 300", seconds)
		}
		return taken
	}
	t.Fatalf("%d events of %d bytes do not fill the journal", most, bodyBytes)
	return nil
}

// patient is a source whose events are tried at a destination until it takes them.
func patient(to *sink) string {
	return "sources:\n" + githubSource("github", "durable", "billing") + "destinations:\n" +
		"  billing:\n    http: {url: \"" + to.url + "\"}\n" +
		"    retry: {base: 2s, max: 4s, attempts: 1000}\n" +
		"    breaker: {cooldown: 1s, cooldown_max: 2s, ramp: [100, 1000], ramp_step: 500ms}\n"
}

// allReached wants what was acknowledged to have been delivered. Want of space may have taken it
// from the journal since.
func (i *installation) allReached(to *sink, taken map[string]bool) {
	i.t.Helper()
	i.awaitDelivered()
	for _, d := range to.all() {
		delete(taken, d.key)
	}
	if len(taken) > 0 {
		i.t.Errorf("acknowledged and never delivered: %v", taken)
	}
}

func TestAFullJournalRefusesAndRecoversByDelivering(t *testing.T) {
	const mib = 256 // what the contract calls enough
	to := newSink(t)
	to.digest = true
	to.code.Store(503)
	i := install(t, patient(to))
	i.mounted(mib)
	i.start()
	taken := i.fill(t, "a", 200<<10, mib*5)
	t.Logf("%d events of 200 KiB fill %d MiB", len(taken), mib)
	if len(taken) < mib*5/3 {
		t.Errorf("the journal is full after %d events of 200 KiB", len(taken))
	}
	if code := i.readyz(); code != 503 {
		t.Errorf("/readyz is %d while the journal is full", code)
	}
	if _, _, code := i.run("status", "--json"); code != 0 {
		t.Errorf("status exits with %d", code)
	}
	i.killBoth()
	i.launch()
	eventually(t, "senders are told that the journal is full, behind a crash as well", func() bool {
		a, err := i.send(github("/hooks/github", "b", "{}"))
		return err == nil && a.code == 503 && a.get("X-Backpressure-Reason") == "Ingestion-Queue-Full"
	})
	stored := map[string]string{}
	for _, e := range i.events(nil) {
		stored[e.GetProviderId()] = e.GetId()
	}
	for delivery, id := range taken {
		if stored[delivery] != id {
			t.Errorf("%s was acknowledged as %s and is stored as %q", delivery, id, stored[delivery])
		}
	}
	to.code.Store(200)
	eventually(t, "it takes events again", func() bool {
		a, err := i.send(github("/hooks/github", "c", "{}"))
		return err == nil && a.code == 200
	})
	eventually(t, "it is ready again", func() bool { return i.readyz() == 200 })
	i.awaitDelivered()
	reached := map[string]bool{}
	for _, d := range to.all() {
		reached[d.key] = true
	}
	for delivery, id := range taken {
		if !reached[id] {
			t.Errorf("%s was acknowledged and never delivered", delivery)
		}
	}
}

func TestNothingIsAcknowledgedThatADiskWithoutSpaceDidNotTake(t *testing.T) {
	to := newSink(t)
	to.code.Store(503) // so that nothing ends that would make room
	i := install(t, patient(to))
	i.mounted(64)
	i.start()
	taken := map[string]bool{i.accepted(github("/hooks/github", "first", "{}")): true}
	must(t, i.inside(`dd if=/dev/zero of="$1"/filler bs=64k 2>/dev/null; true`))
	w := i.dial(t)
	refused := false
	for n := range 2000 {
		a := w.ask(t, github("/hooks/github", fmt.Sprintf("d-%d", n), strings.Repeat("x", 100<<10)))
		if a.code == 200 || queued(a) {
			taken[a.get("X-Event-Id")] = true
			continue
		}
		if a.code != 503 || a.get("Retry-After") == "" {
			t.Fatalf("%v", a)
		}
		if refused = a.get("X-Backpressure-Reason") == "Ingestion-Queue-Full"; refused {
			break
		}
	}
	if !refused {
		t.Error("no request was told that there is no space")
	}
	t.Logf("%d events were taken on a disk without space", len(taken))
	i.killBoth()
	i.launch()
	eventually(t, "senders get a 503 and not silence", func() bool {
		a, err := i.send(github("/hooks/github", "full", "{}"))
		return err == nil && a.code == 503
	})
	eventually(t, "it serves the operator", func() bool {
		_, _, code := i.run("status", "--json")
		return code == 0
	})
	if i.exited() {
		t.Fatalf("it ended on a disk without space: %s", i.logTail(3))
	}
	must(t, i.inside(`rm "$1"/filler`))
	to.code.Store(200)
	eventually(t, "there is space again", func() bool {
		a, err := i.send(github("/hooks/github", "last", "{}"))
		return err == nil && (a.code == 200 || queued(a))
	})
	eventually(t, "it is ready again", func() bool { return i.readyz() == 200 })
	i.allReached(to, taken)
	if damage := i.status().GetJournal().GetDamage(); len(damage) > 0 {
		t.Errorf("damage is reported: %v", damage)
	}
}

func TestSpaceThatComesAndGoesLosesNothing(t *testing.T) {
	to := newSink(t)
	i := install(t, patient(to))
	i.mounted(64)
	i.start()
	taken := map[string]bool{i.accepted(github("/hooks/github", "first", "{}")): true}
	for round := range count(3, 10) {
		must(t, i.inside(`dd if=/dev/zero of="$1"/filler bs=64k 2>/dev/null; true`))
		for n := range 30 {
			a, err := i.send(github("/hooks/github", fmt.Sprintf("d-%d-%d", round, n), "{}"))
			must(t, err)
			if a.code == 200 || queued(a) {
				taken[a.get("X-Event-Id")] = true
			} else if a.code != 503 || a.get("Retry-After") == "" {
				t.Errorf("%v", a)
			}
		}
		if round%2 == 0 {
			i.killControl()
		} else if i.exited() {
			t.Fatalf("it ended on a disk without space: %s", i.logTail(3))
		}
		must(t, i.inside(`rm "$1"/filler`))
		if round%2 == 0 {
			i.start()
		}
		eventually(t, "it takes events again", func() bool {
			a, err := i.send(github("/hooks/github", fmt.Sprintf("e-%d", round), "{}"))
			if err == nil && (a.code == 200 || queued(a)) {
				taken[a.get("X-Event-Id")] = true
			}
			return err == nil && (a.code == 200 || queued(a))
		})
	}
	i.allReached(to, taken)
	if list := i.events(&pb.EventFilter{State: "dead"}); len(list) > 0 {
		t.Errorf("dead: %v", list)
	}
}
