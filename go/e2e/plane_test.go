package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "sluice/proto/sluice/v1"
)

// onDrivers runs a test once for each way in which a data plane can ask the kernel.
func onDrivers(t *testing.T, test func(t *testing.T, driver string)) {
	for _, driver := range []string{"io_uring", "epoll"} {
		t.Run(driver, func(t *testing.T) {
			if driver == "io_uring" {
				needRing(t)
			}
			test(t, driver)
		})
	}
}

// needRing skips a test where the kernel gives no io_uring.
func needRing(t testing.TB) {
	t.Helper()
	out, err := exec.Command(program(t, "sluice-dataplane"), "--probe").Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Skipf("io_uring is not usable here: %s", out)
	}
	must(t, err)
}

// runsOn checks that the data plane took the driver that the config wants.
func (i *installation) runsOn(driver string) {
	i.t.Helper()
	if got := i.status().GetDataplane().GetDriver(); got != driver {
		i.t.Errorf("the data plane runs on %q, want %s", got, driver)
	}
}

// holdings are what a data plane holds for its senders.
type holdings struct {
	connections, kept int // kept: bytes of requests that are not whole or wait
	descriptors       int // -1: this user may not look
}

func (i *installation) holdings() holdings {
	i.t.Helper()
	h := holdings{connections: i.total("webhook_ingress_connections"),
		kept: i.total("webhook_ingress_receive_memory_bytes"), descriptors: -1}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", i.plane()))
	if err == nil {
		h.descriptors = len(open)
	} else if !errors.Is(err, fs.ErrPermission) {
		i.t.Fatal(err)
	}
	return h
}

// holdsAgain waits until the data plane holds what it held before, and is the one that it was.
func (i *installation) holdsAgain(before holdings) {
	i.t.Helper()
	var now holdings
	defer func() {
		if i.t.Failed() {
			i.t.Logf("the data plane holds %+v, before %+v", now, before)
		}
	}()
	eventually(i.t, "the data plane lets go what its senders left", func() bool {
		now = i.holdings()
		return now == before
	})
	if n := i.status().GetDataplane().GetRestarts(); n != 0 {
		i.t.Errorf("the data plane died %d times", n)
	}
}

// replacesPlane kills the data plane and waits until another one serves. What connects at once may
// still be accepted by the dead one's ring, which the kernel takes down some milliseconds later.
func (i *installation) replacesPlane() {
	i.t.Helper()
	i.killPlanes()
	eventually(i.t, "a new data plane serves", func() bool {
		return len(i.planes()) == 1 && i.readyz() == 200
	})
}

// total is the sum of a metric over its labels; a metric that is not there fails the test.
func (i *installation) total(name string) int {
	i.t.Helper()
	values := i.metric(name)
	if len(values) == 0 {
		i.t.Fatalf("no metric %s", name)
	}
	sum := 0.0
	for _, text := range values {
		value, err := strconv.ParseFloat(text, 64)
		must(i.t, err)
		sum += value
	}
	return int(sum)
}

// ownMemory is what the data plane has taken beside its lanes, in bytes.
func (i *installation) ownMemory() int {
	i.t.Helper()
	kilobytes, err := strconv.Atoi(i.planeStatus("RssAnon")[0])
	must(i.t, err)
	return kilobytes << 10
}

// planeStatus is a line of the data plane's /proc/PID/status, in words.
func (i *installation) planeStatus(name string) []string {
	i.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", i.plane()))
	must(i.t, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.Fields(rest)
		}
	}
	i.t.Fatalf("this kernel tells no %s of a process", name)
	return nil
}

// workers asks the data plane itself what each of its threads has.
func (i *installation) workers() []*pb.WorkerState {
	i.t.Helper()
	found, err := filepath.Glob(filepath.Join(i.shm, "*", "dp", "*.sock"))
	must(i.t, err)
	if len(found) != 1 {
		i.t.Fatalf("sockets of data planes %q, want one", found)
	}
	conn, err := grpc.NewClient("unix:"+found[0],
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(i.t, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	state, err := pb.NewDataPlaneClient(conn).State(ctx, &pb.StateRequest{})
	must(i.t, err)
	return state.GetWorkers()
}
