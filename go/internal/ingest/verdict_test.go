package ingest

import (
	"strings"
	"testing"
	"time"

	"sluice/go/internal/provider"
	"sluice/shm-abi/shmabi"
)

func TestAFrameTold401IsNeverStored(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	at := p.publish(forged(t, durably, "evt_1", "{}"))
	wantOne(t, p.take(1), shmabi.ReplyRefused, 401, at)
	// The table that would take it comes too late, for this life and for the next one.
	r.table = table(t, source(t, durably, strangerText))
	r.service.SetTable(r.table)
	r.released(p)
	r.restart()
	next := p.publish(signed(t, anybody, "", "{}"))
	p.take(1)
	if r.storedAt(p, at) || !r.storedAt(p, next) || len(r.journal.all()) != 1 {
		t.Errorf("stored: %v", r.journal.all())
	}
	if got := r.service.Tally(durably).Unauthorized.Load(); got != 0 {
		t.Errorf("judged again: %d refusals in the second life", got)
	}
}

func TestASenderIsProvenByTheCertificateThatItsFrameNames(t *testing.T) {
	r := newRig(t)
	verifier, err := provider.Compile(
		provider.ClientScheme([]string{"dns:connect.example.com"}), nil, provider.Options{})
	must(t, err)
	partner := source(t, durably, secretText)
	partner.Proof = NewProof(Proof{Verifier: verifier})
	r.table = table(t, partner)
	r.service.SetTable(r.table)
	p := r.plane(roomy)
	ask := func(client string, headers ...[2]string) uint64 {
		return p.publish(request{
			source: durably, client: client, headers: headers, received: uint64(received.UnixNano()),
		})
	}
	// One shows none though another one on the lane did just before.
	good := ask("sha256:00\ncn:Connect\ndns:connect.EXAMPLE.com")
	wantOne(t, p.take(1), shmabi.ReplyAccepted, 200, good)
	none := ask("", [2]string{"Client", "dns:connect.example.com"})
	wantOne(t, p.take(1), shmabi.ReplyRefused, 401, none)
	other := ask("sha256:01\ncn:dns:connect.example.com\ndns:connect.example.com.evil.example")
	wantOne(t, p.take(1), shmabi.ReplyRefused, 401, other)
	r.released(p)
	if !r.storedAt(p, good) || r.storedAt(p, none) || r.storedAt(p, other) {
		t.Errorf("stored: %v", r.journal.all())
	}
	if f := r.journal.all()[0]; f.frame.C().Flags()&uint8(shmabi.VerdictFlagUnverified) != 0 {
		t.Error("it is marked as taken without a proof")
	}
}

func TestARefusalSurvivesARestartBeforeItsReply(t *testing.T) {
	r := newRig(t)
	p := r.plane(size{1 << 16, 4096})
	fillReplies(t, r, p)
	at := p.publish(forged(t, durably, "evt_1", "{}"))
	r.verified(p)
	r.table = table(t, source(t, durably, strangerText))
	r.restart()
	answers := p.take(65)
	wantOne(t, answers[64:], shmabi.ReplyRefused, 401, at)
	if r.storedAt(p, at) {
		t.Error("a frame that was refused is stored")
	}
}

// fillReplies fills a reply ring of 4096 bytes with refusals.
func fillReplies(t *testing.T, r *rig, p *plane) {
	t.Helper()
	for range 64 {
		p.publish(request{source: nobody, received: uint64(received.UnixNano())})
	}
	eventually(t, "a full reply ring", func() bool {
		return p.load(shmabi.LaneHeaderReplyCommitOffset)-p.replied == 4096
	})
	r.released(p)
}

func TestAnAcknowledgedFrameIsNotJudgedAgain(t *testing.T) {
	changes := map[string]func(*Table){
		"secret rotated": func(tt *Table) {
			tt.Sources[durably] = source(t, durably, rotatedText)
			tt.Sources[atOnce] = source(t, atOnce, rotatedText)
		},
		"source removed": func(tt *Table) {
			delete(tt.Sources, durably)
			delete(tt.Sources, atOnce)
		},
		"ack raised": func(tt *Table) { tt.Sources[atOnce].Ack = shmabi.AckDurable },
		"route moved": func(tt *Table) {
			tt.Sources[atOnce].Route, tt.Sources[durably].Route = 99, 99
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			p := r.plane(roomy)
			r.journal.failNext(1 << 30)
			ring := p.publish(signed(t, atOnce, "evt_1", "ring"))
			wait := p.publish(signed(t, durably, "evt_2", "durable"))
			wantOne(t, p.take(1), shmabi.ReplyAccepted, 200, ring)
			r.verified(p)
			r.stop()
			r.table = table(t)
			change(r.table)
			r.journal.reopen()
			r.start()
			// The reply that left is written again (the data plane drops it), the other one leaves.
			answers := p.take(2)
			wantOne(t, answers[:1], shmabi.ReplyAccepted, 200, ring)
			wantOne(t, answers[1:], shmabi.ReplyAccepted, 200, wait)
			r.released(p)
			all := r.journal.all()
			if len(all) != 2 || all[0].position != ring || all[1].position != wait {
				t.Fatalf("stored: %v", all)
			}
			for i, source := range []uint32{atOnce, durably} {
				if c := all[i].frame.C(); c.RouteVersion() != 10+source {
					t.Errorf("route %d: judged again", c.RouteVersion())
				}
			}
		})
	}
}

