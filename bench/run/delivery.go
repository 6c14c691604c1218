package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/bench/referee"
)

const (
	drainPatience = 2 * time.Minute
	drainLook     = 20 * time.Millisecond
	warmEvents    = 5000
	// A statement is made of what is in flight. A learned limit is there after some seconds, which is
	// longer than a drain here takes.
	postgresInFlight = 512

	statisticsDelay = 2500 * time.Millisecond

	perCoreLeast   = 10_000 // events a second and core, to a fast local HTTP destination
	byHandHTTP     = 2.0    // the hand-written client is at most so many times as fast
	byHandPostgres = 0.8    // of the same statements by hand
	passThroughMax = 500 * time.Microsecond
)

// drained is how fast a backlog was delivered.
type drained struct {
	events  int
	seconds float64
	cpu     usage
	other   referee.Cores
}

func (d drained) perS() float64    { return float64(d.events) / d.seconds }
func (d drained) perCore() float64 { return float64(d.events) / d.cpu.total() }

// timing is what a client written by hand reports of itself.
type timing struct {
	Count int     `json:"count"`
	PerS  float64 `json:"per_s"`
	CPUS  float64 `json:"cpu_s"`
	other referee.Cores
}

// delivery measures what is behind the acknowledgement: how fast a backlog goes to a destination,
// beside a client written by hand, and what a sender waits for who wants the destination's answer.
func delivery(out *referee.Result, o options) (missed int, err error) {
	for _, part := range []struct {
		name string
		run  func(io.Writer, options, string) ([]referee.Gate, error)
	}{{"http", drainHTTP}, {"postgres", drainPostgres}, {"delivered", passThrough}} {
		if !o.wants(part.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "delivery: %s\n", part.name)
		dir, err := os.MkdirTemp(o.dir, "delivery-")
		if err == nil {
			dir, err = filepath.Abs(dir)
		}
		if err != nil {
			return missed, err
		}
		list, err := part.run(out, o, dir)
		missed += referee.PrintGates(out, list)
		_ = os.RemoveAll(dir)
		if errors.Is(err, errLeftOut) {
			fmt.Fprintf(out, "left out: %s: %v\n", part.name, err)
			continue
		}
		if err != nil {
			return missed, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return missed, nil
}

// events is how many are delivered in one drain: enough for seconds at the wanted rate.
func (o options) events() int { return int(10_000 * o.length.Seconds()) }

// drain fills the backlog of `goal`, whose breaker is held open meanwhile, and measures how it is
// delivered; taker is the CPU seconds of those who take the events.
func drain(o options, g *gateway, taker func() float64) (drained, error) {
	if _, err := g.run("breaker", "open", "goal"); err != nil {
		return drained{}, err
	}
	fill := func(count int) error {
		args := []string{"--json", "--reconnect", "--connections", "64", "--body-bytes", "1024",
			"--secret", secret, "--rate", "20000", "--duration",
			(time.Duration(count) * time.Second / 20000).String(), g.base + "/hooks/github"}
		cmd := command(o, generatorCPU(), o.load, args...)
		cmd.Stderr = os.Stderr
		_, err := cmd.Output()
		return err
	}
	read := func() (usage, error) { return sluiceUsage(g.cmd.Process.Pid, g.metrics) }
	// A first small backlog warms connections and code up.
	if err := fill(warmEvents); err != nil {
		return drained{}, err
	}
	if _, err := emptied(g); err != nil {
		return drained{}, err
	}
	if _, err := g.run("breaker", "open", "goal"); err != nil {
		return drained{}, err
	}
	if err := fill(o.events()); err != nil {
		return drained{}, err
	}
	before, err := settle(read)
	if err != nil {
		return drained{}, err
	}
	d := drained{events: int(backlogOf(g))}
	began, watch, own := time.Now(), referee.StartWatch(), referee.Own()+taker()
	if d.seconds, err = emptied(g); err != nil {
		return drained{}, err
	}
	after, err := settle(read)
	d.cpu = after.minus(before)
	d.other = watch.Others(d.cpu.total() + referee.Own() + taker() - own)
	if d.events == 0 {
		return d, fmt.Errorf("no backlog to deliver after %v", time.Since(began))
	}
	return d, err
}

// emptied closes the breaker and waits until the backlog is gone.
func emptied(g *gateway) (seconds float64, err error) {
	began := time.Now()
	if _, err := g.run("breaker", "close", "goal"); err != nil {
		return 0, err
	}
	for time.Since(began) < drainPatience {
		if backlogOf(g) == 0 {
			return time.Since(began).Seconds(), nil
		}
		time.Sleep(drainLook)
	}
	return 0, fmt.Errorf("%.0f events still wait after %v", backlogOf(g), drainPatience)
}

func backlogOf(g *gateway) float64 {
	const name = "webhook_backlog_events"
	found := scrape(g.metrics, name)
	backlog, ok := found[name]
	if !ok {
		return -1 // not known: neither empty nor full
	}
	return backlog
}

// byHand runs a peer that measures itself; taker is as in drain.
func byHand(o options, taker func() float64, mode string, args ...string) (timing, error) {
	args = append([]string{mode, "--postgres", o.postgres,
		"--count", strconv.Itoa(o.events())}, args...)
	cmd := command(o, 0, o.peers, args...)
	cmd.Stderr = os.Stderr
	watch, own := referee.StartWatch(), referee.Own()+taker()
	data, err := cmd.Output()
	if err != nil {
		return timing{}, fmt.Errorf("%s: %w", mode, err)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	t := timing{other: watch.Others(used.Seconds() + referee.Own() + taker() - own)}
	err = json.NewDecoder(bytes.NewReader(data)).Decode(&t)
	return t, err
}

// startDelivering is a sluice with one source that delivers to `goal`.
func startDelivering(o options, dir, acknowledge, goal string) (*gateway, error) {
	return startSluice(o, dir, "destinations:\n  goal:\n"+goal, []source{{
		name: "github", acknowledge: acknowledge, deliver: "goal",
	}})
}

func drainHTTP(out io.Writer, o options, dir string) ([]referee.Gate, error) {
	sink, err := launchPeerOn(o, generatorCPU(), "sink", dir)
	if err != nil {
		return nil, err
	}
	defer sink.stop()
	g, err := startDelivering(o, dir, "ring", fmt.Sprintf("    http: {url: %q}\n", sink.base+"/hook"))
	if err != nil {
		return nil, err
	}
	d, err := drain(o, g, sink.used)
	g.stop()
	if err != nil {
		return nil, err
	}
	hand, err := byHand(o, sink.used, "post", "--url", sink.base+"/hook", "--pool", "16")
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "\nhttp, %d events of 1 KB to a destination that answers at once\n", d.events)
	printDrain(out, d, hand)
	cores := referee.Gate{
		Name:  fmt.Sprintf("http: at least %d events a second and core", perCoreLeast),
		Shown: fmt.Sprintf("%.0f", d.perCore()),
	}
	cores.Judge(d.perCore() >= perCoreLeast, d.other)
	hands := referee.Gate{
		Name: fmt.Sprintf("http: within %gx of net/http's client by hand", byHandHTTP),
		Shown: fmt.Sprintf("%.2fx in time, %.2fx in CPU", hand.PerS/d.perS(),
			d.cpu.total()/float64(d.events)/(hand.CPUS/float64(hand.Count))),
	}
	hands.Judge(hand.PerS/d.perS() <= byHandHTTP, d.other, hand.other)
	return []referee.Gate{cores, hands}, nil
}

func drainPostgres(out io.Writer, o options, dir string) ([]referee.Gate, error) {
	if o.postgres == "" {
		return nil, fmt.Errorf("%w: no --postgres URL", errLeftOut)
	}
	const url = "postgres.url"
	if err := os.WriteFile(filepath.Join(dir, url), []byte(o.postgres), 0o600); err != nil {
		return nil, err
	}
	g, err := startDelivering(o, dir, "ring", fmt.Sprintf(
		"    postgres: {url: \"file:%s\", table: bench_delivered}\n    concurrency: %d\n",
		filepath.Join(dir, url), postgresInFlight))
	if err != nil {
		return nil, err
	}
	postgres := func() float64 { return referee.UsageOf("postgres") }
	before, err := commits(o)
	if err != nil {
		g.stop()
		return nil, err
	}
	d, err := drain(o, g, postgres)
	g.stop()
	if err != nil {
		return nil, err
	}
	after, err := commits(o)
	if err != nil {
		return nil, err
	}
	// The first small backlog, which warms up, is among them.
	rows := max(1, int(math.Round(float64(d.events+warmEvents)/max(after-before, 1))))
	fmt.Fprintf(out, "\npostgres, %d events of 1 KB, %d rows a statement\n", d.events, rows)
	hand, err := byHand(o, postgres, "upsert", "--pool", "8", "--batch", strconv.Itoa(rows))
	if err != nil {
		return nil, err
	}
	printDrain(out, d, hand)
	full, err := byHand(o, postgres, "upsert", "--pool", "8", "--batch", "256")
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "  by hand  %8.0f/s in full batches of 256\n", full.PerS)
	hands := referee.Gate{
		Name: fmt.Sprintf("postgres: at least %.0f %% of the same statements by hand",
			byHandPostgres*100),
		Shown: fmt.Sprintf("%.0f %%", d.perS()/hand.PerS*100),
	}
	hands.Judge(d.perS() >= byHandPostgres*hand.PerS, d.other, hand.other)
	return []referee.Gate{hands}, nil
}

// commits is how many transactions the database has committed. Its backends tell that once a
// second, when they end one, or are idle.
func commits(o options) (float64, error) {
	time.Sleep(statisticsDelay)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, o.postgres)
	if err != nil {
		return 0, errors.New("--postgres: cannot connect")
	}
	defer conn.Close(ctx)
	var n float64
	err = conn.QueryRow(ctx, `SELECT xact_commit::float8 FROM pg_stat_database
		WHERE datname = current_database()`).Scan(&n)
	return n, err
}

