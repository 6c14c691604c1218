package stdout

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"sluice/go/internal/destination"
	"sluice/go/internal/event"
)

func request(target string) *destination.Request {
	id, err := event.ParseID("01JGFJJZ00ABCDEFGHJKMNPQRS")
	if err != nil {
		panic(err)
	}
	return &destination.Request{EventID: id, Source: "github", Attempt: 1, Method: "POST",
		Target: target, Body: []byte("12345"), ReceivedNS: 1767225945123456789}
}

func TestOneLineAnEvent(t *testing.T) {
	var out bytes.Buffer
	d, err := New(Options{Writer: &out})
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/hooks/github?a=1", "/\x1b[2J\xff"} {
		if r := d.Deliver(context.Background(), request(target)); r.Kind != destination.Delivered {
			t.Fatal(r.Err)
		}
	}
	again := request("/x")
	again.Attempt = 3
	d.Deliver(context.Background(), again)
	start := "00:05:45.123  01JGFJJZ00ABCDEFGHJKMNPQRS  github               5 B  POST "
	want := start + "/hooks/github?a=1\n" + start + `"/\x1b[2J\xff"` + "\n" + start +
		"/x  (attempt 3)\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestAWriterThatFailsIsTriedAgain(t *testing.T) {
	d, err := New(Options{Writer: broken{}})
	if err != nil {
		t.Fatal(err)
	}
	if r := d.Deliver(context.Background(), request("/x")); r.Kind != destination.Retry {
		t.Errorf("%v", r.Kind)
	}
	if _, err := New(Options{}); err == nil {
		t.Error("no writer is taken")
	}
}
