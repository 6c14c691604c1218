package e2e

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// forgedDiscord is a request with an Ed25519 signature of the right form that holds for nothing. It
// takes as long to judge as a good one.
func forgedDiscord(path string) request {
	body := `{"type":1,"event":{"type":"ENTITLEMENT_CREATE"}}`
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	return request{path: path, body: body, fields: []field{
		{"Content-Type", "application/json"}, {"X-Signature-Timestamp", fmt.Sprint(time.Now().Unix())},
		{"X-Signature-Ed25519", hex.EncodeToString(ed25519.Sign(key, []byte(body)))},
	}}
}

// discordSource is one whose public key is nobody's that signs here.
func discordSource(name, acknowledge, priority string) string {
	seed := slices.Repeat([]byte{7}, ed25519.SeedSize)
	public := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	return fmt.Sprintf("  %s:\n    path: /hooks/%s\n    provider: discord\n    secrets: [%q]\n"+
		"    acknowledge: %s\n    priority: %s\n    deliver: []\n",
		name, name, hex.EncodeToString(public), acknowledge, priority)
}

// flood sends forged requests on so many connections until it is ended, and gives how many of them
// were refused as such.
func (i *installation) flood(connections int, paths ...string) (end func() (refused int64)) {
	var refused atomic.Int64
	var working sync.WaitGroup
	halt := make(chan struct{})
	for n := range connections {
		w := i.dial(i.t)
		working.Go(func() {
			r := forgedDiscord(paths[n%len(paths)])
			for {
				select {
				case <-halt:
					return
				default:
				}
				a, err := w.exchange(r)
				if err != nil {
					i.t.Errorf("flood: %v", err)
					return
				}
				if a.code == 401 {
					refused.Add(1)
				} else if a.code != 503 {
					i.t.Errorf("flood: %v", a)
				}
			}
		})
	}
	return func() int64 {
		close(halt)
		working.Wait()
		return refused.Load()
	}
}

// steady sends signed requests one after the other, and gives how long each took to be taken and
// how many were not.
func (i *installation) steady(prefix string, n int) (took []time.Duration, failed int) {
	w := i.dial(i.t)
	for k := range n {
		began := time.Now()
		a, err := w.exchange(github("/hooks/github", fmt.Sprintf("%s-%d", prefix, k), "{}"))
		must(i.t, err)
		if a.code != 200 {
			failed++
			continue
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took, failed
}

func TestAFloodOfBadSignaturesThatTakeLongStarvesNobody(t *testing.T) {
	for _, c := range []struct{ name, acknowledge, priority string }{
		{"durable", "durable", "default"}, {"high", "durable", "high"}, {"ring", "ring", "default"},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := install(t, "sources:\n"+githubSource("github", "durable", "")+
				discordSource("discord", c.acknowledge, c.priority))
			i.start()
			i.accepted(github("/hooks/github", "first", "{}"))
			const requests = 300
			quiet, failed := i.steady("quiet", requests)
			if failed > 0 {
				t.Fatalf("%d of %d fail on a quiet host", failed, requests)
			}
			const connections = 64
			end := i.flood(connections, "/hooks/discord")
			began := time.Now()
			loud, failed := i.steady("loud", requests)
			refused := end()
			t.Logf("quiet: median %v, 99th %v; in the flood: median %v, 99th %v, %d failed; %.0f bad "+
				"signatures a second", quiet[len(quiet)/2], quiet[len(quiet)*99/100],
				loud[len(loud)/2], loud[len(loud)*99/100], failed,
				float64(refused)/time.Since(began).Seconds())
			// Without a weight nearly all of them fail beside a source of priority high.
			if failed > requests/10 || refused == 0 {
				t.Errorf("%d of %d signed requests fail while %d bad ones are refused",
					failed, requests, refused)
			}
		})
	}
}
