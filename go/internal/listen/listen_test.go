package listen

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestEveryWorkerGetsASocketOfTheSamePort(t *testing.T) {
	set := open(t, Plan{Specs: []Spec{tcp("127.0.0.1:0")}, Workers: 3})
	if len(set.Rows) != 1 || len(set.Rows[0]) != 3 || count(inodes(t, set.Rows[0])) != 3 {
		t.Fatalf("rows %v", set.Rows)
	}
	first := addressOf(t, set.Rows[0][0])
	if first.Network != TCP || strings.HasSuffix(first.Target, ":0") {
		t.Fatal(first)
	}
	for _, f := range set.Rows[0] {
		if at := addressOf(t, f); at != first {
			t.Errorf("%v; want %v", at, first)
		}
		if p := optionOf(t, f, unix.SOL_SOCKET, unix.SO_PROTOCOL); p != unix.IPPROTO_TCP {
			t.Errorf("protocol %d: want plain TCP", p)
		}
		flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0)
		must(t, err)
		if flags&unix.FD_CLOEXEC == 0 {
			t.Error("it would leak into every program that the daemon starts")
		}
		flags, err = unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
		must(t, err)
		if flags&unix.O_NONBLOCK == 0 {
			t.Error("an accept that another worker was faster with would hang")
		}
	}
}

func TestASecondDaemonOnTheAddressIsSeen(t *testing.T) {
	for _, spec := range []Spec{tcp("127.0.0.1:0"), unixAt(socketPath(t))} {
		set := open(t, Plan{Specs: []Spec{spec}, Workers: 1})
		spec.Target = addressOf(t, set.Rows[0][0]).Target
		again := Plan{Specs: []Spec{spec}, Workers: 1}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := again.Open(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v: it must still be trying", err)
		}
		_, err := again.Open(context.Background())
		if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), spec.String()) {
			t.Fatalf("got %v, want %v of %s", err, ErrInUse, spec)
		}
	}
}

func TestNoHostIsEveryAddressOfBothFamilies(t *testing.T) {
	set, err := Plan{Specs: []Spec{tcp(":0")}, Workers: 1}.Open(context.Background())
	if err != nil {
		t.Skipf("this host has no IPv6: %v", err)
	}
	defer set.Abandon()
	_, port, err := net.SplitHostPort(addressOf(t, set.Rows[0][0]).Target)
	must(t, err)
	for _, host := range []string{"127.0.0.1", "::1"} {
		dial(t, "tcp", net.JoinHostPort(host, port))
		accepted(t, set.Rows[0])
	}
}

func TestOneIPv6AddressLeavesIPv4Alone(t *testing.T) {
	set, err := Plan{Specs: []Spec{tcp("[::1]:0")}, Workers: 1}.Open(context.Background())
	if err != nil {
		t.Skipf("this host has no IPv6: %v", err)
	}
	defer set.Abandon()
	if v6 := optionOf(t, set.Rows[0][0], unix.IPPROTO_IPV6, unix.IPV6_V6ONLY); v6 != 1 {
		t.Error("it takes IPv4 as well")
	}
}

func TestOptionsAreInForceOnWhatIsOpenedAndOnWhatWasThere(t *testing.T) {
	check := func(f *os.File, alive, idle, deferred bool) {
		t.Helper()
		if got := optionOf(t, f, unix.SOL_SOCKET, unix.SO_KEEPALIVE) == 1; got != alive {
			t.Errorf("keepalive %v", got)
		}
		if got := optionOf(t, f, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE); (got == 90) != idle {
			t.Errorf("asks after %d s", got)
		}
		if got := optionOf(t, f, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT) > 0; got != deferred {
			t.Errorf("deferred %v", got)
		}
		// tcpi_sacked of a listening socket is its backlog.
		info, err := unix.GetsockoptTCPInfo(int(f.Fd()), unix.IPPROTO_TCP, unix.TCP_INFO)
		must(t, err)
		if info.Sacked != 7 {
			t.Errorf("backlog %d", info.Sacked)
		}
	}
	spec := tcp("127.0.0.1:0")
	spec.Backlog, spec.KeepAlive, spec.DeferAccept = 7, 89500*time.Millisecond, time.Second
	before := open(t, Plan{Specs: []Spec{spec}, Workers: 1})
	check(before.Rows[0][0], true, true, true)
	spec.KeepAlive, spec.DeferAccept = 0, 0
	after := open(t, Plan{Specs: []Spec{spec}, Workers: 1, Have: before.Rows})
	if after.Rows[0][0] != before.Rows[0][0] {
		t.Fatal("it is another socket")
	}
	check(after.Rows[0][0], false, true, false)
}

