package ingest

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
	"sluice/shm-abi/shmabi"
)

// signer signs as Discord does.
type signer struct{ key ed25519.PrivateKey }

func newSigner() signer { return signer{ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))} }

// source is proven by the signer's public key.
func (s signer) source(t testing.TB, id uint32) *Source {
	t.Helper()
	scheme, ok := catalogue.Lookup("discord")
	if !ok {
		t.Fatal("no profile discord")
	}
	public := hex.EncodeToString(s.key.Public().(ed25519.PublicKey))
	verifier, err := provider.Compile(scheme, []provider.Secret{{Value: public}}, provider.Options{})
	must(t, err)
	heavy := source(t, id, secretText)
	heavy.Proof = NewProof(Proof{Verifier: verifier})
	return heavy
}

func (s signer) request(from uint32, body string, good bool) request {
	at := strconv.FormatInt(received.Unix(), 10)
	sig := ed25519.Sign(s.key, []byte(at+body))
	if !good {
		sig[0] ^= 1
	}
	return request{
		source: from, body: []byte(body), received: uint64(received.UnixNano()),
		headers: [][2]string{
			{"X-Signature-Timestamp", at}, {"X-Signature-Ed25519", hex.EncodeToString(sig)},
		},
	}
}

func TestFramesWithCostlyProofsKeepTheirPlaceAmongTheOthers(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		must(t, err)
	}
	t.Logf("SLUICE_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	r, signs := newRig(t), newSigner()
	r.service.SetTable(table(t, signs.source(t, durably)))
	planes := []*plane{r.plane(roomy), r.plane(roomy)}
	type want struct {
		at   uint64
		code uint16
	}
	const frames = 300
	wants := make([][]want, len(planes))
	for n := range frames {
		for i, p := range planes {
			body, good := fmt.Sprintf(`{"type":2,"n":%d}`, n), random.IntN(2) == 0
			q := signs.request(durably, body, good)
			if random.IntN(2) == 0 {
				if q = signed(t, atOnce, fmt.Sprint(i, "-", n), body); !good {
					q = forged(t, atOnce, fmt.Sprint(i, "-", n), body)
				}
			}
			code := uint16(200)
			if !good {
				code = 401
			}
			wants[i] = append(wants[i], want{p.publish(q), code})
		}
	}
	for i, p := range planes {
		got := map[uint64]uint16{}
		for _, a := range p.take(frames) {
			got[a.position] = a.code
		}
		r.released(p)
		for _, w := range wants[i] {
			if got[w.at] != w.code {
				t.Errorf("lane %d: %d for %d, want %d", i, got[w.at], w.at, w.code)
			}
			if stored := r.storedAt(p, w.at); stored != (w.code == 200) {
				t.Errorf("lane %d: the frame at %d, told %d, is stored: %v", i, w.at, w.code, stored)
			}
		}
	}
}

func TestWhatLiesBeforeACostlyProofDoesNotWaitForIt(t *testing.T) {
	r, signs := newRig(t), newSigner()
	r.service.SetTable(table(t, signs.source(t, durably)))
	p := r.plane(roomy)
	release := make(chan struct{})
	for range heavyGoroutines() {
		r.service.heavy.jobs <- func(*judge) { <-release }
	}
	f, _ := p.frame(signed(t, atOnce, "first", "{}"))
	cheap := p.write(f)
	f, _ = p.frame(signs.request(durably, `{"type":2}`, true))
	heavy := p.write(f)
	p.show()
	wantOne(t, p.take(1), shmabi.ReplyAccepted, 200, cheap)
	close(release)
	wantOne(t, p.take(1), shmabi.ReplyAccepted, 200, heavy)
}

func TestASourceWithoutItsKeyIsToldToComeAgain(t *testing.T) {
	r := newRig(t)
	without := source(t, durably, secretText)
	without.Proof.Store(nil)
	r.service.SetTable(table(t, without))
	p := r.plane(roomy)
	at := p.publish(signed(t, durably, "evt_1", "{}"))
	a := wantOne(t, p.take(1), shmabi.ReplyRefused, 503, at)
	if a.retryAfter < retryAfterMin {
		t.Errorf("told to come again in %d s", a.retryAfter)
	}
	tally := r.service.Tally(durably)
	if tally.Unavailable.Load() != 1 || tally.Unauthorized.Load() != 0 {
		t.Error("a key that is not there is counted as a wrong signature")
	}
	scheme := source(t, durably, secretText)
	without.Proof.Store(scheme.Proof.Load())
	at = p.publish(signed(t, durably, "evt_1", "{}"))
	wantOne(t, p.take(1), shmabi.ReplyAccepted, 200, at)
	if r.released(p); r.storedAt(p, at) == false || len(r.journal.all()) != 1 {
		t.Errorf("stored: %v", r.journal.all())
	}
}

func TestAProofThatIsReplacedCountsAndJudgesByItself(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	type use struct {
		proof  string
		secret int
	}
	uses := make(chan use, 8)
	proof := func(name, secret string) *Proof {
		made := *source(t, durably, secret).Proof.Load()
		made.Proved = func(n int, atNS int64) {
			if atNS != received.UnixNano() {
				t.Errorf("proved at %d", atNS)
			}
			uses <- use{name, n}
		}
		return &made
	}
	place := r.table.Sources[durably].Proof
	place.Store(proof("old", secretText))
	p.publish(signed(t, durably, "evt_1", "{}"))
	if a := p.take(1)[0]; a.code != 200 {
		t.Fatal(a)
	}
	place.Store(proof("new", rotatedText))
	p.publish(signed(t, durably, "evt_2", "{}"))
	p.publish(signedWith(t, durably, rotatedText, "evt_3", "{}"))
	if a := p.take(2); a[0].code != 401 && a[1].code != 401 {
		t.Errorf("%v %v: the old secret holds", a[0], a[1])
	}
	for _, want := range []use{{"old", 0}, {"new", 0}} {
		if got := <-uses; got != want {
			t.Errorf("proved by %v, want %v", got, want)
		}
	}
	if len(uses) > 0 {
		t.Error("a request that was refused counts")
	}
}
