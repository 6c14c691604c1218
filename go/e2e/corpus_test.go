package e2e

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// corpusCase is one connection of testdata/http1 and what a strict server does with it.
type corpusCase struct {
	Name   string
	Raw    string
	RawGen []corpusPart `json:"raw_gen"`
	Chunks []int
	EOF    bool
	Expect outcome
}

type corpusPart struct {
	B64   string
	Times int
}

// outcome is what is right for a connection, or for one message of it.
type outcome struct {
	Status     int
	Also       []int
	Close      bool
	Accept     *accepted
	Interim    []int
	Sequence   []outcome
	OneOf      []outcome `json:"one_of"`
	Incomplete bool
}

type accepted struct {
	Method, Target string
	Headers        [][2]string
	Body           string
	BodyGen        []corpusPart `json:"body_gen"`
}

func joined(t testing.TB, whole string, parts []corpusPart) string {
	t.Helper()
	decode := func(text string) string {
		b, err := base64.StdEncoding.DecodeString(text)
		must(t, err)
		return string(b)
	}
	if len(parts) == 0 {
		return decode(whole)
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(strings.Repeat(decode(p.B64), p.Times))
	}
	return b.String()
}

// alternatives unfolds an outcome into the sequences of messages that are right.
func (o outcome) alternatives() [][]outcome {
	switch {
	case o.Incomplete:
		return [][]outcome{{}}
	case len(o.OneOf) > 0:
		var all [][]outcome
		for _, one := range o.OneOf {
			all = append(all, one.alternatives()...)
		}
		return all
	case len(o.Sequence) > 0:
		all := [][]outcome{{}}
		for _, next := range o.Sequence {
			var longer [][]outcome
			for _, before := range all {
				for _, after := range next.alternatives() {
					longer = append(longer, slices.Concat(before, after))
				}
			}
			all = longer
		}
		return all
	}
	return [][]outcome{{o}}
}

func corpus(t testing.TB) []corpusCase {
	t.Helper()
	files, err := filepath.Glob("testdata/http1/*.json")
	must(t, err)
	var all []corpusCase
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		var one struct{ Cases []corpusCase }
		must(t, json.Unmarshal(text, &one))
		all = append(all, one.Cases...)
	}
	if len(all) < 291 {
		t.Fatalf("%d cases, want 291", len(all))
	}
	return all
}

// pathMax is the longest path that a config takes; a longer target is read and found nowhere.
const pathMax = 1024

// corpusConfig has a source for every path that some right outcome accepts.
func corpusConfig(cases []corpusCase) string {
	paths := map[string]bool{"/in/t": true}
	for _, c := range cases {
		for _, alternative := range c.Expect.alternatives() {
			for _, o := range alternative {
				if o.Accept != nil {
					path, _, _ := strings.Cut(o.Accept.Target, "?")
					path, _, _ = strings.Cut(path, "#")
					if strings.HasPrefix(path, "/") && len(path) <= pathMax {
						paths[path] = true
					}
				}
			}
		}
	}
	var b strings.Builder
	b.WriteString("sources:\n")
	n := 0
	for path := range paths {
		n++
		fmt.Fprintf(&b, "  s%d: {path: %q, provider: none, methods: [POST, PUT, GET], deliver: []}\n",
			n, path)
	}
	return b.String()
}

// seen is what a connection did.
type seen struct {
	answers []*answer
	interim [][]int // before each final answer
	closed  bool
}

func TestRawConnectionsEndAsTheyShould(t *testing.T) {
	random := seeded(t)
	cases := corpus(t)
	i := install(t, corpusConfig(cases))
	i.start()
	stored := 0
	for _, c := range cases {
		raw := joined(t, c.Raw, c.RawGen)
		ways := [][]string{pieces(raw, c.Chunks)}
		if len(raw) < 16<<10 {
			for range count(1, 8) {
				ways = append(ways, split(random, raw))
			}
		}
		for n, way := range ways {
			s, err := converse(i.address, way, c)
			if err != nil {
				t.Errorf("%s, split %d: %v", c.Name, n, err)
				continue
			}
			var faults []string
			for _, alternative := range c.Expect.alternatives() {
				fault := i.judge(t, alternative, s, n == 0)
				if fault == "" {
					faults = nil
					break
				}
				faults = append(faults, fault)
			}
			if faults != nil {
				t.Errorf("%s, sent in %d pieces: %s", c.Name, len(way), strings.Join(faults, "; nor "))
			}
			for _, a := range s.answers {
				if a.get("X-Event-Id") != "" {
					stored++
				}
			}
		}
	}
	if list := i.events(nil); len(list) != stored {
		t.Errorf("%d events are stored, %d were acknowledged", len(list), stored)
	}
	if status := i.status(); status.GetDataplane().GetRestarts() != 0 {
		t.Errorf("the data plane died %d times", status.GetDataplane().GetRestarts())
	}
}

// pieces cuts text as the case wants it.
func pieces(text string, sizes []int) []string {
	var cut []string
	for _, size := range sizes {
		size = min(size, len(text))
		cut, text = append(cut, text[:size]), text[size:]
	}
	if text != "" {
		cut = append(cut, text)
	}
	return cut
}

