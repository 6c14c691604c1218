package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// forge is GitHub for one webhook: it sends, notes what came of it, lists that by its API and sends
// again what it is told to (docs.github.com, REST API endpoints for repository webhooks).
type forge struct {
	i   *installation
	url string

	mu   sync.Mutex
	sent []forgeDelivery // the newest first
}

type forgeDelivery struct {
	ID     int       `json:"id"`
	GUID   string    `json:"guid"`
	At     time.Time `json:"delivered_at"`
	Code   int       `json:"status_code"`
	Event  string    `json:"event"`
	Again  bool      `json:"redelivery"`
	Status string    `json:"status"`
}

const forgeHook = "/repos/octo/orders/hooks/7/deliveries"

func newForge(t testing.TB) *forge {
	f := &forge{}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

// block is the source's `reconcile`.
func (f *forge) block(more string) string {
	return fmt.Sprintf("    reconcile: {url: %q, token: t0ken, hook: repos/octo/orders/hooks/7%s}\n",
		f.url, more)
}

func forgeBody(guid string) string { return fmt.Sprintf(`{"guid":%q}`, guid) }

// send sends one delivery and gives the status.
func (f *forge) send(guid string, again bool) int {
	d := forgeDelivery{GUID: guid, At: time.Now().UTC(), Event: "push", Again: again}
	if a, err := f.i.send(github("/hooks/github", guid, forgeBody(guid))); err == nil {
		d.Code, d.Status = a.code, fmt.Sprint("status ", a.code)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	d.ID = 1000 + len(f.sent)
	f.sent = slices.Insert(f.sent, 0, d)
	return d.Code
}

func (f *forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rest, found := strings.CutPrefix(r.URL.Path, forgeHook)
	if !found || r.Header.Get("Authorization") != "Bearer t0ken" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if rest == "" {
		from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
		to := min(from+3, len(f.sent))
		if to < len(f.sent) {
			w.Header().Set("Link", fmt.Sprintf(`<%s%s?cursor=%d>; rel="next"`, f.url, forgeHook, to))
		}
		_ = json.NewEncoder(w).Encode(f.sent[from:to]) // who asks sees what is missing
		return
	}
	id, _ := strconv.Atoi(strings.Split(rest, "/")[1])
	at := slices.IndexFunc(f.sent, func(d forgeDelivery) bool { return d.ID == id })
	if at < 0 {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	d := f.sent[at]
	if strings.HasSuffix(rest, "/attempts") {
		w.WriteHeader(http.StatusAccepted)
		go f.send(d.GUID, true)
		return
	}
	fmt.Fprintf(w, `{"request":{"headers":{"X-GitHub-Delivery":%q,"X-GitHub-Event":"push",`+
		`"Content-Type":"application/json"},"payload":%s}}`, d.GUID, forgeBody(d.GUID))
}

// reconciled is what the command prints.
type reconciled struct {
	Seen, Known, Missing, Taken, Requested, Lost int
	GapsClosed                                   int `json:"gaps_closed"`
}

func (i *installation) reconcile(args ...string) reconciled {
	i.t.Helper()
	return jsonOf[reconciled](i, append([]string{"reconcile", "github"}, args...)...)[0]
}

// onceEachDelivery checks that each delivery of the forge's is one event and was delivered.
func (i *installation) onceEachDelivery(to *sink, guids []string) {
	i.t.Helper()
	i.awaitDelivered()
	var stored []string
	for _, e := range i.events(nil) {
		stored = append(stored, e.GetProviderId())
	}
	slices.Sort(stored)
	slices.Sort(guids)
	if !slices.Equal(stored, guids) {
		i.t.Errorf("stored %q, want %q", stored, guids)
	}
	keys := map[string]string{}
	for _, d := range to.all() {
		if key, known := keys[d.body]; known && key != d.key {
			i.t.Errorf("%s was delivered as two events", d.body)
		}
		keys[d.body] = d.key
	}
	for _, guid := range guids {
		if keys[forgeBody(guid)] == "" {
			i.t.Errorf("%s was not delivered", guid)
		}
	}
}

func TestWhatWasRefusedWhileTheJournalStoodStillComesBackOnceAndItsGapIsClosed(t *testing.T) {
	f, to := newForge(t), newSink(t)
	i := install(t, "sources:\n"+githubSource("github", "durable", "billing")+f.block("")+
		"    deadline: 1s\ndestinations:\n"+to.config("billing"))
	f.i = i
	i.start()
	guids := []string{"before"}
	if code := f.send("before", false); code != 200 {
		t.Fatalf("answered %d", code)
	}
	i.mustRun("fault", "set", "journal.write", "error", "EIO")
	eventually(t, "the journal takes nothing", func() bool {
		guid := fmt.Sprint("refused-", len(guids))
		guids = append(guids, guid)
		return f.send(guid, false) == 503 && !i.status().GetJournal().GetWritable()
	})
	for n := range 4 {
		guid := fmt.Sprint("later-", n)
		guids = append(guids, guid)
		if code := f.send(guid, false); code != 503 {
			t.Fatalf("%s: %d", guid, code)
		}
	}
	i.mustRun("fault", "clear")
	eventually(t, "the journal is writable", func() bool {
		return i.status().GetJournal().GetWritable() && i.drained()
	})
	// One that was refused when its sender's time was over may be stored: that is what is known.
	here := len(i.events(nil))
	gaps := i.mustRun("events", "gaps", "--json")
	if !strings.Contains(gaps, "later-3") {
		t.Fatalf("the gaps are %s", gaps)
	}
	dry := i.reconcile("--dry-run")
	if dry.Missing != len(guids)-here || dry.Taken+dry.Requested+dry.GapsClosed > 0 {
		t.Errorf("a dry run: %+v, want %d missing", dry, len(guids)-here)
	}
	if n := len(i.events(nil)); n != here {
		t.Errorf("a dry run took in %d events", n-here)
	}
	first := i.reconcile()
	if first.Requested != len(guids)-here || first.Taken > 0 || first.Lost > 0 {
		t.Errorf("a run: %+v, want %d requested", first, len(guids)-here)
	}
	i.onceEachDelivery(to, guids)
	closed := first.GapsClosed
	eventually(t, "all gaps are closed", func() bool {
		if len(jsonOf[struct{}](i, "events", "gaps")) == 0 {
			return true
		}
		closed += i.reconcile().GapsClosed
		return false
	})
	if n := len(jsonOf[struct{}](i, "events", "gaps", "--closed")); n == 0 || n != closed {
		t.Errorf("%d gaps are listed as closed, %d were closed", n, closed)
	}
	if again := i.reconcile(); again.Missing+again.Requested > 0 {
		t.Errorf("once more: %+v", again)
	}
	if len(to.all()) != len(guids) {
		t.Errorf("%d deliveries of %d events", len(to.all()), len(guids))
	}
}

func TestAReconciliationThatIsKilledGoesOnAndTakesNothingTwice(t *testing.T) {
	f, to := newForge(t), newSink(t)
	i := install(t, "sources:\n"+githubSource("github", "durable", "billing")+
		f.block(", take: payload, rate: 20/s")+"    order_by: source\n"+
		"destinations:\n"+to.config("billing"))
	f.i = i
	var guids []string
	for n := range 40 { // nobody listens yet
		guids = append(guids, fmt.Sprintf("d-%02d", n))
		f.send(guids[n], false)
	}
	i.start()
	asked := make(chan struct{})
	go func() {
		_, _, _ = i.run("reconcile", "github") // it ends with the daemon
		close(asked)
	}()
	eventually(t, "some are taken in", func() bool { return len(i.events(nil)) > 0 })
	i.killControl()
	<-asked
	i.start()
	eventually(t, "all are taken in", func() bool { return len(i.events(nil)) == len(guids) })
	i.onceEachDelivery(to, guids)
	var order []string
	for _, d := range to.all() {
		if !slices.Contains(order, d.body) {
			order = append(order, d.body)
		}
	}
	if !slices.IsSorted(order) {
		t.Errorf("delivered in the order %q", order)
	}
	eventually(t, "the run ended", func() bool {
		s := i.status().GetSources()[0].GetReconciled()
		return s.GetDone() && s.GetError() == ""
	})
	e := i.events(nil)[0]
	if d := i.event(e.GetId()); d.GetAttempts()[0].GetBy() != "reconcile" || d.GetUnverified() == "" {
		t.Errorf("it says %v, unverified for %q", d.GetAttempts(), d.GetUnverified())
	}
}

func TestNothingIsTakenInWhileTheJournalStandsStill(t *testing.T) {
	f, to := newForge(t), newSink(t)
	i := install(t, "sources:\n"+githubSource("github", "durable", "billing")+
		f.block(", take: payload")+"    deadline: 1s\ndestinations:\n"+to.config("billing"))
	f.i = i
	guids := []string{"d-1", "d-2", "d-3"}
	for _, guid := range guids { // nobody listens yet
		f.send(guid, false)
	}
	i.start()
	i.mustRun("fault", "set", "journal.write", "error", "EIO")
	f.send("last", false)
	ended := make(chan struct{})
	go func() {
		_, _, _ = i.run("reconcile", "github")
		close(ended)
	}()
	eventually(t, "it waits for the journal", func() bool {
		s := i.status().GetSources()[0].GetReconciled()
		return strings.HasPrefix(s.GetWaiting(), "the journal")
	})
	i.mustRun("fault", "clear")
	<-ended
	i.onceEachDelivery(to, append(guids, "last"))
}

func TestASourceThatSendsNothingIsSilentAndTheDaemonStaysReady(t *testing.T) {
	i := install(t, "sources:\n"+githubSource("github", "durable", "")+"    silence: 2s\n"+
		githubSource("patient", "durable", "")+"    silence: off\n"+"destinations: {}\n")
	i.start()
	silent := func() string { return i.metric("webhook_source_silent")[`{source="github"}`] }
	eventually(t, "it is silent", func() bool { return silent() == "1" })
	s := i.status()
	if !s.GetReady() || !s.GetSources()[0].GetSilent() || s.GetSources()[1].GetSilent() ||
		!strings.Contains(strings.Join(s.GetProblems(), "\n"), "source github is silent") {
		t.Errorf("the status is %v", s)
	}
	eventually(t, "it is heard", func() bool {
		i.accepted(github("/hooks/github", fmt.Sprint(time.Now().UnixNano()), "{}"))
		return silent() == "0"
	})
	if got := i.metric("webhook_source_last_event_seconds"); len(got) != 1 {
		t.Errorf("last heard: %v", got)
	}
	if !i.logged("a source is silent") || !i.logged("a source is heard again") {
		t.Error("the log says nothing of it")
	}
}
