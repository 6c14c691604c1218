package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// narrow admits a few and lets a few wait, so that a flood is certain to be refused in part.
const narrow = "workers: 2\nadmission: {algorithm: fixed, initial_limit: 4, max_held: 6, " +
	"hold_budget: 200ms}\n"

// stuck is a store that serves nobody before the fault is cleared.
const stuck = "1x1m"

// mixed is a low source of GitHub, a high one of Shopify, and one whose requests take slots.
func mixed() string {
	return narrow + "sources:\n" + githubSource("low", "durable", "") +
		"    priority: low\n    shed_status: 429\n" +
		shopifySource("high") + "    priority: high\n" +
		"  filler: {path: /hooks/filler, provider: none, deliver: []}\n"
}

func shopifySource(name string) string {
	return fmt.Sprintf("  %s:\n    path: /hooks/%s\n    provider: shopify\n    secrets: [%q]\n"+
		"    deliver: []\n", name, name, secret)
}

// shopify is a request as Shopify signs it.
func shopify(path, id, body string) request {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return request{path: path, body: body, fields: []field{
		{"Content-Type", "application/json"}, {"X-Shopify-Topic", "orders/create"},
		{"X-Shopify-Event-Id", id},
		{"X-Shopify-Hmac-Sha256", base64.StdEncoding.EncodeToString(mac.Sum(nil))},
	}}
}

// told is what the senders of an installation saw, by source.
type told struct {
	i       *installation
	waiting sync.WaitGroup

	mu       sync.Mutex
	accepted map[string][]string // ids of 200s, each time
	refused  map[string][]string // ids of refusals, each time
	begun    int
	cut      int // requests whose connection ended without an answer
}

func hear(i *installation) *told {
	return &told{i: i, accepted: map[string][]string{}, refused: map[string][]string{}}
}

// request makes one of a source of mixed.
func (o *told) request(source, id string) request {
	body := fmt.Sprintf(`{"id":%q}`, id)
	switch source {
	case "low":
		return github("/hooks/low", id, body)
	case "filler":
		return request{path: "/hooks/filler", body: body}
	}
	return shopify("/hooks/"+source, id, body)
}

// note takes an answer into account; it must be one that the contract has for overload.
func (o *told) note(source, id string, a *answer, err error) {
	t := o.i.t
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err != nil:
		o.cut++
	case a.code == 200:
		o.accepted[source] = append(o.accepted[source], id)
	default:
		shed := 503
		if source == "low" {
			shed = 429
		}
		seconds, malformed := strconv.Atoi(a.get("Retry-After"))
		if a.code != shed || malformed != nil || seconds < 1 ||
			a.get("X-Backpressure-Reason") != "Overloaded" {
			t.Errorf("%s of %s: %v", id, source, a)
		}
		o.refused[source] = append(o.refused[source], id)
	}
}

// send sends one request and waits for its answer.
func (o *told) send(source, id string) (code int) {
	o.begin(1)
	a, err := o.i.send(o.request(source, id))
	o.note(source, id, a, err)
	if err != nil {
		return 0
	}
	return a.code
}

// flood begins with one request for each id, all at once; o.waiting waits for the answers.
func (o *told) flood(source string, ids []string) {
	o.i.t.Helper()
	wires := make([]*wire, len(ids))
	for n := range wires {
		wires[n] = o.i.dial(o.i.t)
	}
	o.begin(len(wires))
	for n, w := range wires {
		o.waiting.Go(func() {
			a, err := w.exchange(o.request(source, ids[n]))
			o.note(source, ids[n], a, err)
			_ = w.conn.Close()
		})
	}
}

func ids(prefix string, n int) (list []string) {
	for k := range n {
		list = append(list, fmt.Sprintf("%s-%d", prefix, k))
	}
	return list
}

func (o *told) begin(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begun += n
}

// open is how many requests have no answer.
func (o *told) open() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.begun - o.cut
	for _, list := range []map[string][]string{o.accepted, o.refused} {
		for _, ids := range list {
			n -= len(ids)
		}
	}
	return n
}

// refusals is how many the senders of a source saw.
func (o *told) refusals(source string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.refused[source])
}

