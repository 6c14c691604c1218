package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// The worked example of GitHub's guide.
const (
	guideSecret    = "It's a Secret to Everybody"
	guideBody      = "Hello, World!"
	guideSignature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
)

type failing struct{ forget }

func (failing) keep(context.Context, string, []byte) error { return errors.New("disk full") }

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name, signature string
		store           store
		want            int
	}{
		{"signed", guideSignature, forget{}, 200},
		{"unsigned", "", forget{}, 401},
		{"signed otherwise", "sha256=" + strings.Repeat("0", 64), forget{}, 401},
		{"no hex", "sha256=zz", forget{}, 401},
		{"not kept", guideSignature, failing{}, 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/", strings.NewReader(guideBody))
			r.Header.Set("X-Hub-Signature-256", c.signature)
			w := httptest.NewRecorder()
			newHook([]byte(guideSecret), c.store).ServeHTTP(w, r)
			if w.Code != c.want {
				t.Fatalf("got %d, want %d", w.Code, c.want)
			}
		})
	}
}

func TestAcknowledgedEventsAreInTheFile(t *testing.T) {
	for name, open := range map[string]func(string) (store, error){
		"synced": openSynced, "grouped": openGrouped,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			s, err := open(path)
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					if err := s.keep(t.Context(), fmt.Sprintf("id-%02d", i), []byte("body")); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			s.close()
			found := deliveries(t, path)
			if len(found) != 50 {
				t.Fatalf("%d of 50 deliveries are in the file", len(found))
			}
		})
	}
}

func deliveries(t *testing.T, path string) map[string]bool {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for len(data) > 8 {
		n := binary.LittleEndian.Uint32(data)
		if n == 0 {
			break
		}
		found[string(data[8:8+5])] = true
		data = data[8+n:]
	}
	return found
}

func TestRoomIsReusedFromTheStart(t *testing.T) {
	s := synced{}
	s.end.Store(preallocated - 10)
	if at := place(&s.end, 10); at != preallocated-10 {
		t.Fatalf("the last room was not given: %d", at)
	}
	if at := place(&s.end, 10); at != 0 {
		t.Fatalf("room past the end was given: %d", at)
	}
}

func TestRawDiskReportsEachSize(t *testing.T) {
	var out bytes.Buffer
	o := options{
		file: filepath.Join(t.TempDir(), "raw"), sizes: "4096,65536", length: 20 * time.Millisecond,
	}
	if err := rawdisk(&out, o); err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(&out)
	for _, size := range []int{4096, 65536} {
		var row diskRow
		if err := decoder.Decode(&row); err != nil {
			t.Fatal(err)
		}
		if row.Bytes != size || row.Writes < 1 || row.P99Us < row.P50Us {
			t.Fatalf("row %+v", row)
		}
	}
	o.sizes = "5000"
	if err := rawdisk(&out, o); err == nil {
		t.Fatal("a size that direct I/O cannot write was taken")
	}
}

func TestPostgresNeedsAnAddress(t *testing.T) {
	if _, err := openPostgres(t.Context(), "", 1); err == nil {
		t.Fatal("no URL was taken")
	}
}

func TestPostgresKeepsEachDeliveryOnce(t *testing.T) {
	url := os.Getenv("SLUICE_BENCH_POSTGRES")
	if url == "" {
		t.Skip("SLUICE_BENCH_POSTGRES names no database")
	}
	s, err := openPostgres(t.Context(), url, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for _, id := range []string{"a", "b", "a"} {
		if err := s.keep(t.Context(), id, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	var rows int
	row := s.(*postgres).pool.QueryRow(t.Context(), "SELECT count(*) FROM bench_events")
	if err := row.Scan(&rows); err != nil || rows != 2 {
		t.Fatalf("%d rows, %v", rows, err)
	}
}

func TestACopyAcknowledgesWhatIsInTheTable(t *testing.T) {
	url := os.Getenv("SLUICE_BENCH_POSTGRES")
	if url == "" {
		t.Skip("SLUICE_BENCH_POSTGRES names no database")
	}
	s, err := openCopied(t.Context(), url, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	const senders, each = 50, 20
	var sent sync.WaitGroup
	for n := range senders {
		sent.Go(func() {
			for i := range each {
				if err := s.keep(t.Context(), fmt.Sprint(n, "-", i), []byte("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	sent.Wait()
	var rows int
	row := s.(*copied).pool.QueryRow(t.Context(), "SELECT count(DISTINCT delivery) FROM bench_copied")
	if err := row.Scan(&rows); err != nil || rows != senders*each {
		t.Fatalf("%d rows, %v", rows, err)
	}
}

func TestServesAndStops(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, "127.0.0.1:0", http.NotFoundHandler()) }()
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func TestTheProxyPassesOnAndTheHandWrittenClientCounts(t *testing.T) {
	goal := httptest.NewServer(sink{})
	defer goal.Close()
	handler, err := newProxy(goal.URL, 4)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(handler)
	defer proxy.Close()
	var out bytes.Buffer
	o := options{url: proxy.URL + "/hook", count: 50, bytes: 1024, pool: 4}
	if err := post(t.Context(), &out, o); err != nil {
		t.Fatal(err)
	}
	var got timing
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Count != 50 || got.PerS <= 0 {
		t.Fatalf("%s: %+v, %v", out.String(), got, err)
	}
	goal.Close()
	if err := post(t.Context(), &out, o); err == nil {
		t.Fatal("a destination that is gone was counted as fast")
	}
	if _, err := newProxy("no url", 4); err == nil {
		t.Fatal("a proxy to nowhere")
	}
}
