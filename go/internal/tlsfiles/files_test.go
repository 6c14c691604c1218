package tlsfiles

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// looks is so many looks, and whether anything was taken up.
func looks(files *Files, count int) (changed bool) {
	for range count {
		replaced, _ := files.look()
		changed = changed || len(replaced) > 0
	}
	return changed
}

func TestEachListenerHasItsCertificatesInOrder(t *testing.T) {
	r := newRig(t)
	a := r.pair("a.example")
	cert, key := issue(t, "b.example", year)
	r.write("b.crt", cert)
	r.write("b.key", key)
	b := Pair{r.path("b.crt"), r.path("b.key")}
	files := r.load(Wanted{}, Wanted{Pairs: []Pair{b, a}, ClientCA: a.Cert}, Wanted{Pairs: []Pair{a}})
	m := files.Material()
	if len(m) != 3 || len(m[0].Certificates) != 0 || len(m[1].Certificates) != 2 ||
		m[1].Certificates[0].Pair != b || m[2].Certificates[0].Pair != a || len(m[1].ClientCA) == 0 ||
		len(m[2].ClientCA) != 0 {
		t.Fatalf("got %v", m)
	}
	got := m[1].Certificates[0]
	if !slices.Equal(got.Names, []string{"b.example", "192.0.2.1"}) ||
		!got.NotAfter.Equal(start.Add(year)) || string(got.PrivateKey) != string(key) {
		t.Errorf("read as %v for %q until %v", got, got.Names, got.NotAfter)
	}
	if all := files.Certificates(); len(all) != 2 {
		t.Errorf("%d certificates in all", len(all))
	}
	if text := fmt.Sprintf("%v %+v %#v %s", got, got, &got, got); strings.Contains(text, "BEGIN") {
		t.Errorf("the key shows: %s", text)
	}
}

func TestWhatIsWrongAtTheStartIsNamed(t *testing.T) {
	r := newRig(t)
	pair := r.pair("a.example")
	cert, _ := issue(t, "b.example", year)
	r.write("b.crt", cert)
	r.write("cut.crt", cert[:len(cert)/2])
	r.write("empty.pem", nil)
	for _, c := range []struct {
		wanted Wanted
		says   string
	}{
		{Wanted{Pairs: []Pair{{r.path("gone.crt"), pair.Key}}}, "gone.crt: no such file"},
		{Wanted{Pairs: []Pair{{r.path("b.crt"), pair.Key}}}, "no pair"},
		{Wanted{Pairs: []Pair{{r.path("cut.crt"), pair.Key}}}, "cut.crt: a PEM block is cut off"},
		{Wanted{ClientCA: r.path("empty.pem")}, "empty.pem holds no certificate"},
		{Wanted{ClientCA: r.path("cut.crt")}, "cut off"},
	} {
		_, err := Load([]Wanted{c.wanted}, r.log, r.clock)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %q", c.wanted, err, c.says)
		}
	}
}

func TestAReplacedPairIsTakenUpOnceItIsWhole(t *testing.T) {
	r := newRig(t)
	files := r.load(Wanted{Pairs: []Pair{r.pair("old.example")}})
	if looks(files, 5) {
		t.Fatal("something changed by itself")
	}
	cert, key := issue(t, "new.example", year)
	r.write("tls.crt", cert[:len(cert)/3])
	if looks(files, 1) {
		t.Fatal("half a certificate is taken")
	}
	r.write("tls.crt", cert)
	if looks(files, 4) || name(t, files) != "old.example" {
		t.Fatal("a certificate without its key is taken")
	}
	r.write("tls.key", key)
	if looks(files, 1) {
		t.Fatal("taken at the first sight")
	}
	if !looks(files, 1) || name(t, files) != "new.example" {
		t.Fatal("not taken at the second sight")
	}
	if looks(files, 5) {
		t.Fatal("taken twice")
	}
}

func TestAPairThatStaysWrongIsToldOnce(t *testing.T) {
	r := newRig(t)
	files := r.load(Wanted{Pairs: []Pair{r.pair("old.example")}})
	before, _ := os.ReadFile(r.path("tls.crt"))
	cert, _ := issue(t, "new.example", year)
	r.write("tls.crt", cert)
	looks(files, 10)
	if n := r.heard("cannot be used"); n != 1 || name(t, files) != "old.example" {
		t.Errorf("told %d times: %s", n, r.said.String())
	}
	// Another wrong one is another warning; the old one back is none.
	cert, _ = issue(t, "newer.example", year)
	r.write("tls.crt", cert)
	looks(files, 10)
	r.write("tls.crt", before)
	if looks(files, 10) || r.heard("cannot be used") != 2 {
		t.Errorf("told: %s", r.said.String())
	}
}

