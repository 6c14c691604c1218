package daemon

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"google.golang.org/grpc"

	"sluice/go/internal/admin"
	"sluice/go/internal/observe"
)

const adminStopPatience = time.Second

// serve starts the operator's side: the admin API on its socket (and its address, where one is
// configured), and /metrics, /healthz and /readyz. What it gives ends both.
func (d *Daemon) serve(ctx context.Context) (func(), error) {
	c := d.o.Config
	d.metrics = observe.New(observe.Options{
		Version: d.o.Version, Facts: d.observeFacts, Ready: d.whyNotReady, Log: d.log,
	})
	d.openReconcile()
	service := admin.New(admin.Options{
		Store: admin.FromStore(d.store), Facts: d.adminFacts, Limiter: limiter{d},
		Reload: d.Reload, Drain: func() error { d.Drain(); return nil }, Upgrade: d.Upgrade,
		Faults: d.faults, Carried: d.carried,
		Gaps: d.gaps, Reconciler: reconciler{d}, Breakers: breakers{d.protect}, Workers: d.workers,
		Version: d.o.Version, Log: d.log,
	})
	socket, err := admin.Listen(c.Admin.Socket)
	if err != nil {
		return nil, err
	}
	servers := []*grpc.Server{admin.NewUnixServer(service)}
	listeners := []net.Listener{socket}
	closeAll := func() {
		for _, l := range listeners {
			_ = l.Close() // nobody is served on it yet
		}
	}
	if c.Admin.Address != "" {
		l, err := net.Listen("tcp", c.Admin.Address)
		if err != nil {
			closeAll()
			return nil, fmt.Errorf("admin.address: %w", err)
		}
		listeners = append(listeners, l)
		server, err := admin.NewTCPServer(service, admin.TCP{Token: c.Admin.Token.Reveal()})
		if err != nil {
			closeAll()
			return nil, err
		}
		servers = append(servers, server)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it serves while the rest stops
	var serving sync.WaitGroup
	if c.Admin.HTTP != "" {
		l, err := net.Listen("tcp", c.Admin.HTTP)
		if err != nil {
			closeAll()
			cancel()
			return nil, fmt.Errorf("admin.http: %w", err)
		}
		pages := d.metrics.Handler()
		if c.Dev {
			addProfiles(pages)
		}
		serving.Go(func() {
			if err := observe.Serve(ctx, l, pages); err != nil {
				d.log.Error("metrics", "error", err)
			}
		})
	}
	for i, server := range servers {
		serving.Go(func() {
			if err := server.Serve(listeners[i]); err != nil {
				d.log.Error("admin API", "error", err)
			}
		})
	}
	return func() {
		service.Close()
		cancel()
		for _, server := range servers {
			late := time.AfterFunc(adminStopPatience, server.Stop)
			server.GracefulStop()
			late.Stop()
		}
		serving.Wait()
	}, nil
}

// addProfiles shows where this process spends its time; in development only.
func addProfiles(pages *http.ServeMux) {
	pages.HandleFunc("GET /debug/pprof/", pprof.Index)
	pages.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	pages.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
}
