package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/go/internal/admin"
	"sluice/go/internal/lane"
	"sluice/shm-abi/shmabi"
)

func silent(string) {}

func alive(pid int) bool { return unix.Kill(pid, 0) == nil }

func TestAnUpgradePutsAnotherDataPlaneInPlace(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.start()
	before, listening := r.super.Status(), r.Listeners()
	generation, err := r.Upgrade(t.Context(), false, silent)
	must(t, err)
	st := r.super.Status()
	if generation != 2 || st.Generation != 2 || st.Retiring != 0 || alive(before.Pid) ||
		!slices.Equal(r.Listeners(), listening) || len(r.whyNotReady()) > 0 {
		t.Errorf("generation %d, status %+v, listeners %v", generation, st, r.Listeners())
	}
	if got := r.shm.control.NewestGeneration(); got != 2 {
		t.Errorf("the control page says %d", got)
	}
	eventually(t, "the old one's lane ends", func() bool { return len(r.ingest.Lanes()) == 1 })
	s.installPlane("dies")
	if _, err := r.Upgrade(t.Context(), false, silent); err == nil ||
		!strings.Contains(err.Error(), "told to die") {
		t.Errorf("a broken program: %v", err)
	}
	if now := r.super.Status(); now.Pid != st.Pid || len(r.whyNotReady()) > 0 {
		t.Errorf("status %+v", now)
	}
	dir, journal := r.shm.dir, r.store.Recovery().JournalID
	r.stop()
	page, err := lane.OpenControl(filepath.Join(dir, "control"), journal)
	must(t, err)
	defer page.Close()
	if page.Stopping() != 1 {
		t.Error("data planes were not told that they need not serve on")
	}
	if _, err := r.Upgrade(t.Context(), false, silent); !errors.Is(err, errNotReady) {
		t.Errorf("after the end: %v", err)
	}
}

func TestOneUpgradeIsUnderWayAtATime(t *testing.T) {
	t.Parallel()
	s := newSite(t, "1:stubborn")
	r := s.start()
	stubborn, done := r.super.Status().Pid, make(chan error, 1)
	go func() {
		_, err := r.Upgrade(context.Background(), false, silent)
		done <- err
	}()
	eventually(t, "the next one accepts", func() bool { return r.super.Status().Generation == 2 })
	for _, control := range []bool{false, true} {
		if _, err := r.Upgrade(t.Context(), control, silent); !errors.Is(err, errUpgrading) {
			t.Errorf("a second upgrade: %v", err)
		}
	}
	// A reload need not wait for the end of the old one.
	s.configure(sources("a>stdout", "b>stdout"))
	if _, err := r.Reload(t.Context()); err != nil {
		t.Errorf("a reload: %v", err)
	}
	must(t, unix.Kill(stubborn, unix.SIGKILL))
	must(t, <-done)
}

func TestAReloadThatTakesAnotherDataPlaneUpgrades(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.start()
	listening := r.Listeners()
	s.configure("ring_size: 128MiB\n" + sources("a>stdout", "b>stdout"))
	version, err := r.Reload(t.Context())
	must(t, err)
	if st := r.super.Status(); version != 2 || st.Generation != 2 ||
		!slices.Equal(r.Listeners(), listening) {
		t.Errorf("config %d, status %+v, listeners %v", version, st, r.Listeners())
	}
	// Where it does not come up, the config before stays whole.
	before, st := r.plan.Load(), r.super.Status()
	s.installPlane("refuses")
	s.configure("ring_size: 256MiB\n" + sources("c>stdout"))
	if _, err := r.Reload(t.Context()); !errors.Is(err, admin.ErrRefused) {
		t.Errorf("reload: %v", err)
	}
	if now := r.super.Status(); r.plan.Load() != before || now.Pid != st.Pid ||
		r.o.Config.RingSize != before.config.RingSize {
		t.Errorf("config %d, status %+v", r.plan.Load().catalogue.ConfigVersion, now)
	}
	must(t, unix.Kill(st.Pid, unix.SIGKILL))
	eventually(t, "another one accepts", func() bool {
		now := r.super.Status()
		return now.Accepting && now.Pid != st.Pid
	})
}