func TestWhatIsThereIsTakenUpByItsAddress(t *testing.T) {
	path := socketPath(t)
	first := open(t, Plan{Workers: 2, Specs: []Spec{tcp("127.0.0.1:0"), unixAt(path),
		tcp("127.0.0.1:0")}})
	at := func(i int) Spec { return tcp(addressOf(t, first.Rows[i][0]).Target) }
	second := open(t, Plan{Workers: 2, Have: first.Rows,
		Specs: []Spec{at(2), tcp("127.0.0.1:0"), unixAt(path)}})
	for row, was := range []int{2, 0, 1} {
		if !slices.Equal(inodes(t, second.Rows[row]), inodes(t, first.Rows[was])) {
			t.Errorf("row %d has other sockets than row %d had", row, was)
		}
	}
	if !slices.Equal(second.Spec, []int{0, 1, 2}) {
		t.Errorf("rows belong to %v", second.Spec)
	}
	third := open(t, Plan{Workers: 2, Have: second.Rows, Specs: []Spec{at(0)}})
	// The files of the other two rows, and nothing opened.
	if len(third.Opened) != 0 || !slices.Equal(third.Rows[0], second.Rows[1]) {
		t.Errorf("opened %v for %v", third.Opened, third.Rows)
	}
	for _, f := range slices.Concat(second.Rows[0], second.Rows[2][:1]) {
		if !slices.Contains(third.Unwanted, f) {
			t.Errorf("%s is still wanted", f.Name())
		}
	}
	third.Settle()
	must(t, Unlink([]Spec{unixAt(path)}))
	if _, err := os.Stat(path); err != nil {
		t.Error("the path went while the first set listens there")
	}
}

func TestMoreWorkersGetMoreSocketsAndFewerLoseNone(t *testing.T) {
	spec := tcp("127.0.0.1:0")
	two := open(t, Plan{Specs: []Spec{spec}, Workers: 2})
	four := open(t, Plan{Specs: []Spec{spec}, Workers: 4, Have: two.Rows})
	if len(four.Rows) != 1 || count(inodes(t, four.Rows[0])) != 4 || len(four.Opened) != 2 ||
		len(four.Unwanted) != 0 {
		t.Fatalf("rows %v, opened %v, unwanted %v", four.Rows, four.Opened, four.Unwanted)
	}
	// 4 sockets of 3 workers: none is left without an acceptor, no worker without a file.
	three := open(t, Plan{Specs: []Spec{spec}, Workers: 3, Have: four.Rows})
	if len(three.Rows) != 2 || len(three.Rows[0]) != 3 || len(three.Rows[1]) != 3 ||
		count(inodes(t, slices.Concat(three.Rows...))) != 4 || count(slices.Concat(three.Rows...)) != 6 {
		t.Fatalf("rows %v", three.Rows)
	}
	if !slices.Equal(three.Spec, []int{0, 0}) {
		t.Errorf("rows belong to %v", three.Spec)
	}
	// Every connection is accepted, whichever socket the kernel takes.
	all := slices.Concat(three.Rows...)
	for range 32 {
		dial(t, "tcp", addressOf(t, all[0]).Target)
		accepted(t, all)
	}
	again := open(t, Plan{Specs: []Spec{spec}, Workers: 4, Have: three.Rows})
	if len(again.Rows) != 1 || len(again.Opened) != 0 || len(again.Unwanted) != 2 {
		t.Fatalf("rows %v, opened %v, unwanted %v", again.Rows, again.Opened, again.Unwanted)
	}
}

func TestAPlanThatFailsOpensNothing(t *testing.T) {
	path := socketPath(t)
	taken := open(t, Plan{Specs: []Spec{tcp("127.0.0.1:0")}, Workers: 1})
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	have := open(t, Plan{Specs: []Spec{tcp("127.0.0.1:0")}, Workers: 1})
	before := descriptors(t)
	_, err := Plan{Workers: 2, Have: have.Rows, Specs: []Spec{
		tcp(addressOf(t, have.Rows[0][0]).Target), tcp("127.0.0.1:0"), unixAt(path),
		tcp(addressOf(t, taken.Rows[0][0]).Target),
	}}.Open(ctx)
	if err == nil {
		t.Fatal("an address was taken twice")
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the path of a socket is left: %v", err)
	}
	dial(t, "tcp", addressOf(t, have.Rows[0][0]).Target)
	accepted(t, have.Rows[0])
}

func descriptors(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(list)
}
