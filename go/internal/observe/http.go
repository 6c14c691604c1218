package observe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	scrapesMax     = 4
	headMax        = 8 << 10
	readMax        = 5 * time.Second
	writeMax       = 30 * time.Second
	idleMax        = 2 * time.Minute
	shutdownMax    = 2 * time.Second
	healthyAnswer  = "ok\n"
	notReadyStatus = http.StatusServiceUnavailable
)

// Handler answers /metrics, /healthz and /readyz; others may add to it.
//
// /healthz is 200 as long as this process answers at all. /readyz is 200 while senders are served,
// and otherwise 503 with the reasons, one a line.
func (m *Metrics) Handler() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, healthyAnswer)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if why := m.o.Ready(); len(why) > 0 {
			answer(w, notReadyStatus, strings.Join(why, "\n")+"\n")
			return
		}
		answer(w, http.StatusOK, healthyAnswer)
	})
	return mux
}

func answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text)) // whoever went away does not want it
}

// Serve answers on a listener, which it closes, until ctx ends.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler: h, ReadTimeout: readMax, ReadHeaderTimeout: readMax, WriteTimeout: writeMax,
		IdleTimeout: idleMax, MaxHeaderBytes: headMax,
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.Background(), shutdownMax)
		defer cancel()
		if err := server.Shutdown(grace); err != nil {
			err = errors.Join(err, server.Close())
			stopped <- fmt.Errorf("stop %s: %w", l.Addr(), err)
			return
		}
		stopped <- nil
	})
	err := server.Serve(l)
	if stop() { // nobody asked it to end
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return <-stopped
}