func TestWhatTheJournalHasIsNotStoredAgainByTheNextLife(t *testing.T) {
	r := newRig(t)
	p := r.plane(narrow)
	fillReplies(t, r, p)
	ring := p.publish(signed(t, atOnce, "evt_1", "{}"))
	wait := p.publish(signed(t, durably, "evt_2", "{}"))
	eventually(t, "both durable", func() bool { return len(r.journal.all()) == 2 })
	if p.consume() != ring {
		t.Fatalf("consume %d", p.consume())
	}
	r.restart()
	next := p.publish(signed(t, anybody, "", "{}"))
	answers := p.take(67)[64:]
	wantOne(t, answers[:1], shmabi.ReplyAccepted, 200, ring)
	wantOne(t, answers[1:2], shmabi.ReplyAccepted, 200, wait)
	wantOne(t, answers[2:], shmabi.ReplyAccepted, 200, next)
	if all := r.journal.all(); len(all) != 3 || all[2].position != next {
		t.Errorf("stored: %v", all)
	}
}

func TestToleranceIsJudgedAtTheTimeOfReceipt(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	// Signed months before this test runs, received in time: taken. Received late: refused.
	at := p.publish(signed(t, durably, "evt_1", "{}"))
	wantOne(t, p.take(1), shmabi.ReplyAccepted, 200, at)
	late := signed(t, durably, "evt_2", "{}")
	late.received += uint64(10 * time.Minute)
	at = p.publish(late)
	wantOne(t, p.take(1), shmabi.ReplyRefused, 401, at)
}

func TestStaleBytesInACLineAreNotAVerdict(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	r.stop()
	// Every frame of the rig says "verified, ring, 200" in its C line before anybody judged it.
	at := p.publish(forged(t, durably, "evt_1", "{}"))
	good := p.publish(signed(t, durably, "evt_2", "{}"))
	r.start()
	answers := p.take(2)
	wantOne(t, answers[:1], shmabi.ReplyRefused, 401, at)
	wantOne(t, answers[1:], shmabi.ReplyAccepted, 200, good)
	all := r.journal.all()
	if len(all) != 1 || all[0].position != good || all[0].id != idOf(p, good) {
		t.Fatalf("stored: %v", all)
	}
	c := all[0].frame.C()
	if c[len(c)-1] != 0 || c.OrderKey() != 0 || c.Ack() != uint8(shmabi.AckDurable) ||
		c.RouteVersion() != 10+durably {
		t.Errorf("the C line keeps what lay there before: %x", []byte(c))
	}
}

func TestAForgedRequestNeitherHitsNorEntersTheSetOfIDs(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	first := p.publish(forged(t, durably, "evt_1", "{}"))
	wantOne(t, p.take(1), shmabi.ReplyRefused, 401, first)
	genuine := p.publish(signed(t, durably, "evt_1", "{}"))
	wantOne(t, p.take(1), shmabi.ReplyAccepted, 200, genuine)
	again := p.publish(forged(t, durably, "evt_1", "{}"))
	wantOne(t, p.take(1), shmabi.ReplyRefused, 401, again)
}

func TestAnUnknownSourceGets404(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	at := p.publish(request{source: nobody, body: []byte("{}")})
	wantOne(t, p.take(1), shmabi.ReplyRefused, 404, at)
	r.released(p)
	if got := r.service.Tally(nobody).Unknown.Load(); got != 1 || len(r.journal.all()) != 0 {
		t.Errorf("%d counted, %d stored", got, len(r.journal.all()))
	}
}

func TestWhatIsTakenWithoutAProofIsMarked(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	for _, test := range []struct {
		name string
		request
		marked bool
	}{
		{"no provider", signed(t, anybody, "", "{}"), true},
		{"not enforced, forged", forged(t, lax, "evt_1", "{}"), true},
		{"not enforced, signed", signed(t, lax, "evt_2", "{}"), false},
		{"enforced", signed(t, durably, "evt_3", "{}"), false},
	} {
		at := p.publish(test.request)
		wantOne(t, p.take(1), shmabi.ReplyAccepted, 200, at)
		all := r.journal.all()
		last := all[len(all)-1]
		flags := shmabi.VerdictFlag(last.frame.C().Flags())
		if marked := flags&shmabi.VerdictFlagUnverified != 0; last.position != at ||
			marked != test.marked {
			t.Errorf("%s: marked %v", test.name, marked)
		}
		// An id without a proof could push out the genuine event.
		if keyed := last.frame.C().DedupKey() != [16]byte{}; test.marked && keyed {
			t.Errorf("%s: an unproven id is a dedup key", test.name)
		}
	}
}

