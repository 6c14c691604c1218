package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// mutatedBytesMax is the longest request that is mutated: more are tried in the same time.
const mutatedBytesMax = 6 << 10

// faultsShown is how many wrong answers are shown with their requests.
const faultsShown = 3

// bodySigners are the providers whose recorded signature covers the body.
var bodySigners = []string{
	"github", "shopify", "pagerduty", "sentry", "typeform", "bitbucket", "woocommerce", "razorpay",
}

// original is a request before it is mutated. Where it is signed, `head` ends behind the empty line
// and `signature` is where the signature's value stands.
type original struct {
	text      string
	head      int
	signature [2]int
	signed    bool
}

// originals are the recorded payloads and the corpus, as they go to their sources.
func originals(t testing.TB, all []payload, cases []corpusCase) (signed, open []original) {
	t.Helper()
	for n := range all {
		p := &all[n]
		text := p.request(n).bytes()
		if len(text) > mutatedBytesMax {
			continue
		}
		o := original{text: text, head: strings.Index(text, "\r\n\r\n") + 4}
		if !slices.Contains(bodySigners, p.Provider) {
			if p.source == "open" {
				open = append(open, o)
			}
			continue
		}
		o.signed, o.signature = true, signatureOf(p.Headers, text[:o.head])
		if o.signature[1] == 0 || p.body == "" {
			t.Fatalf("%s: no signature is found in its request", p.Name)
		}
		signed = append(signed, o)
	}
	for _, c := range cases {
		raw := joined(t, c.Raw, c.RawGen)
		// Whether an answer in the middle has a body is not known of HEAD.
		if len(raw) <= mutatedBytesMax && !strings.Contains(raw, "HEAD ") {
			open = append(open, original{text: raw, head: len(raw)})
		}
	}
	return signed, open
}

// signatureOf finds the value of the field that signs; of GitHub's two, the one that counts.
func signatureOf(fields [][2]string, head string) (at [2]int) {
	for _, f := range fields {
		name := strings.ToLower(f[0])
		if strings.Contains(name, "signature") || strings.Contains(name, "hmac") {
			from := strings.Index(head, "\r\n"+f[0]+": ") + len("\r\n"+f[0]+": ")
			at = [2]int{from, from + len(f[1])}
		}
	}
	return at
}

// mutant is what one connection sends, and how many 2xx may come back.
type mutant struct {
	text   string
	may    int  // 2xx at most
	must   bool // nothing was changed: all of them come
	stay   bool // the sender waits for the end instead of announcing its own
	pieces int
}

// breed makes a mutant of some requests of one kind.
func breed(random *rand.Rand, from []original) mutant {
	m := mutant{must: true, pieces: 1 + random.IntN(3), stay: random.IntN(400) == 0}
	var text strings.Builder
	for range 1 + random.IntN(4) {
		o := &from[random.IntN(len(from))]
		if random.IntN(8) == 0 { // as it was: after whatever stands before it
			text.WriteString(o.text)
			m.may++
			m.must = m.must && o.signed
			continue
		}
		changed, forged := o.mutate(random)
		text.WriteString(changed)
		if !forged {
			m.may++
		}
		m.must = false
	}
	m.text = text.String()
	if random.IntN(16) == 0 {
		m.text = m.text[:random.IntN(len(m.text)+1)]
		m.must = false
	}
	return m
}

// mutate changes a request at some places. It tells whether a 2xx would be wrong: the body is not
// the one that was signed any more, or the signature is another one.
func (o *original) mutate(random *rand.Rand) (text string, forged bool) {
	if o.signed && random.IntN(3) == 0 {
		if random.IntN(2) == 0 {
			return o.anotherSignature(random), true
		}
		return o.anotherBody(random), true
	}
	if random.IntN(4) == 0 {
		return o.anotherLength(random)
	}
	head, body := o.text[:o.head], o.text[o.head:]
	if !o.signed && random.IntN(2) == 0 { // all of it is fair game
		return scramble(random, o.text), false
	}
	// Within the head, the body's bytes stay; one that another length makes of them is refused, so
	// at most the one request is accepted that was there.
	return scramble(random, head) + body, false
}

