// Package stdout shows events to a person: one line each, for a first look and for development.
//
// It shows no header and no body, and nothing it writes is meant to be parsed.
package stdout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"sluice/go/internal/destination"
)

// Options say where the lines go.
type Options struct {
	Writer io.Writer
}

// Destination writes lines.
type Destination struct {
	mu sync.Mutex
	to io.Writer
}

var _ destination.Destination = (*Destination)(nil)

// New checks the options.
func New(o Options) (*Destination, error) {
	if o.Writer == nil {
		return nil, errors.New("destination stdout: no writer")
	}
	return &Destination{to: o.Writer}, nil
}

// Deliver writes one line.
func (d *Destination) Deliver(_ context.Context, r *destination.Request) destination.Result {
	again := ""
	if r.Attempt > 1 {
		again = fmt.Sprintf("  (attempt %d)", r.Attempt)
	}
	l := fmt.Sprintf("%s  %s  %-12s  %8d B  %s %s%s\n",
		time.Unix(0, r.ReceivedNS).UTC().Format("15:04:05.000"), r.EventID, r.Source, len(r.Body),
		r.Method, shown(r.Target), again)
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := io.WriteString(d.to, l); err != nil {
		return destination.Failure(fmt.Errorf("write: %w", err))
	}
	return destination.Delivery(0)
}

// shown keeps what a sender chose from moving the reader's cursor.
func shown(text string) string {
	quoted := strconv.QuoteToASCII(text)
	if quoted[1:len(quoted)-1] == text {
		return text
	}
	return quoted
}

// Close does nothing: the writer is the caller's.
func (d *Destination) Close() error { return nil }
