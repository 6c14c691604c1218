package daemon

import (
	"slices"
	"testing"

	"sluice/go/internal/config"
	pb "sluice/proto/sluice/v1"
)

func TestEachRowOfSocketsHasWhatItsListenerHas(t *testing.T) {
	address := func(target string) config.Listener {
		return config.Listener{Address: config.Address{Network: "tcp", Target: target}}
	}
	p := routed(0)
	p.config = &config.Config{Listeners: []config.Listener{address("a:1"), address("b:2")}}
	p.snapshot.Listeners = []*pb.Listener{{ProxyFrom: []string{"10.0.0.0/8"}}, {}}
	var s standing
	rows := []string{"b:2", "a:1", "a:1"} // one address has more sockets than there are workers
	filled := s.fill(p, rows)
	var proxies []int
	for _, l := range filled.Listeners {
		proxies = append(proxies, len(l.ProxyFrom))
	}
	if !slices.Equal(proxies, []int{0, 1, 1}) {
		t.Errorf("listeners %v", filled.Listeners)
	}
	// The data plane before has other rows, and neither is handed the other's.
	before := s.fill(p, []string{"a:1", "b:2"})
	if len(before.Listeners) != 2 || s.fill(p, rows) != filled || len(p.snapshot.Listeners) != 2 {
		t.Errorf("listeners %v and %v", before.Listeners, p.snapshot.Listeners)
	}
}
