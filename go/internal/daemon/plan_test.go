package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/config"
	"sluice/go/internal/event"
	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
	pb "sluice/proto/sluice/v1"
	"sluice/shm-abi/shmabi"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// parse reads a config, in development mode; the folders are of no use.
func parse(t testing.TB, text string) *config.Config {
	t.Helper()
	c, err := tryParse(text)
	must(t, err)
	return c
}

func tryParse(text string) (*config.Config, error) {
	return config.Parse("sluice.yaml", []byte(text), config.Options{
		Dev: true, WorkingFolder: "/nowhere",
		Provider: func(name string) (config.Provider, bool) {
			scheme, ok := catalogue.Lookup(name)
			if !ok {
				return config.Provider{}, false
			}
			return config.Provider{Deadline: 10 * time.Second, NeedsSecret: !scheme.Unsigned()}, true
		},
	})
}

// sources is a config with sources of no provider: NAME or NAME>DESTINATION,DESTINATION.
func sources(list ...string) string {
	var text strings.Builder
	text.WriteString("sources:\n")
	to := map[string]bool{"stdout": true}
	for _, s := range list {
		name, names, _ := strings.Cut(s, ">")
		fmt.Fprintf(&text, "  %s: {path: /%s, provider: none, deliver: [%s]}\n", name, name, names)
		for _, d := range strings.Split(names, ",") {
			to[d] = true
		}
	}
	text.WriteString("destinations:\n")
	for d := range to {
		if d != "" {
			fmt.Fprintf(&text, "  %s: {stdout: {}}\n", d)
		}
	}
	return text.String()
}

func planOf(t testing.TB, before *event.Catalogue, text string) *plan {
	t.Helper()
	p, err := newPlan(parse(t, text), before)
	must(t, err)
	return p
}

// numbers are the ids of the config's sources by name, as the data plane gets them.
func numbers(p *plan) map[string]uint32 {
	ids := make(map[string]uint32)
	for _, s := range p.snapshot.Sources {
		ids[s.Name] = s.Id
	}
	return ids
}

func TestANumberIsNeverUsedAgain(t *testing.T) {
	first := planOf(t, nil, sources("a", "b"))
	a, b := numbers(first)["a"], numbers(first)["b"]
	if a == 0 || b == 0 || a == b {
		t.Fatalf("numbers %v", numbers(first))
	}
	without := planOf(t, &first.catalogue, sources("a"))
	other := planOf(t, &without.catalogue, sources("a", "c"))
	if c := numbers(other)["c"]; c == a || c == b {
		t.Errorf("c has the number %d, a %d, b had %d", c, a, b)
	}
	back := planOf(t, &other.catalogue, sources("b", "c"))
	if got := numbers(back); got["b"] != b || got["c"] != numbers(other)["c"] {
		t.Errorf("b comes back as %d, it was %d", got["b"], b)
	}
	if name := back.catalogue.SourceName(a); name != "a" {
		t.Errorf("the name of a removed source is %q", name)
	}
	versions := []uint32{
		first.catalogue.ConfigVersion, without.catalogue.ConfigVersion,
		other.catalogue.ConfigVersion, back.catalogue.ConfigVersion,
	}
	if !slices.Equal(versions, []uint32{1, 2, 3, 4}) {
		t.Errorf("versions %v", versions)
	}
}

func TestAPlanDoesNotChangeTheOneBefore(t *testing.T) {
	first := planOf(t, nil, sources("a>stdout"))
	names, routes := slices.Clone(first.catalogue.Sources), slices.Clone(first.catalogue.Routes)
	planOf(t, &first.catalogue, sources("b>x", "a>x,stdout"))
	if !slices.Equal(first.catalogue.Sources, names) || len(first.catalogue.Routes) != len(routes) {
		t.Errorf("sources %v, routes %v", first.catalogue.Sources, first.catalogue.Routes)
	}
}

func TestARouteKeepsItsVersionWhileItLeadsToTheSame(t *testing.T) {
	route := func(p *plan, name string) uint32 { return p.table.Sources[numbers(p)[name]].Route }
	first := planOf(t, nil, sources("a>x", "b>x,y"))
	same := planOf(t, &first.catalogue, sources("b>x,y", "a>x"))
	if route(first, "a") != route(same, "a") || route(first, "b") != route(same, "b") {
		t.Errorf("routes %v became %v", first.catalogue.Routes, same.catalogue.Routes)
	}
	moved := planOf(t, &same.catalogue, sources("a>y", "b>x,y"))
	if route(moved, "a") <= route(same, "b") || route(moved, "b") != route(same, "b") {
		t.Errorf("routes %v became %v", same.catalogue.Routes, moved.catalogue.Routes)
	}
	// What a version means is for good, also when the config goes back.
	again := planOf(t, &moved.catalogue, sources("a>x", "b>x,y"))
	old, _ := again.catalogue.Route(route(first, "a"))
	now, ok := again.catalogue.Route(route(again, "a"))
	if !ok || !slices.Equal(old.Destinations, now.Destinations) || now.Source != numbers(again)["a"] {
		t.Errorf("route %v, the first was %v", now, old)
	}
	versions := make(map[uint32]bool)
	for _, r := range again.catalogue.Routes {
		if versions[r.Version] {
			t.Errorf("two routes of version %d", r.Version)
		}
		versions[r.Version] = true
	}
}

func TestEveryDestinationHasANumber(t *testing.T) {
	p := planOf(t, nil, sources("a>x"))
	if idOf(p.catalogue.Destinations, "stdout") == 0 || idOf(p.catalogue.Destinations, "x") == 0 {
		t.Errorf("destinations %v", p.catalogue.Destinations)
	}
	if idOf(p.catalogue.Destinations, "none") != 0 {
		t.Error("a number for a name that is none")
	}
}

