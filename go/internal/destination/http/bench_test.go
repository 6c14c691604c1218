package http

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"net/textproto"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/destination"
)

// The benchmarks deliver events of 1 KB to a server that does next to nothing, so that what is
// measured is the sending side; byHand is the floor: the same exchange with no promise kept.

const benchBody = 1 << 10

func benchRequest() *destination.Request {
	return request(strings.Repeat("b", benchBody),
		header("Content-Type", "application/json"), header("User-Agent", "GitHub-Hookshot/044aadd"),
		header("X-GitHub-Event", "push"),
		header("X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
		header("X-Hub-Signature-256", "sha256="+strings.Repeat("ab", 32)), header("Accept", "*/*"),
		header("Host", "sluice.example"), header("Content-Length", "1024"))
}

// quick answers each request as soon as its last byte is there, with one read and one write.
func quick(b *testing.B) *peer {
	return listen(b, func(_ int, c net.Conn) {
		buffer := make([]byte, 64<<10)
		answer := []byte("HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n" +
			"Content-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"status\":\"ok\"}")
		for have := 0; ; {
			n, err := c.Read(buffer[have:])
			if err != nil {
				return
			}
			have += n
			head := bytes.Index(buffer[:have], []byte("\r\n\r\n"))
			if head < 0 || have < head+4+benchBody {
				continue
			}
			have = 0
			if _, err := c.Write(answer); err != nil {
				return
			}
		}
	})
}

func BenchmarkDeliver(b *testing.B) {
	for _, workers := range []int{1, 16} {
		b.Run(fmt.Sprint("ours/", workers), func(b *testing.B) {
			d, err := New(Options{URL: quick(b).url(), IdleCount: 64})
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			r := benchRequest()
			parallel(b, workers, func() func() error {
				return func() error { return d.Deliver(ctx, r).Err }
			})
		})
		b.Run(fmt.Sprint("byHand/", workers), func(b *testing.B) {
			address := quick(b).listener.Addr().String()
			parallel(b, workers, func() func() error { return byHand(b, address) })
		})
		b.Run(fmt.Sprint("transport/", workers), func(b *testing.B) {
			url := quick(b).url()
			transport := &nethttp.Transport{MaxIdleConnsPerHost: 64}
			defer transport.CloseIdleConnections()
			parallel(b, workers, func() func() error { return standard(transport, url) })
		})
	}
}

// parallel runs b.N exchanges in so many goroutines.
func parallel(b *testing.B, workers int, worker func() func() error) {
	b.ReportAllocs()
	b.SetBytes(benchBody)
	tickets := make(chan int, workers)
	ended := make(chan error, workers)
	for range workers {
		exchange := worker()
		go func() {
			var failed error
			for n := range tickets {
				for range n {
					if err := exchange(); err != nil {
						failed = err
					}
				}
			}
			ended <- failed
		}()
	}
	b.ResetTimer()
	for left := b.N; left > 0; left -= 16 {
		tickets <- min(left, 16)
	}
	close(tickets)
	for range workers {
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
	}
}

// byHand is what somebody writes who knows the destination: one connection, a request made of
// constants, a deadline, an answer whose length is believed.
func byHand(b *testing.B, address string) func() error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	r := benchRequest()
	reader := bufio.NewReader(c)
	var out []byte
	return func() error {
		out = append(out[:0], "POST /hook HTTP/1.1\r\nHost: destination\r\n"...)
		for _, h := range r.Headers[:6] {
			out = append(append(append(out, h.Name...), ": "...), h.Value...)
			out = append(out, "\r\n"...)
		}
		out = append(out, "Content-Length: "...)
		out = strconv.AppendInt(out, int64(len(r.Body)), 10)
		out = append(append(out, "\r\n\r\n"...), r.Body...)
		if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return err
		}
		if _, err := c.Write(out); err != nil {
			return err
		}
		status, err := reader.ReadSlice('\n')
		if err != nil || !bytes.HasPrefix(status, []byte("HTTP/1.1 200 ")) {
			return errors.Join(err, errors.New("no success"))
		}
		length := 0
		for {
			line, err := reader.ReadSlice('\n')
			if err != nil {
				return err
			}
			if len(line) == 2 {
				break
			}
			if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
				if length, err = strconv.Atoi(textproto.TrimString(string(value))); err != nil {
					return err
				}
			}
		}
		_, err = reader.Discard(length)
		return err
	}
}

// standard is the same with the standard library's transport.
func standard(transport *nethttp.Transport, url string) func() error {
	r := benchRequest()
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		request, err := nethttp.NewRequestWithContext(ctx, "POST", url, bytes.NewReader(r.Body))
		if err != nil {
			return err
		}
		for _, h := range r.Headers[:6] {
			request.Header.Set(string(h.Name), string(h.Value))
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
}
