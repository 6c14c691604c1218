package e2e

import (
	"slices"
	"strings"
	"testing"
)

// nobody is the user id that every Linux has for programs without rights.
const nobody = 65534

// Where io_uring is not allowed, the data plane takes epoll, says why, and everything holds that
// holds otherwise.
func TestWithoutIoUringEpollTakesOver(t *testing.T) {
	t.Parallel()
	random := seeded(t)
	to := newSink(t)
	i := install(t, "workers: 2\n"+both(to))
	i.under(world{DenyRing: true})
	i.start()
	plane := i.status().GetDataplane()
	if plane.GetDriver() != "epoll" || !strings.Contains(plane.GetDriverReason(), "seccomp") {
		t.Errorf("the driver is %q because %q, want epoll because of seccomp", plane.GetDriver(),
			plane.GetDriverReason())
	}
	if !i.logged("level=WARN") || !i.logged(plane.GetDriverReason()) {
		t.Error("no warning names the cause")
	}
	f := begin(i, random, 2, "ring", "durable")
	for range count(3, 10) {
		f.loaded(1 + random.IntN(200))
		i.replacesPlane()
		f.loaded(20)
		i.killControl()
		i.start()
	}
	f.loaded(50)
	f.end()
	f.holds(t, to)
	i.stop()
}

// Who insists on io_uring hears why there is none, instead of being given something else.
func TestADriverThatIsInsistedOnIsNotReplaced(t *testing.T) {
	t.Parallel()
	i := install(t, "driver: io_uring\nsources: {}\n")
	i.under(world{DenyRing: true})
	i.launch()
	eventually(t, "the log says why", func() bool { return i.logged("seccomp") })
	if i.readyz() == 200 {
		t.Error("it is ready")
	}
}

// An ordinary user runs all of it on a high port, and the data plane gives away what it has.
func TestAnOrdinaryUserRunsIt(t *testing.T) {
	t.Parallel()
	needRoot(t)
	to := newSink(t)
	onDrivers(t, func(t *testing.T, driver string) {
		i := install(t, "driver: "+driver+"\nsandbox: auto\nworkers: 2\n"+both(to))
		i.under(world{User: nobody})
		i.start()
		i.runsOn(driver)
		i.isConfined(t)
		f := begin(i, seeded(t), 2, "durable")
		f.loaded(100)
		i.replacesPlane()
		f.loaded(100)
		f.end()
		f.holds(t, to)
		i.stop()
	})
}

// A daemon of root's has a data plane without rights, which serves all the same.
func TestTheDataPlaneOfRootHasNoRights(t *testing.T) {
	t.Parallel()
	needRoot(t)
	to := newSink(t)
	onDrivers(t, func(t *testing.T, driver string) {
		i := install(t, "driver: "+driver+"\nsandbox: auto\nuser: nobody\n"+both(to))
		i.start()
		i.isConfined(t)
		if uid := i.planeStatus("Uid"); !slices.Equal(uid, slices.Repeat(uid[:1], 4)) ||
			uid[0] == "0" {
			t.Errorf("the data plane runs as user %v", uid)
		}
		f := begin(i, seeded(t), 2, "ring", "durable")
		f.loaded(100)
		f.end()
		f.holds(t, to)
		i.stop()
	})
}

// isConfined checks from outside what the kernel shows of a sandbox.
func (i *installation) isConfined(t testing.TB) {
	t.Helper()
	for name, want := range map[string]string{
		"CapEff": "0000000000000000", "CapPrm": "0000000000000000", "CapAmb": "0000000000000000",
		"NoNewPrivs": "1", "Seccomp": "2",
	} {
		if got := i.planeStatus(name); !slices.Equal(got, []string{want}) {
			t.Errorf("%s of the data plane is %v, want %s", name, got, want)
		}
	}
	plane := i.status().GetDataplane()
	for _, layer := range []string{"capabilities", "no_new_privs", "seccomp"} {
		if !slices.Contains(plane.GetSandbox(), layer) {
			t.Errorf("status shows %q without %s (%s)", plane.GetSandbox(), layer,
				plane.GetSandboxReason())
		}
	}
}