func TestSlotsAreBoundedInTheLifeOfADataDirectory(t *testing.T) {
	var before event.Catalogue
	for i := range shmabi.SourcesMax - 1 {
		before.Sources = append(before.Sources,
			event.Named{ID: uint32(i + 1), Name: fmt.Sprint("old-", i)})
	}
	p := planOf(t, &before, sources("last"))
	if s := p.snapshot.Sources[0]; s.Id != shmabi.SourcesMax || s.Slot != shmabi.SourcesMax-1 {
		t.Errorf("number %d in slot %d", s.Id, s.Slot)
	}
	_, err := newPlan(parse(t, sources("last", "more")), &p.catalogue)
	if err == nil || !strings.Contains(err.Error(), "source more: it would be source number 1025") {
		t.Errorf("one too many: %v", err)
	}
}

func TestASourceIsRoutedAndJudgedAsConfigured(t *testing.T) {
	p := planOf(t, nil, `
sources:
  gh:
    path: /gh
    provider: github
    secrets: [it-is-a-secret]
    acknowledge: ring
    priority: high
    enforce: false
    dedup: 2h
    order_by: "json:/repository/id"
    max_body: 1MiB
    rate: 10/s
    allow_from: [10.0.0.0/8]
    deliver: [out]
  low: {path: /low, provider: none, priority: low, order_by: source, deliver: []}
destinations:
  out: {stdout: {}}
`)
	gh, low := p.snapshot.Sources[0], p.snapshot.Sources[1]
	if gh.Path != "/gh" || gh.Priority != pb.Priority_PRIORITY_HIGH ||
		gh.Acknowledge != pb.Acknowledge_ACKNOWLEDGE_RING || gh.Rate != 10 ||
		!slices.Equal(gh.AllowFrom, []string{"10.0.0.0/8"}) || gh.MaxBody != 1<<20 {
		t.Errorf("routed as %v", gh)
	}
	judged := p.table.Sources[gh.Id]
	if judged.Ack != shmabi.AckRing || judged.Enforce || judged.Unverified ||
		judged.Dedup != 2*time.Hour || judged.Name != "gh" {
		t.Errorf("judged as %+v", judged)
	}
	if low.Priority != pb.Priority_PRIORITY_LOW || !p.table.Sources[low.Id].Unverified {
		t.Errorf("low is %v", low)
	}
	request := func(body string) *provider.Request { return &provider.Request{Body: []byte(body)} }
	one, two := judged.OrderKey(request(`{"repository":{"id":1}}`)),
		judged.OrderKey(request(`{"repository":{"id":2}}`))
	if one == two || one == 0 || judged.OrderKey(request(`{}`)) != 0 {
		t.Errorf("order keys %d and %d", one, two)
	}
	all := p.table.Sources[low.Id].OrderKey
	if all(request("a")) != all(request("b")) || all(request("a")) == 0 {
		t.Error("order_by: source gives two keys")
	}
}

func TestTheBudgetIsWhatTheSenderWaitsWithoutTheWay(t *testing.T) {
	scheme := &provider.Scheme{}
	for deadline, want := range map[time.Duration]time.Duration{
		10 * time.Second:      10*time.Second - time.Second - 50*time.Millisecond,
		3 * time.Second:       3*time.Second - 300*time.Millisecond - 50*time.Millisecond,
		20 * time.Second:      20*time.Second - time.Second - 50*time.Millisecond,
		60 * time.Millisecond: 50 * time.Millisecond,
	} {
		if got := budget(deadline, scheme); got != want {
			t.Errorf("deadline %v: %v, want %v", deadline, got, want)
		}
	}
	scheme.Contract.ConnectDeadline = provider.Fact[time.Duration]{
		Value: 2 * time.Second, Source: "a test",
	}
	if got, want := budget(10*time.Second, scheme), 8*time.Second-50*time.Millisecond; got != want {
		t.Errorf("with a known connect time: %v, want %v", got, want)
	}
}

func TestIdentifyFindsTheSendersID(t *testing.T) {
	const withIDs = `
sources:
  a: {path: /a, provider: none, id_from: "header:X-Id", deliver: []}
  b: {path: /b, provider: none, id_from: "json:/id", deliver: []}
`
	p := planOf(t, nil, withIDs)
	frame := func(source uint32) shmabi.Frame {
		f, err := shmabi.BuildEvent(shmabi.EventParts{
			Method: "POST", Target: "/", SourceID: source,
			Headers: [][2]string{{"x-id", "from-header"}}, Body: []byte(`{"id":"from-body"}`),
		})
		must(t, err)
		return f
	}
	var ids identifiers
	of := func(source string) (found string) {
		ids.describe(source, frame(1), func(id, kind []byte) { found = string(id) + string(kind) })
		return found
	}
	if got := of("a"); got != "" {
		t.Errorf("%q before there is a config", got)
	}
	ids.use(p)
	if got := of("a") + " " + of("b"); got != "from-header from-body" {
		t.Errorf("found %q", got)
	}
	if got := of("c"); got != "" {
		t.Errorf("%q for a source that is none", got)
	}
	// While one config follows another, both are known, and the later one's word counts.
	next := planOf(t, &p.catalogue, strings.Replace(withIDs, "header:X-Id", "none", 1))
	delete(next.identify, "b")
	ids.use(p, next)
	if got := of("a") + of("b"); got != "from-body" {
		t.Errorf("found %q", got)
	}
}
