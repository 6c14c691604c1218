package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"sluice/go/internal/config"
	"sluice/go/internal/daemon"
	"sluice/go/internal/listen"
	"sluice/go/internal/store"
	"sluice/go/internal/store/thread"
)

// spareFiles are descriptors beside connections: journal, index, deliveries, admin.
const spareFiles = 1024

func runCommand() *cobra.Command {
	var file, binary, fault string
	var dev, verbose bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "run the daemon; it supervises the data plane",
		Long: `Runs sluice: opens the listeners, starts and watches the data plane, journals, delivers.

Without --config it runs the embedded defaults; with --dev as well, secrets may stand in the file
and deliveries are printed. SIGTERM and Ctrl-C drain and stop, SIGHUP reads the config again.
The daemon is ready when GET /readyz on the admin.http address answers 200.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			thread.Spread()
			level := slog.LevelInfo
			if verbose {
				level = slog.LevelDebug
			}
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
			if fault != "" {
				if !dev {
					return usage(errors.New("--fault-point works with --dev only"))
				}
				if err := daemon.Arm(fault); err != nil {
					return usage(err)
				}
			}
			inherited, err := listen.Inherit() // before anything starts a child
			if err != nil {
				return err
			}
			files, err := raiseOpenFiles()
			if err != nil {
				return err
			}
			load := func() (*config.Config, error) {
				c, err := loadConfig(file, dev)
				if err != nil {
					return nil, err
				}
				logWarnings(c, log)
				fitConnections(c, files, log)
				return c, nil
			}
			c, err := load()
			if err != nil {
				return usage(err)
			}
			if binary, err = findDataplane(binary); err != nil {
				return err
			}
			return serve(cmd.Context(), cmd.OutOrStdout(), daemon.Options{
				Config: c, Load: load, Binary: binary, Inherited: inherited, Log: log, Version: version,
			})
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "config `FILE`; the embedded defaults without it")
	cmd.Flags().BoolVar(&dev, "dev", false, "development: secrets may stand in the file")
	cmd.Flags().StringVar(&binary, "dataplane", "",
		"`PATH` of sluice-dataplane; beside this program or on PATH without it")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "log refused requests as well")
	cmd.Flags().StringVar(&fault, "fault-point", "",
		"kill this process at the nth pass of a step, `NAME:N` (with --dev)")
	_ = cmd.Flags().MarkHidden("fault-point") // it exists
	return cmd
}

func loadConfig(file string, dev bool) (*config.Config, error) {
	o := configOptions(dev)
	switch {
	case file != "":
		return config.Load(file, o)
	case dev:
		return config.Dev(o)
	}
	return config.Default(o)
}

// serve runs the daemon until a signal ends it.
func serve(ctx context.Context, out io.Writer, o daemon.Options) error {
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	out = &lineWriter{to: out}
	var reloads sync.WaitGroup
	defer reloads.Wait()
	var running atomic.Pointer[daemon.Daemon] // another one where an upgrade of this program failed
	reloads.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-hup:
			}
			if d := running.Load(); d == nil {
				o.Log.Warn("SIGHUP came before the daemon was ready; the config is the one it began with")
			} else if _, err := d.Reload(ctx); err != nil {
				o.Log.Error("reload refused; the old config stays", "error", err)
			}
		}
	})
	o.Stdout = out
	o.Ready = func(d *daemon.Daemon) {
		if running.Swap(d) == nil {
			fmt.Fprint(out, greeting(o.Config, d.Listeners()))
		}
	}
	err := daemon.Run(ctx, o)
	cancel()
	if errors.Is(err, store.ErrLocked) {
		return fmt.Errorf("%w: one daemon serves a data directory; stop the other one or choose "+
			"another data_dir", err)
	}
	return err
}

// lineWriter lets deliveries and the greeting share an output.
type lineWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

// findDataplane finds the data plane: as told, beside this program, or on PATH.
func findDataplane(told string) (string, error) {
	if told != "" {
		if _, err := os.Stat(told); err != nil {
			return "", fmt.Errorf("--dataplane: %w", err)
		}
		return told, nil
	}
	const name = "sluice-dataplane"
	if own, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(own), name)
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside this program nor on PATH: build it with "+
			"`make build`, or name it with --dataplane", name)
	}
	return path, nil
}

// raiseOpenFiles raises the limit on descriptors to its hard one, for the data plane too, and gives
// it.
func raiseOpenFiles() (int64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("read RLIMIT_NOFILE: %w", err)
	}
	limit.Cur = limit.Max
	// Set even where it is no change: the runtime would give children the old soft limit back.
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("raise RLIMIT_NOFILE to %d: %w", limit.Max, err)
	}
	return int64(min(limit.Max, math.MaxInt32)), nil
}

// logWarnings tells what holds in a config and is hardly meant.
func logWarnings(c *config.Config, log *slog.Logger) {
	for _, w := range c.Warnings {
		log.Warn("the config holds, but is this meant?", "warning", w.String())
	}
}

// fitConnections lowers max_connections to what the limit on open files allows.
func fitConnections(c *config.Config, files int64, log *slog.Logger) {
	fits := max(files-spareFiles, 64)
	if int64(c.HTTP.MaxConnections) <= fits {
		return
	}
	log.Warn("http.max_connections is over what the limit on open files allows and was lowered; "+
		"raise it with LimitNOFILE= or ulimit -Hn",
		"max_connections", c.HTTP.MaxConnections, "limit", files, "now", fits)
	c.HTTP.MaxConnections = int(fits)
}

// greeting tells where to send, with an example that is signed and ready to paste.
func greeting(c *config.Config, listeners []string) string {
	var b strings.Builder
	for i, at := range listeners {
		fmt.Fprintf(&b, "listening on %s\n", base(c, listeners, i)+at)
	}
	if c.Admin.HTTP != "" {
		fmt.Fprintf(&b, "metrics and health on http://%s/metrics\n", c.Admin.HTTP)
	}
	for i, at := range listeners {
		if c.Dev && base(c, listeners, i) == "http://" {
			b.WriteString(example(c, at))
			break
		}
	}
	return b.String()
}

// base is what stands before the address of a listener in a URL; empty: none does, it is a path.
// The addresses are in the order of the config, unless one of them has no listener there any more.
func base(c *config.Config, listeners []string, i int) string {
	switch {
	case strings.HasPrefix(listeners[i], "unix:"):
		return ""
	case len(listeners) == len(c.Listeners) && c.Listeners[i].TLS != nil:
		return "https://"
	}
	return "http://"
}

// example is a request as GitHub would sign it, for the first source of that kind.
func example(c *config.Config, at string) string {
	const body = `{"zen":"Keep it logically awesome.","hook_id":1}`
	for i := range c.Sources {
		s := &c.Sources[i]
		if s.Provider != "github" || len(s.Secrets) == 0 {
			continue
		}
		signature := githubSignature(s.Secrets[0].Reveal(), []byte(body))
		return fmt.Sprintf(`
try it:

  curl -i http://%s%s \
    -H 'Content-Type: application/json' -H 'X-GitHub-Event: ping' \
    -H 'X-GitHub-Delivery: %s' \
    -H 'X-Hub-Signature-256: %s' \
    -d '%s'

`, at, s.Path, randomUUID(), signature, body)
	}
	return ""
}