// jam makes the store serve nobody and fills the slots. Who is admitted now is so by the floor.
func (o *told) jam() {
	o.i.t.Helper()
	o.i.mustRun("fault", "set", "journal.write", "slots", stuck)
	limit := int(o.i.status().GetAdmission().GetLimit())
	o.flood("filler", ids("filler", limit))
	eventually(o.i.t, "the slots are taken", func() bool {
		return int(o.i.status().GetAdmission().GetInflight()) == limit
	})
}

// mustRun runs a command that must succeed.
func (i *installation) mustRun(args ...string) string {
	i.t.Helper()
	out, errs, code := i.run(args...)
	if code != 0 {
		i.t.Fatalf("%v: exit code %d: %s%s", args, code, out, errs)
	}
	return out
}

// jsonOf reads what a command prints with --json: one value a line.
func jsonOf[T any](i *installation, args ...string) (list []T) {
	i.t.Helper()
	for line := range strings.Lines(i.mustRun(append(args, "--json")...)) {
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			i.t.Fatalf("%v: %v in %q", args, err, line)
		}
		list = append(list, v)
	}
	return list
}

type gapLine struct {
	Source, Reason string
	Count, Unnamed int
	IDs            []string
}

type sourceLine struct {
	Name         string
	Accepted     int
	Refused      int
	RefusedInRow int `json:"refused_in_row"`
	Guarded      bool
}

// source is a source as `status --json` shows it.
func (i *installation) source(name string) sourceLine {
	i.t.Helper()
	type status struct{ Sources []sourceLine }
	for _, s := range jsonOf[status](i, "status")[0].Sources {
		if s.Name == name {
			return s
		}
	}
	i.t.Fatalf("status has no source %q", name)
	return sourceLine{}
}