// split cuts text at up to three places.
func split(random *rand.Rand, text string) []string {
	var at []int
	for range 1 + random.IntN(3) {
		at = append(at, random.IntN(len(text)+1))
	}
	slices.Sort(at)
	var cut []string
	from := 0
	for _, to := range append(at, len(text)) {
		if to > from {
			cut, from = append(cut, text[from:to]), to
		}
	}
	return cut
}

// converse sends the pieces and collects as many answers as some right outcome has.
func converse(address string, way []string, c corpusCase) (*seen, error) {
	w, err := connect(address)
	if err != nil {
		return nil, err
	}
	defer w.conn.Close()
	go func() { // an early answer ends it with an error
		for _, piece := range way {
			if w.write(piece) != nil {
				return
			}
			if len(way) <= 4 {
				time.Sleep(100 * time.Microsecond) // lets the pieces travel apart
			}
		}
		if c.EOF {
			_ = w.conn.(*net.TCPConn).CloseWrite()
		}
	}()
	longest := 0
	for _, alternative := range c.Expect.alternatives() {
		longest = max(longest, len(alternative))
	}
	s := &seen{}
	if longest == 0 && !c.EOF {
		return s, nil // the message never ends; nothing is to come
	}
	var interim []int
	for longest == 0 || len(s.answers) < longest {
		a, err := w.read(methodOf(way))
		if errors.Is(err, errEnd) {
			s.closed = true
			return s, nil
		}
		if err != nil {
			return nil, err
		}
		if a.code < 200 {
			interim = append(interim, a.code)
			continue
		}
		s.answers, s.interim = append(s.answers, a), append(s.interim, interim)
		interim = nil
		if a.closes() {
			break
		}
	}
	if last := s.answers[len(s.answers)-1]; last.closes() {
		if _, err := w.read(""); !errors.Is(err, errEnd) {
			return nil, fmt.Errorf("behind an announced end: %v", err)
		}
		s.closed = true
	}
	return s, nil
}

func methodOf(way []string) string {
	if strings.HasPrefix(strings.Join(way, ""), "HEAD ") {
		return "HEAD"
	}
	return ""
}

// judge tells what differs between a right outcome and what was seen; nothing: it is right.
func (i *installation) judge(t testing.TB, want []outcome, s *seen, interim bool) string {
	t.Helper()
	if len(want) == 0 { // incomplete: whatever it is told, nothing is taken
		for _, a := range s.answers {
			if a.code < 400 {
				return fmt.Sprintf("an incomplete message got %v", a)
			}
		}
		return ""
	}
	if len(s.answers) != len(want) {
		return fmt.Sprintf("%d answers %v, want %d", len(s.answers), s.answers, len(want))
	}
	for n, o := range want {
		a := s.answers[n]
		if o.Close && n == len(want)-1 && !s.closed {
			return fmt.Sprintf("%v leaves the connection open", a)
		}
		if o.Accept == nil {
			if a.code != o.Status && !slices.Contains(o.Also, a.code) {
				return fmt.Sprintf("%v, want %d or %v", a, o.Status, o.Also)
			}
			continue
		}
		if path, _, _ := strings.Cut(o.Accept.Target, "?"); len(path) > pathMax {
			if a.code != 404 {
				return fmt.Sprintf("%v, want 404 for a path of no source", a)
			}
			continue
		}
		if a.code != 200 {
			return fmt.Sprintf("%v, want it accepted", a)
		}
		if interim && fmt.Sprint(s.interim[n]) != fmt.Sprint(o.Interim) {
			return fmt.Sprintf("interim answers %v, want %v", s.interim[n], o.Interim)
		}
		if fault := i.compare(t, o.Accept, a.get("X-Event-Id")); fault != "" {
			return fault
		}
	}
	return ""
}

// compare tells what differs between what was sent and what is stored.
func (i *installation) compare(t testing.TB, want *accepted, id string) string {
	t.Helper()
	got := i.event(id)
	if got.GetMethod() != want.Method || got.GetTarget() != want.Target {
		return fmt.Sprintf("stored %s %.60q, want %s %.60q", got.GetMethod(), got.GetTarget(),
			want.Method, want.Target)
	}
	body := joined(t, want.Body, want.BodyGen)
	if string(got.GetBody()) != body {
		return fmt.Sprintf("stored body %.60q, want %.60q", got.GetBody(), body)
	}
	var have [][2]string
	for _, h := range got.GetHeaders() {
		have = append(have, [2]string{strings.ToLower(string(h.GetName())), latin(h.GetValue())})
	}
	if fmt.Sprint(have) != fmt.Sprint(want.Headers) {
		return fmt.Sprintf("stored fields %.300q, want %.300q", have, want.Headers)
	}
	return ""
}

// latin shows bytes as Latin-1.
func latin(bytes []byte) string {
	runes := make([]rune, len(bytes))
	for n, b := range bytes {
		runes[n] = rune(b)
	}
	return string(runes)
}
