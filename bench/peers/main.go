// Command peers is what sluice is measured beside: the webhook receivers that people write.
//
// Each mode is one honest way to take a webhook in and is left at its defaults otherwise. It is
// not part of sluice, shares no code with it, and has a go.mod of its own so that a database
// driver never becomes a dependency of the gateway.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const usage = `peers MODE [flags]

modes, by what a 2xx means
  nethttp-hmac      net/http, HMAC-SHA256 verified; nothing is stored
  nethttp-fsync     the same, and the event is appended and synced, one sync a request
  nethttp-group     the same, one sync for all that arrived during the last one
  nethttp-postgres  the same, one INSERT a request (--postgres URL is required)
  nethttp-copy      the same, one COPY for all that came while the last ones ran (--postgres URL)
  nethttp-slots     the same, in front of a synthetic store of --slots servers, with --limit
                    requests at once; each line on standard input sets the store anew
  sink              no webhooks: a destination that answers everything at once
  proxy             passes every request straight on to --url
  post              no server: POSTs --count bodies to --url on --pool connections
  upsert            no server: writes --count rows to --postgres, --batch in a statement
  tls               net/http over crypto/tls: reads each body and answers 404 (--cert, --key)
  tls-post          no server: POSTs --bytes to --url for --duration on --pool connections, by
                    --way: full or resumed handshake for each (pq: by X25519MLKEM768), or keep-alive
  rawdisk           no server: O_DIRECT|O_DSYNC writes at several sizes, one JSON line each

flags
`

type options struct {
	address  string
	secret   string
	file     string
	postgres string
	pool     int
	slots    string
	limit    int
	sizes    string
	length   time.Duration
	url      string
	count    int
	bytes    int
	batch    int
	cert     string
	key      string
	way      string
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	var o options
	flags := flag.NewFlagSet("peers", flag.ExitOnError)
	flags.StringVar(&o.address, "address", "127.0.0.1:0", "where to listen")
	flags.StringVar(&o.secret, "secret", "It's a Secret to Everybody", "signing secret")
	flags.StringVar(&o.file, "file", "peers.log", "file to write, on the disk to be measured")
	flags.StringVar(&o.postgres, "postgres", "", "connection URL")
	flags.IntVar(&o.pool, "pool", 32, "database connections")
	flags.StringVar(&o.slots, "slots", "8x4ms", "nethttp-slots: servers and the time of each event")
	flags.IntVar(&o.limit, "limit", 0, "nethttp-slots: requests at once, 503 over it; 0: no limit")
	flags.StringVar(&o.sizes, "sizes", "4096,65536,262144,1048576", "rawdisk: bytes of a write")
	flags.DurationVar(&o.length, "duration", 2*time.Second, "rawdisk, tls-post: how long")
	flags.StringVar(&o.url, "url", "", "proxy, post, tls-post: where to")
	flags.IntVar(&o.count, "count", 20000, "post, upsert: how many")
	flags.IntVar(&o.bytes, "bytes", 1024, "post, tls-post, upsert: size of a body")
	flags.IntVar(&o.batch, "batch", 256, "upsert: rows of a statement")
	flags.StringVar(&o.cert, "cert", "", "tls: PEM file of the certificate")
	flags.StringVar(&o.key, "key", "", "tls: PEM file of its key")
	flags.StringVar(&o.way, "way", "keep-alive", "tls-post: full, resumed, pq or keep-alive")
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage); flags.PrintDefaults() }
	mode := os.Args[1]
	_ = flags.Parse(os.Args[2:])

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, mode, o); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, mode string, o options) error {
	var keep store
	var err error
	switch mode {
	case "nethttp-hmac":
		keep = forget{}
	case "nethttp-fsync":
		keep, err = openSynced(o.file)
	case "nethttp-group":
		keep, err = openGrouped(o.file)
	case "nethttp-postgres":
		keep, err = openPostgres(ctx, o.postgres, o.pool)
	case "nethttp-copy":
		keep, err = openCopied(ctx, o.postgres, o.pool)
	case "nethttp-slots":
		return slots(ctx, o)
	case "sink":
		return serve(ctx, o.address, sink{})
	case "proxy":
		proxy, err := newProxy(o.url, o.pool)
		if err != nil {
			return err
		}
		return serve(ctx, o.address, proxy)
	case "post":
		return post(ctx, os.Stdout, o)
	case "upsert":
		return upsert(ctx, os.Stdout, o)
	case "tls":
		return serveTLS(ctx, o)
	case "tls-post":
		return postTLS(ctx, os.Stdout, o)
	case "rawdisk":
		return rawdisk(os.Stdout, o)
	default:
		return fmt.Errorf("unknown mode %q; see --help", mode)
	}
	if err != nil {
		return err
	}
	defer keep.close()
	return serve(ctx, o.address, newHook([]byte(o.secret), keep))
}

// slots serves in front of the synthetic store.
func slots(ctx context.Context, o options) error {
	servers, service, err := parseSlots(o.slots)
	if err != nil {
		return err
	}
	keep := newSlotted(servers, service)
	defer keep.close()
	go func() {
		if err := keep.obey(os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, "peers:", err)
			os.Exit(1)
		}
	}()
	hook := newHook([]byte(o.secret), keep)
	if o.limit > 0 {
		hook = newBounded(o.limit, hook)
	}
	return serve(ctx, o.address, hook)
}

// serve prints the address that it got and runs until ctx ends.
func serve(ctx context.Context, address string, hook http.Handler) error {
	listener, err := listen(ctx, address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: hook, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// listen opens the address and prints what it got.
func listen(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	// Go listens with MPTCP by default, which costs every plain TCP sender a little; the peer
	// is to be at its best.
	lc.SetMultipathTCP(false)
	listener, err := lc.Listen(ctx, "tcp", address)
	if err == nil {
		fmt.Printf("listening on %s\n", listener.Addr())
	}
	return listener, err
}