func TestAFileThatGoesAwayLeavesWhatWasRead(t *testing.T) {
	r := newRig(t)
	files := r.load(Wanted{Pairs: []Pair{r.pair("old.example")}})
	must(t, os.Remove(r.path("tls.key")))
	looks(files, 1)
	if r.heard("level=WARN") != 0 {
		t.Error("one look without a file is told")
	}
	looks(files, 10)
	if r.heard("cannot be read any more") != 1 || name(t, files) != "old.example" {
		t.Errorf("told: %s", r.said.String())
	}
	r.pair("new.example")
	if !looks(files, 2) || name(t, files) != "new.example" {
		t.Error("what came back is not taken")
	}
}

// TestFoldersBehindALinkAreSwapped is how Kubernetes replaces a secret; certbot's live folder has a
// link for each file.
func TestFoldersBehindALinkAreSwapped(t *testing.T) {
	r := newRig(t)
	folder := func(name string) {
		must(t, os.Mkdir(r.path(name), 0o700))
		cert, key := issue(t, name+".example", year)
		r.write(name+"/tls.crt", cert)
		r.write(name+"/tls.key", key)
		must(t, os.Symlink(name, r.path("next")))
		must(t, os.Rename(r.path("next"), r.path("data")))
	}
	folder("first")
	for _, file := range []string{"tls.crt", "tls.key"} {
		must(t, os.Symlink("data/"+file, r.path(file)))
	}
	files := r.load(Wanted{Pairs: []Pair{{r.path("tls.crt"), r.path("tls.key")}}})
	folder("second")
	if !looks(files, 2) || name(t, files) != "second.example" {
		t.Errorf("%s is shown: %s", name(t, files), r.said.String())
	}
}

func TestAFileOfTheSameLengthAndTimeIsSeenToHaveChanged(t *testing.T) {
	r := newRig(t)
	one, _ := issue(t, "one.example", year)
	two, _ := issue(t, "two.example", year)
	for len(two) != len(one) {
		two, _ = issue(t, "two.example", year)
	}
	r.write("ca.pem", one)
	files := r.load(Wanted{ClientCA: r.path("ca.pem")})
	// Within one tick of the kernel's clock stat may say the same of both.
	r.write("ca.pem", two)
	files.bundles[r.path("ca.pem")].marks, _ = marksOf([]string{r.path("ca.pem")})
	if !looks(files, 2) || string(files.Material()[0].ClientCA) != string(two) {
		t.Error("the old authority is in force")
	}
}

func TestWhatTheDataPlaneRefusesGoesBackAndIsOfferedAgain(t *testing.T) {
	r := newRig(t)
	files := r.load(Wanted{Pairs: []Pair{r.pair("old.example")}})
	tickets := OpenTickets(r.path("ticket-keys"), r.log, r.clock)
	r.pair("new.example")
	offered, refuse := 0, true
	changed := func() error {
		offered++
		if refuse {
			return errors.New("no such curve")
		}
		return nil
	}
	for range 10 {
		step(files, tickets, changed)
	}
	if offered != 1 || name(t, files) != "old.example" || r.heard("no such curve") != 1 {
		t.Fatalf("offered %d times, %s is in force", offered, name(t, files))
	}
	r.now, refuse = r.now.Add(refusedAgain), false
	for range 10 {
		step(files, tickets, changed)
	}
	if offered != 2 || name(t, files) != "new.example" {
		t.Fatalf("offered %d times, %s is in force", offered, name(t, files))
	}
}

func TestACertificateThatEndsIsToldOfTwice(t *testing.T) {
	r := newRig(t)
	files := r.load(Wanted{Pairs: []Pair{r.pair("a.example")}})
	for range 400 {
		looks(files, 1)
		r.now = r.now.Add(24 * time.Hour)
	}
	if r.heard("expires in 14 days") != 1 || r.heard("has expired") != 1 ||
		r.heard("level=") != 2 {
		t.Errorf("told: %s", r.said.String())
	}
	cert, key := issue(t, "a.example", 2*year)
	r.write("tls.crt", cert)
	r.write("tls.key", key)
	r.said.Reset()
	if !looks(files, 3) || r.said.Len() != 0 {
		t.Errorf("told: %s", r.said.String())
	}
}

func TestWatchLooksUntilItIsTold(t *testing.T) {
	r := newRig(t)
	files := r.load(Wanted{Pairs: []Pair{r.pair("old.example")}})
	tickets := OpenTickets(r.path("ticket-keys"), r.log, r.clock)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		offered, ended := 0, make(chan struct{})
		go func() {
			defer close(ended)
			Watch(ctx, func() *Files { return files }, tickets, func() error { offered++; return nil })
		}()
		r.pair("new.example")
		time.Sleep(3 * lookInterval)
		synctest.Wait()
		if offered != 1 || name(t, files) != "new.example" {
			t.Errorf("offered %d times, %s is in force", offered, name(t, files))
		}
		cancel()
		<-ended
	})
}