// scramble flips bits, takes out, puts in, doubles lines, and cuts.
func scramble(random *rand.Rand, text string) string {
	b := []byte(text)
	for range 1 + random.IntN(4) {
		if len(b) == 0 {
			break
		}
		at := random.IntN(len(b))
		switch random.IntN(7) {
		case 0, 1:
			b[at] ^= 1 << random.IntN(8)
		case 2:
			b[at] = byte(random.Uint32())
		case 3:
			b = slices.Delete(b, at, min(len(b), at+1+random.IntN(4)))
		case 4:
			b = slices.Insert(b, at, []byte(pick(random, splinters))...)
		case 5:
			if lines := strings.SplitAfter(string(b), "\r\n"); len(lines) > 2 {
				line := lines[random.IntN(len(lines)-1)]
				b = []byte(strings.Replace(string(b), line, line+line, 1))
			}
		default:
			b = slices.Delete(b, at, min(len(b), at+random.IntN(64)))
		}
	}
	return string(b)
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// splinters are what servers read in different ways.
var splinters = []string{
	"\r", "\n", "\r\n", "\r\n\r\n", "\x00", " ", "\t", ":", ",", "\r\n ", "\xff", "%00",
	"Content-Length: 0\r\n", "Content-Length: 5\r\n", "Content-Length: -1\r\n",
	"Content-Length: 18446744073709551616\r\n", "Content-Length: 1, 1\r\n",
	"Transfer-Encoding: chunked\r\n", "Transfer-Encoding: identity\r\n",
	"Transfer-Encoding: chunked, chunked\r\n", "Transfer-Encoding:\x0bchunked\r\n",
	"0\r\n\r\n", "ffffffffffffffff\r\n", "Connection: close\r\n", "Expect: 100-continue\r\n",
	"Host: other.example.test\r\n", " HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
}

// anotherSignature changes a byte of the digest.
func (o *original) anotherSignature(random *rand.Rand) string {
	b := []byte(o.text)
	// The last third is digest in all forms, and far from the padding of base64.
	span := o.signature[1] - o.signature[0]
	at := o.signature[1] - span/3 + random.IntN(span/6)
	was := b[at]
	for b[at]|0x20 == was|0x20 { // hexadecimal digits of either case are the same
		b[at] = pick(random, []byte("0123456789abcdef"))
	}
	return string(b)
}

// anotherBody changes the body and leaves its length.
func (o *original) anotherBody(random *rand.Rand) string {
	b := []byte(o.text)
	for range 1 + random.IntN(3) {
		at := o.head + random.IntN(len(b)-o.head)
		b[at] ^= 1 << random.IntN(8)
	}
	if string(b) == o.text { // two flips of the same bit
		b[len(b)-1] ^= 1
	}
	return string(b)
}

// anotherLength lies about where the body ends, or says it in chunks.
func (o *original) anotherLength(random *rand.Rand) (text string, forged bool) {
	head, body := o.text[:o.head], o.text[o.head:]
	length := fmt.Sprintf("Content-Length: %d\r\n", len(body))
	if !strings.Contains(head, length) {
		return scramble(random, o.text), false
	}
	switch random.IntN(3) {
	case 0: // a length that is not so
		lie := max(0, len(body)+random.IntN(41)-20)
		line := fmt.Sprintf("Content-Length: %d\r\n", lie)
		return strings.Replace(head, length, line, 1) + body, lie != len(body)
	case 1: // chunks that say the truth
		return strings.Replace(head, length, "Transfer-Encoding: chunked\r\n", 1) +
			chunked(random, body, 0), false
	default: // chunks that do not
		return strings.Replace(head, length, "Transfer-Encoding: chunked\r\n", 1) +
			chunked(random, body, 1+random.IntN(3)), true
	}
}

// chunked frames a body; so many of its chunks' sizes are wrong.
func chunked(random *rand.Rand, body string, lies int) string {
	var b strings.Builder
	for rest := body; rest != ""; {
		n := min(len(rest), 1+random.IntN(600))
		size := n
		if lies > 0 {
			size = n + 1 + random.IntN(5)
			lies--
		}
		fmt.Fprintf(&b, "%x\r\n%s\r\n", size, rest[:n])
		rest = rest[n:]
	}
	return b.String() + "0\r\n\r\n"
}

// verdict is what a mutant's connection was told.
type verdict struct {
	accepted, refused, shed int
	ids                     []string
}

// send sends a mutant and hears its connection out: it ends in any case.
func (m *mutant) send(address string, random *rand.Rand) (*verdict, error) {
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	w := &wire{conn, bufio.NewReader(conn)}
	way := []string{m.text}
	if m.pieces > 1 && m.text != "" {
		way = split(random, m.text)
	}
	var writing sync.WaitGroup
	writing.Go(func() {
		for _, piece := range way {
			if w.write(piece) != nil {
				return // it was refused before
			}
		}
		if !m.stay {
			_ = halfClose(conn)
		}
	})
	defer writing.Wait()
	v := &verdict{}
	for {
		a, err := w.read("")
		switch {
		case errors.Is(err, errSlow):
			return v, fmt.Errorf("it hangs: %w", err)
		case errors.Is(err, errEnd):
			return v, nil
		case err != nil:
			return v, err
		case a.code < 200:
		case a.code < 300:
			v.accepted++
			v.ids = append(v.ids, a.get("X-Event-Id"))
		case a.code == 503 || a.code == 429:
			v.shed++
		case a.code >= 400:
			v.refused++
		default:
			return v, fmt.Errorf("no sender may see %v", a)
		}
	}
}

// Whatever bytes come, the data plane lives, each connection ends, a 2xx is an event that is
// stored, and none is said for a body or a signature that was not signed.
func TestMutatedRequestsGetNoWrongAnswer(t *testing.T) {
	all, cases := payloads(t), corpus(t)
	signed, open := originals(t, all, cases)
	requests := count(24_000, 1_000_000)
	sources := payloadConfig(all, "  billing: {file: {path: events.ndjson}}\n")
	sources = strings.ReplaceAll(sources, "deliver: [billing]", "deliver: []")
	sources = strings.Replace(sources, "sources:\n", corpusConfig(cases), 1)
	onDrivers(t, func(t *testing.T, driver string) {
		random := seeded(t)
		i := install(t, "driver: "+driver+"\n"+roomy+
			"http: {header_timeout: 3s, body_timeout: 3s, idle_timeout: 3s}\n"+sources)
		i.start()
		i.runsOn(driver)
		before := i.holdings()

		var sent, accepted, refused, shed, faults atomic.Int64
		var mu sync.Mutex
		told := map[string]bool{}
		seeds := make([]uint64, parallel) // each a sender's
		for n := range seeds {
			seeds[n] = random.Uint64()
		}
		each(seeds, func(seed uint64) {
			for n := uint64(0); sent.Load() < int64(requests); n++ {
				own := rand.New(rand.NewPCG(seed, n))
				from := signed
				if own.IntN(2) == 0 {
					from = open
				}
				m := breed(own, from)
				if from[0].signed {
					sent.Add(int64(max(1, strings.Count(m.text, " HTTP/1.1\r\n"))))
				} else {
					sent.Add(1)
				}
				v, err := m.send(i.address, own)
				switch {
				case err != nil:
				case from[0].signed && v.accepted > m.may, m.must && v.accepted+v.shed != m.may:
					err = fmt.Errorf("%+v, right are %d 2xx", v, m.may)
				}
				if err != nil {
					if faults.Add(1) <= faultsShown {
						t.Errorf("%v for %q", err, m.text)
					}
					return
				}
				accepted.Add(int64(v.accepted))
				refused.Add(int64(v.refused))
				shed.Add(int64(v.shed))
				mu.Lock()
				for _, id := range v.ids {
					told[id] = true
				}
				mu.Unlock()
			}
		})
		t.Logf("%d requests: %d accepted, %d refused, %d shed", sent.Load(), accepted.Load(),
			refused.Load(), shed.Load())

		i.holdsAgain(before)
		eventually(t, "the lanes are drained", i.drained)
		stored := 0
		for _, e := range i.events(nil) {
			if told[e.GetId()] {
				stored++
				continue
			}
			t.Errorf("%s is stored and was not acknowledged", e.GetId())
		}
		if stored != len(told) || len(told) != int(accepted.Load()) {
			t.Errorf("%d events are stored, %d were named in %d acknowledgements", stored, len(told),
				accepted.Load())
		}
		if accepted.Load() == 0 || refused.Load() == 0 {
			t.Error("the mutants are all of one kind: they show nothing")
		}
		i.accepted(request{path: "/hooks/open", body: "{}"})
	})
}