// gapsDiffer says how `events gaps` differs from what the senders of a source saw; "": in nothing.
func (o *told) gapsDiffer(source string) string {
	o.i.t.Helper()
	count, unnamed := 0, 0
	var named []string
	gaps := jsonOf[gapLine](o.i, "events", "gaps", "--limit", "0", "--source", source)
	for _, g := range gaps {
		if g.Source != source || g.Reason == "" || g.Count < 1 {
			return fmt.Sprintf("gaps of %s: %+v", source, g)
		}
		count, unnamed, named = count+g.Count, unnamed+g.Unnamed, append(named, g.IDs...)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	want := slices.Clone(o.refused[source])
	if count != len(want) {
		return fmt.Sprintf("gaps of %s: %d in %+v, the senders saw %d", source, count, gaps, len(want))
	}
	if source == "filler" { // its requests have no id
		want, unnamed = nil, 0
	}
	distinct := func(list []string) []string {
		return slices.Compact(slices.Sorted(slices.Values(list)))
	}
	if got := distinct(named); unnamed != 0 || !slices.Equal(got, distinct(want)) {
		return fmt.Sprintf("gaps of %s: %d unnamed, ids %q, the senders saw %q", source, unnamed,
			got, distinct(want))
	}
	return ""
}

// countsDiffer is gapsDiffer for status and metrics, which a control plane begins anew.
func (o *told) countsDiffer(source string) string {
	o.i.t.Helper()
	want := o.refusals(source)
	if got := o.i.source(source).Refused; got != want {
		return fmt.Sprintf("status of %s: %d refused, the senders saw %d", source, got, want)
	}
	got := 0
	for labels, v := range o.i.metric("webhook_ingress_shed_total") {
		if strings.Contains(labels, fmt.Sprintf("source=%q", source)) {
			n, err := strconv.Atoi(v)
			must(o.i.t, err)
			got += n
		}
	}
	if got != want {
		return fmt.Sprintf("metrics of %s: %d shed, the senders saw %d", source, got, want)
	}
	return ""
}

// agrees waits until the daemon has counted what the senders saw.
func (o *told) agrees(differ func(source string) string, sources ...string) {
	o.i.t.Helper()
	difference := ""
	defer func() {
		if difference != "" {
			o.i.t.Log(difference)
		}
	}()
	for _, source := range sources {
		eventually(o.i.t, "the refusals are counted", func() bool {
			difference = differ(source)
			return difference == ""
		})
	}
}

// stored checks that a source's events are those of its 200s, once each; more may be stored.
func (o *told) stored(source string, nothingElse bool) {
	t := o.i.t
	t.Helper()
	eventually(t, "the lanes are drained", o.i.drained)
	got := map[string]int{}
	for _, e := range o.i.events(nil) {
		if e.GetSource() == source {
			got[e.GetProviderId()]++
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	want := map[string]int{}
	for _, id := range o.accepted[source] {
		want[id] = 1
		if got[id] != 1 {
			t.Errorf("%s of %s was told 200 and is stored %d times", id, source, got[id])
		}
	}
	if nothingElse && !maps.Equal(got, want) {
		t.Errorf("stored of %s: %v, the senders were told 200 for %v", source, got, want)
	}
}

func TestEveryRefusalOfAFloodIsAccountedFor(t *testing.T) {
	i := install(t, mixed())
	i.start()
	o := hear(i)
	both := []string{"low", "high"}
	for _, source := range both {
		if code := o.send(source, "first"); code != 200 { // or the floor is for it
			t.Fatalf("first of %s: %d", source, code)
		}
	}
	i.mustRun("fault", "set", "journal.write", "slots", "1x50ms")
	for round := 0; o.refusals("low") == 0; round++ {
		o.flood("low", ids(fmt.Sprintf("low-%d", round), 80))
		o.flood("high", ids(fmt.Sprintf("high-%d", round), 4))
		o.waiting.Wait()
	}
	if o.cut != 0 {
		t.Errorf("%d requests had no answer", o.cut)
	}
	t.Logf("low: %d of 200, %d refused; high: %d, %d", len(o.accepted["low"]), o.refusals("low"),
		len(o.accepted["high"]), o.refusals("high"))
	for _, source := range both {
		o.stored(source, true)
	}
	o.agrees(o.gapsDiffer, both...)
	for _, g := range jsonOf[gapLine](i, "events", "gaps", "--source", "high") {
		if g.Reason != "hold" { // those of the low source make room for it
			t.Errorf("of the high source: %+v", g)
		}
	}
	o.agrees(o.countsDiffer, both...)
	if out := i.mustRun("fault", "list"); !strings.Contains(out, "1x50ms") {
		t.Errorf("fault list: %s", out)
	}

	if out := i.mustRun("fault", "clear"); !strings.Contains(out, "no fault") {
		t.Errorf("fault clear: %s", out)
	}
	before := map[string][]string{}
	for _, source := range both {
		before[source] = append(slices.Clone(o.refused[source]), ids("later-"+source, 10)...)
	}
	for source, list := range before {
		for _, id := range list {
			if code := o.send(source, id); code != 200 {
				t.Errorf("%s of %s after the fault: %d", id, source, code)
			}
		}
	}
	for _, source := range both {
		o.stored(source, true)
		// What was refused stays so, and nothing came on top.
		o.agrees(o.gapsDiffer, source)
		o.agrees(o.countsDiffer, source)
	}
}

func TestGapsOutliveTheProcesses(t *testing.T) {
	i := install(t, mixed())
	i.start()
	o := hear(i)
	o.jam()
	all := []string{"low", "high", "filler"}
	flood := func(name string) {
		low, high := o.refusals("low"), o.refusals("high")
		o.flood("low", ids("low-"+name, 30))
		o.flood("high", ids("high-"+name, 8))
		// One of each may have had the floor's slot, and some may be served first now.
		eventually(t, "refusals", func() bool {
			return o.refusals("low") >= low+20 && o.refusals("high") > high
		})
	}
	flood("before")
	pid := i.plane()
	i.killControl()
	flood("meanwhile") // nobody looks
	i.start()
	if i.plane() != pid {
		t.Error("the data plane is another one")
	}
	o.waiting.Wait()
	if o.cut != 0 {
		t.Errorf("%d requests had no answer", o.cut)
	}
	t.Logf("refused: %d, %d, %d", o.refusals("low"), o.refusals("high"), o.refusals("filler"))
	o.agrees(o.gapsDiffer, all...)
	o.agrees(o.countsDiffer, all...) // the data plane's own, so none is lost
	for _, source := range []string{"low", "high"} {
		o.stored(source, false)
	}

	// What nobody has looked at yet is in what the dead data plane wrote down.
	o.jam()
	flood("last")
	eventually(t, "whoever has no slot has an answer", func() bool {
		a := i.status().GetAdmission()
		return a.GetHeld() == 0 && int(a.GetInflight()) == o.open()
	})
	i.killBoth()
	o.waiting.Wait()
	i.start()
	o.agrees(o.gapsDiffer, all...)
	i.stop()
	i.start()
	o.agrees(o.gapsDiffer, all...)
}

func TestFaultsAreForDevOnly(t *testing.T) {
	i := install(t, noSources)
	i.strict = true
	i.start()
	for _, args := range [][]string{
		{"fault", "set", "journal.write", "slots", "1x50ms"}, {"fault", "list"}, {"fault", "clear"},
		{"fault", "set", "nowhere", "delay", "1s"},
	} {
		_, errs, code := i.run(args...)
		if code != 1 || !strings.Contains(errs, "run --dev") || !strings.Contains(errs, "game days") {
			t.Errorf("%v: exit code %d, %q", args, code, errs)
		}
	}
}

func TestAFaultThatThereIsNotIsExplained(t *testing.T) {
	i := install(t, noSources)
	i.start()
	for _, row := range []struct{ args, text string }{
		{"nowhere delay 1s", "journal.write, journal.sync, dataplane"},
		{"journal.write tear 1s", "delay DURATION, error ERRNO, slots COUNTxTIME"},
		{"journal.sync slots 1x50ms", "delay DURATION, error ERRNO"},
		{"journal.write slots", "COUNTxTIME"},
		{"journal.write slots 0x50ms", "0x50ms"},
		{"journal.write slots many", "many"},
		{"journal.write delay -1s", "-1s"},
		{"journal.write error EWHAT", "EWHAT"},
		{"dataplane kill now", "no argument"},
		{"dataplane kill --for 1s", "at once"},
	} {
		args := append([]string{"fault", "set"}, strings.Fields(row.args)...)
		_, errs, code := i.run(args...)
		if code != 2 || !strings.Contains(errs, row.text) {
			t.Errorf("%v: exit code %d, %q; want 2 and %q", args, code, errs, row.text)
		}
	}
	if _, errs, code := i.run("fault", "clear", "nowhere"); code != 2 ||
		!strings.Contains(errs, "journal.write") {
		t.Errorf("clear of an unknown point: exit code %d, %q", code, errs)
	}
	if out := i.mustRun("fault", "list"); !strings.Contains(out, "no fault") {
		t.Errorf("in force after refusals: %s", out)
	}
}

func TestASourceNearItsEndIsGuardedUntilASuccess(t *testing.T) {
	i := install(t, narrow+"sources:\n"+shopifySource("shop")+
		"  filler: {path: /hooks/filler, provider: none, deliver: []}\n")
	i.start()
	o := hear(i)
	if code := o.send("shop", "first"); code != 200 { // or the floor is for it
		t.Fatalf("first: %d", code)
	}
	if s := i.source("shop"); s.Guarded || s.RefusedInRow != 0 {
		t.Errorf("at first %+v", s)
	}
	o.jam()
	// Half of the 8 that Shopify bears.
	for n, id := range ids("early", 3) {
		if code := o.send("shop", id); code != 503 {
			t.Fatalf("%s: %d", id, code)
		}
		eventually(t, "the refusals are counted", func() bool {
			s := i.source("shop")
			return s.RefusedInRow == n+1 && !s.Guarded
		})
	}
	o.send("shop", "fourth")
	eventually(t, "it is guarded", func() bool {
		s := i.source("shop")
		return s.RefusedInRow == 4 && s.Guarded
	})
	if out := i.mustRun("status"); !strings.Contains(out, "4 GUARDED") {
		t.Errorf("status: %s", out)
	}
	// The sender counts on, whoever serves it.
	isGuardedStill := func() bool {
		s := i.source("shop")
		return s.RefusedInRow == 4 && s.Guarded
	}
	i.killControl()
	i.start()
	o.waiting.Wait()
	eventually(t, "it is guarded under another control plane", isGuardedStill)
	i.mustRun("fault", "set", "dataplane", "kill")
	eventually(t, "another data plane serves", func() bool {
		s := i.status()
		return s.GetGeneration() == 2 && s.GetReady()
	})
	eventually(t, "it is guarded by another data plane", isGuardedStill)
	o.agrees(o.countsDiffer, "shop") // these are a life's own
	i.stop()
	i.start()
	eventually(t, "it is guarded after a stop of both", isGuardedStill)
	i.killBoth()
	i.start()
	eventually(t, "it is guarded after the death of both", isGuardedStill)
	if code := o.send("shop", "last"); code != 200 {
		t.Errorf("a guarded source, served: %d", code)
	}
	eventually(t, "it is not guarded after a success", func() bool {
		s := i.source("shop")
		return s.RefusedInRow == 0 && !s.Guarded
	})
	o.agrees(o.gapsDiffer, "shop")
}

type limitsLine struct {
	Limit, Min, Max int
	PinnedUntil     *string `json:"pinned_until"`
	Base            float64
	Changes         []struct {
		At       *string
		From, To float64
		Reason   string
	}
}

func (i *installation) limits(args ...string) limitsLine {
	i.t.Helper()
	return jsonOf[limitsLine](i, append([]string{"limits"}, args...)...)[0]
}

func TestTheLimitTellsWhoMovedIt(t *testing.T) {
	// A limit so small is never given up for want of use.
	const small = "admission: {initial_limit: 7}\n" + noSources
	i := install(t, small)
	i.start()
	if l := i.limits("get"); l.Base != 7 || l.PinnedUntil != nil || len(l.Changes) != 0 {
		t.Errorf("at first %+v", l)
	}
	i.limits("set", "300", "--for", "10m")
	l := i.limits("get")
	if l.Limit != 300 || l.PinnedUntil == nil || len(l.Changes) != 1 ||
		l.Changes[0].Reason != "pinned" || l.Changes[0].At == nil || l.Changes[0].From != 7 ||
		l.Changes[0].To != 300 {
		t.Errorf("pinned: %+v", l)
	}
	for _, args := range [][]string{
		{"0"}, {"x"}, {strconv.Itoa(l.Max + 1)}, {strconv.Itoa(l.Min - 1)}, {"7", "--for", "0s"},
	} {
		_, errs, code := i.run(append([]string{"limits", "set"}, args...)...)
		if code != 2 || errs == "" {
			t.Errorf("limits set %v: exit code %d, %q", args, code, errs)
		}
	}
	i.limits("reset")
	l = i.limits("get")
	if l.Base != 7 || l.PinnedUntil != nil || len(l.Changes) != 2 ||
		l.Changes[0].Reason != "released" || l.Changes[0].To != 7 {
		t.Errorf("released: %+v", l)
	}
	// The config says where a limit begins, not where it goes on.
	i.configure(strings.Replace(small, "7", "60", 1))
	for _, end := range []struct {
		name string
		do   func()
	}{{"kill -9", i.killControl}, {"a stop", i.stop}, {"the death of both", i.killBoth}} {
		i.limits("set", "300") // a pin ends with its process
		end.do()
		i.start()
		if l := i.limits("get"); l.Base != 7 || l.PinnedUntil != nil || l.Limit >= 60 {
			t.Errorf("after %s: %+v", end.name, l)
		}
	}
}

func TestWhatComesAgainIsCountedAsARepeat(t *testing.T) {
	i := install(t, strings.Replace(mixed(), "    priority: high\n", "", 1))
	i.start()
	o := hear(i)
	repeats := func(source string, want int) {
		t.Helper()
		got := ""
		defer func() {
			if got != strconv.Itoa(want) {
				t.Logf("repeats of %s: %q, want %d", source, got, want)
			}
		}()
		eventually(t, "the repeats are counted", func() bool {
			got = i.metric("webhook_ingress_repeats_total")[fmt.Sprintf("{source=%q}", source)]
			return got == strconv.Itoa(want)
		})
	}
	for _, source := range []string{"low", "high"} {
		if code := o.send(source, "first"); code != 200 { // or the floor is for it
			t.Fatalf("first of %s: %d", source, code)
		}
	}
	o.jam()
	sent := ids("again", 3)
	for _, id := range sent {
		if low, high := o.send("low", id), o.send("high", id); low != 429 || high != 503 {
			t.Fatalf("%s: %d and %d while the slots are taken", id, low, high)
		}
	}
	repeats("high", 0)
	if code := o.send("high", sent[0]); code != 503 {
		t.Errorf("a repeat while the slots are taken: %d", code)
	}
	repeats("high", 1)
	i.mustRun("fault", "clear")
	o.waiting.Wait()
	for _, id := range sent {
		if low, high := o.send("low", id), o.send("high", id); low != 200 || high != 200 {
			t.Errorf("%s again: %d and %d", id, low, high)
		}
	}
	repeats("high", 4)
	repeats("low", 0) // GitHub never tries again, so its ids say nothing
	for _, source := range []string{"low", "high"} {
		o.stored(source, true)
		o.agrees(o.gapsDiffer, source)
	}
}
