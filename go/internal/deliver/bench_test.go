package deliver

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/destination/http"
	"sluice/go/internal/event"
	"sluice/go/internal/store"
	"sluice/shm-abi/shmabi"
)

// BenchmarkDelivery is events of 1 KB from a real store on the disk of the temporary directory to a
// destination: one in this process that takes everything at once, and one behind a socket. One
// iteration is one event, from its group's append to its outcome's. Besides the time it tells the
// CPU that the whole process took, which is what a core is asked for; of the socket's, half is the
// receiver's. Run it with -cpu 1 for the number of one core.
func BenchmarkDelivery(b *testing.B) {
	b.Run("in process", func(b *testing.B) {
		benchmarkDelivery(b, taker{})
	})
	b.Run("http", func(b *testing.B) {
		to, err := http.New(http.Options{URL: acceptAll(b)})
		if err != nil {
			b.Fatal(err)
		}
		benchmarkDelivery(b, to)
	})
}

// taker takes everything at once.
type taker struct{}

func (taker) Deliver(context.Context, *destination.Request) destination.Result {
	return destination.Delivery(200)
}

func (taker) Close() error { return nil }

func benchmarkDelivery(b *testing.B, to destination.Destination) {
	const group = 256
	s := journaled(b)
	ctx, cancel := context.WithCancel(context.Background())
	var committing sync.WaitGroup
	left := atomic.Int64{}
	left.Store(int64(b.N))
	done := make(chan struct{})
	body := strings.Repeat("x", 800)
	committing.Go(func() {
		for n := 0; n < b.N; n += group {
			count := min(group, b.N-n)
			if err := s.Append(benchFrames(b, n, count, body)); err != nil {
				b.Error(err)
				return
			}
			// What waits is bounded, as a backlog that is fresh is.
			for int64(n+count)-(int64(b.N)-left.Load()) > 8*group && ctx.Err() == nil {
				<-s.Work()
				if err := s.Append(store.Batch{}); err != nil {
					b.Error(err)
					return
				}
			}
		}
		for ctx.Err() == nil {
			select {
			case <-s.Work():
				_ = s.Append(store.Batch{})
			case <-ctx.Done():
			}
		}
	})
	service := New(Options{Queue: FromStore(s), Log: log(nil),
		Outcome: func(string, string, int, time.Duration) {
			if left.Add(-1) == 0 {
				close(done)
			}
		}})
	before := cpu()
	b.ReportAllocs()
	b.ResetTimer()
	if err := service.Apply([]Target{{ID: destinationID, Name: "d", Destination: to}}); err != nil {
		b.Fatal(err)
	}
	<-done
	b.StopTimer()
	b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
	if err := service.Stop(context.Background()); err != nil {
		b.Error(err)
	}
	cancel()
	committing.Wait()
	if err := s.Close(); err != nil {
		b.Error(err)
	}
}

// cpu is what this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchFrames are a group of events without an ordering key.
func benchFrames(b *testing.B, first, n int, body string) store.Batch {
	lane := event.LaneID{byte(first), byte(first >> 8), byte(first >> 16), 9}
	batch := store.Batch{Frames: make([][]byte, 0, n)}
	at, received := uint64(0), uint64(time.Now().UnixNano())
	for range n {
		f, err := shmabi.BuildEvent(shmabi.EventParts{
			Method: "POST", Target: "/hooks/github", Headers: [][2]string{
				{"Host", "hooks.example"}, {"User-Agent", "GitHub-Hookshot/1"},
				{"Content-Type", "application/json"}, {"X-GitHub-Event", "push"},
				{"X-Hub-Signature-256", "sha256=" + strings.Repeat("0", 64)},
			},
			Body: []byte(body), SourceID: 1, ReceivedNS: received, Position: at,
		})
		if err != nil {
			b.Fatal(err)
		}
		c := f.C()
		c.SetState(uint16(shmabi.StateVerified))
		c.SetEventID(event.NewID(lane, at, received))
		c.SetRouteVersion(1)
		batch.Frames = append(batch.Frames, f)
		at += uint64(len(f))
	}
	batch.Spans = []event.Span{{Lane: lane, To: at}}
	return batch
}

// acceptAll is a server that answers 200 to whatever has a Content-Length, as cheaply as Go can.
func acceptAll(b *testing.B) (url string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answerAll(c)
		}
	}()
	return fmt.Sprintf("http://%s/", l.Addr())
}

func answerAll(c net.Conn) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	buffer, used := make([]byte, 64<<10), 0
	for {
		n, err := c.Read(buffer[used:])
		if err != nil {
			_ = c.Close()
			return
		}
		used += n
		text := string(buffer[:used])
		end := strings.Index(text, "\r\n\r\n")
		at := strings.Index(text, "\r\nContent-Length: ")
		if end < 0 || at < 0 {
			continue
		}
		var length int
		if _, err := fmt.Sscan(text[at+len("\r\nContent-Length: "):end], &length); err != nil {
			_ = c.Close()
			return
		}
		if used < end+4+length {
			continue
		}
		used = copy(buffer, buffer[end+4+length:used])
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}