func TestAnAdoptedDataPlaneIsReplacedWhereTheConfigIsAnother(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.run = func(ctx context.Context, o Options) error {
		next, err := newDaemon(o, os.Args[0], time.Now()).live(ctx)
		if next != nil {
			next.close()
		}
		return err
	}
	r := s.start()
	pid, listening := r.super.Status().Pid, r.Listeners()
	next, err := openSuccessor(os.Args[0])
	must(t, err)
	r.leaving <- next // and nobody follows
	must(t, <-r.ended)
	r.ended = nil
	s.configure("ring_size: 128MiB\n" + sources("a>stdout"))
	r = s.start()
	if st := r.super.Status(); st.Generation != 2 || !slices.Equal(r.Listeners(), listening) {
		t.Errorf("status %+v, listeners %v, before %v", st, r.Listeners(), listening)
	}
	eventually(t, "the old one ends", func() bool { return !alive(pid) })
}

// sluice is a script that says that it is a sluice with a layout.
func sluice(layout uint64, more string) string {
	return fmt.Sprintf(`case $1 in
version) echo '{"version":"9.9","layout":"%016x"}' ;;
%s
esac`, layout, more)
}

func TestAProgramThatCannotGoOnDoesNotTakeOver(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.start()
	st := r.super.Status()
	r.program = filepath.Join(s.shm, "sluice")
	fine := sluice(uint64(shmabi.LayoutHash), "check) exit 0 ;;")
	for name, test := range map[string]struct {
		script string
		begin  func()
		says   string
	}{
		"no program":      {says: "no such file"},
		"another program": {script: "echo hello", says: "is no sluice"},
		"one that fails":  {script: "echo oops >&2; exit 3", says: "oops"},
		"another layout":  {script: sluice(1, ""), says: "0000000000000001"},
		"a config that it lacks": {script: sluice(uint64(shmabi.LayoutHash),
			"check) echo sluice.yaml:3: why; exit 2 ;;"), says: "sluice.yaml:3: why"},
		"a config that we lack": {script: fine, says: "sluice.yaml",
			begin: func() { s.configure("nonsense: true") }},
		"a config of elsewhere": {script: fine, says: "admin.http",
			begin: func() { s.http = freeAddress(t) }},
	} {
		_ = os.Remove(r.program) // of the one before
		if test.script != "" {
			s.install(r.program, test.script)
		}
		if test.begin != nil {
			test.begin()
		}
		if _, err := r.Upgrade(t.Context(), true, silent); err == nil ||
			!strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
		if why := r.whyNotReady(); len(why) > 0 || r.super.Status().Pid != st.Pid {
			t.Errorf("%s: %v", name, why)
		}
		s.http = ""
		s.configure(sources("a>stdout"))
	}
}

func TestAProgramThatCannotBeExecutedIsSurvived(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.start()
	pid, listening, began := r.super.Status().Pid, r.Listeners(), r.began
	r.program = filepath.Join(s.shm, "sluice")
	s.install(r.program, sluice(uint64(shmabi.LayoutHash), "check) exit 0 ;;"))
	var steps []string
	generation, err := r.Upgrade(t.Context(), true, func(step string) {
		steps = append(steps, step)
		if strings.HasPrefix(step, "hand over") {
			must(t, os.Remove(r.program))
		}
	})
	must(t, err)
	if len(steps) != 3 || generation != 1 || r.ready.Load() {
		t.Errorf("steps %q, generation %d", steps, generation)
	}
	first := r.Daemon
	select {
	case r.Daemon = <-r.serving:
	case <-time.After(patience):
		t.Fatal("it does not go on")
	}
	if st := r.super.Status(); st.Pid != pid || !slices.Equal(r.Listeners(), listening) ||
		r.Daemon == first || r.began != began {
		t.Errorf("status %+v, listeners %v, before %v", st, r.Listeners(), listening)
	}
	s.configure(sources("a>stdout", "b>stdout"))
	if _, err := r.Reload(t.Context()); err != nil {
		t.Errorf("reload: %v", err)
	}
	_, err = r.Upgrade(t.Context(), false, silent)
	must(t, err)
	r.stop()
	if alive(pid) {
		t.Error("the first data plane lives")
	}
}

func TestAStopGoesBeforeTheNextProgram(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.start()
	pid := r.super.Status().Pid
	r.program = filepath.Join(s.shm, "sluice")
	s.install(r.program, sluice(uint64(shmabi.LayoutHash), "check) exit 0 ;;"))
	_, err := r.Upgrade(t.Context(), true, func(step string) {
		if strings.HasPrefix(step, "hand over") {
			r.Drain()
		}
	})
	must(t, err)
	must(t, <-r.ended)
	r.ended = nil
	if alive(pid) {
		t.Error("the data plane lives")
	}
	select {
	case <-r.serving:
		t.Error("it began again")
	default:
	}
}