func TestAHandshakeIsAnsweredAndNotStored(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	r.journal.hold()
	at := p.publish(question(t, "3eZbrw1aB"))
	a := wantOne(t, p.take(1), shmabi.ReplyInline, 200, at)
	if a.body != "3eZbrw1aB" || !strings.HasPrefix(a.head, "Content-Type: text/plain\r\n") ||
		!strings.Contains(a.head, "X-Content-Type-Options: nosniff\r\n") {
		t.Errorf("answer %q %q", a.head, a.body)
	}
	r.released(p)
	if n := r.service.Tally(asking).Answered.Load(); n != 1 || len(r.journal.all()) != 0 {
		t.Errorf("%d answered, %d stored", n, len(r.journal.all()))
	}
}

func TestAHandshakeIsAnsweredTheSameInAnotherLife(t *testing.T) {
	r := newRig(t)
	p := r.plane(size{1 << 16, 4096})
	fillReplies(t, r, p)
	at := p.publish(question(t, "challenge"))
	r.verified(p)
	r.restart()
	a := wantOne(t, p.take(65)[64:], shmabi.ReplyInline, 200, at)
	if a.body != "challenge" {
		t.Errorf("body %q", a.body)
	}
}

func TestAnAnswerThatTheRingCannotCarryDoesNotRetireTheLane(t *testing.T) {
	r := newRig(t)
	p := r.plane(size{1 << 16, 4096})
	at := p.publish(question(t, strings.Repeat("x", 1000)))
	wantOne(t, p.take(1), shmabi.ReplyRefused, 503, at)
	at = p.publish(question(t, "short"))
	wantOne(t, p.take(1), shmabi.ReplyInline, 200, at)
	if p.retired() {
		t.Error("a sender's question retired the lane")
	}
}

func TestEventIDsAreEqualInAnotherLife(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	r.journal.failNext(1 << 30)
	at := p.publish(signed(t, atOnce, "evt_1", "{}"))
	before := wantOne(t, p.take(1), shmabi.ReplyAccepted, 200, at)
	r.stop()
	r.journal.reopen()
	r.start()
	after := wantOne(t, p.take(1), shmabi.ReplyAccepted, 200, at)
	r.released(p)
	if stored := r.journal.all()[0].id; before.id != after.id || stored != after.id ||
		stored != idOf(p, at) {
		t.Errorf("%s, then %s, stored as %s", before.id, after.id, stored)
	}
}

func TestTheOrderKeyIsInTheFrame(t *testing.T) {
	r := newRig(t)
	ordered := source(t, anybody, "")
	key := HashKey(anybody, []byte("customer"))
	ordered.OrderKey = func(*provider.Request) uint64 { return key }
	r.service.SetTable(table(t, ordered))
	p := r.plane(roomy)
	p.publish(signed(t, anybody, "", "{}"))
	p.take(1)
	if got := r.journal.all()[0].frame.C().OrderKey(); got != key || key == 0 {
		t.Errorf("order key %d, want %d", got, key)
	}
	if HashKey(1, []byte("a")) == HashKey(2, []byte("a")) {
		t.Error("two sources share an order")
	}
}

func TestWhatIsNoHandshakeIsToldSoWhileTheJournalTakesNothing(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	r.journal.failNext(1 << 30)
	waits := p.publish(signed(t, durably, "evt_1", "{}"))
	eventually(t, "the journal is not writable", func() bool { return r.control.Writable() == 0 })
	// It was admitted after that, so it looked like a handshake to the data plane.
	late := func(q request) request {
		q.admitted = r.now.Load() + 1
		return q
	}
	at := p.publish(late(question(t, "still answered")))
	if a := wantOne(t, p.take(1), shmabi.ReplyInline, 200, at); a.body != "still answered" {
		t.Errorf("answer %q", a.body)
	}
	at = p.publish(late(signed(t, asking, "", `{"type":"event_callback"}`)))
	wantOne(t, p.take(1), shmabi.ReplyRefused, 503, at)
	at = p.publish(late(forged(t, asking, "", `{"type":"event_callback"}`)))
	wantOne(t, p.take(1), shmabi.ReplyRefused, 401, at)
	r.journal.failNext(0)
	wantOne(t, p.take(1), shmabi.ReplyAccepted, 200, waits)
	r.released(p)
	if all := r.journal.all(); len(all) != 1 || all[0].position != waits {
		t.Errorf("stored: %v", all)
	}
}