func printDrain(out io.Writer, d drained, hand timing) {
	fmt.Fprintf(out, "  sluice   %8.0f/s  %6.1f CPU µs an event (", d.perS(),
		d.cpu.total()*1e6/float64(d.events))
	for _, stage := range stageOrder {
		if d.cpu[stage] > 0 {
			fmt.Fprintf(out, " %s %.1f", stage, d.cpu[stage]*1e6/float64(d.events))
		}
	}
	fmt.Fprintf(out, " ); other CPU %.2f%s\n", d.other, d.other.Mark())
	fmt.Fprintf(out, "  by hand  %8.0f/s  %6.1f CPU µs an event; other CPU %.2f%s\n", hand.PerS,
		hand.CPUS*1e6/float64(hand.Count), hand.other, hand.other.Mark())
}

// passThrough asks what it costs that an event is kept before its destination is asked: the same
// load through sluice at `delivered` and through a proxy that keeps nothing.
func passThrough(out io.Writer, o options, dir string) ([]referee.Gate, error) {
	sink, err := launchPeerOn(o, generatorCPU(), "sink", dir)
	if err != nil {
		return nil, err
	}
	defer sink.stop()
	g, err := startDelivering(o, dir, "delivered",
		fmt.Sprintf("    http: {url: %q}\n", sink.base+"/hook"))
	if err != nil {
		return nil, err
	}
	k := key{"delivered", 1024, 16}
	url := g.base + "/hooks/github"
	if _, err := generate(o, k, url, 0, min(o.length, 2*time.Second)); err != nil {
		g.stop()
		return nil, err
	}
	closed, err := generate(o, k, url, 0, o.length)
	if err != nil {
		g.stop()
		return nil, err
	}
	rate := closed.OKPerS / 2
	const sum, count = "webhook_journal_commit_seconds_sum", "webhook_journal_commit_seconds_count"
	before := scrape(g.metrics, sum, count)
	ours := func() float64 {
		u, _ := sluiceUsage(g.cmd.Process.Pid, g.metrics)
		return u.total() + sink.used()
	}
	kept, others, err := generateWatched(o, k, url, rate, ours)
	after := scrape(g.metrics, sum, count)
	g.stop()
	if err != nil {
		return nil, err
	}
	commit := (after[sum] - before[sum]) / max(after[count]-before[count], 1)
	proxy, err := launchPeer(o, "proxy", dir, "--url", sink.base, "--pool", "64")
	if err != nil {
		return nil, err
	}
	defer proxy.stop()
	if _, err := generate(o, k, proxy.base+"/hook", 0, time.Second); err != nil {
		return nil, err
	}
	theirs := func() float64 { return proxy.used() + sink.used() }
	direct, othersDirect, err := generateWatched(o, k, proxy.base+"/hook", rate, theirs)
	if err != nil {
		return nil, err
	}
	overhead := (kept.Latency.P50 - direct.Latency.P50) / 1e6
	fmt.Fprintf(out, "\ndelivered, 1 KB, %d connections, %.0f/s (half of %.0f/s)\n", k.connections,
		rate, closed.OKPerS)
	for _, way := range []struct {
		name  string
		ran   result
		other referee.Cores
	}{{"sluice", kept, others}, {"proxy", direct, othersDirect}} {
		fmt.Fprintf(out, "  %-6s   p50 %.2f ms, p99 %.2f ms; other CPU %.2f%s\n", way.name,
			way.ran.Latency.P50/1e3, way.ran.Latency.P99/1e3, way.other, way.other.Mark())
	}
	bound := commit + passThroughMax.Seconds()
	median := referee.Gate{
		Name: "delivered: p50 over a direct proxy at most a commit and 0.5 ms",
		Shown: fmt.Sprintf("%.2f ms, bound %.2f ms (a commit is %.2f ms)", overhead*1e3, bound*1e3,
			commit*1e3),
	}
	median.Judge(overhead <= bound, others, othersDirect)
	tail := referee.Gate{
		Name:  "delivered: under 100 ms in all where the destination is",
		Shown: fmt.Sprintf("p99 %.2f ms", kept.Latency.P99/1e3),
	}
	tail.Judge(kept.Latency.P99 < 100e3, others)
	return []referee.Gate{median, tail}, nil
}

// generateWatched is generate for as long as a row takes, with what others used meanwhile; servers
// is the CPU seconds of those who answer.
func generateWatched(
	o options, k key, url string, rate float64, servers func() float64,
) (result, referee.Cores, error) {
	watch, before := referee.StartWatch(), servers()+referee.Own()
	r, err := generate(o, k, url, rate, o.length)
	return r, watch.Others(r.CPUS + servers() + referee.Own() - before), err
}
