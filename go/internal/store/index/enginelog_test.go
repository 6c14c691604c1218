package index

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestAnEngineThatFailsAllTheTimeDoesNotFloodTheLog(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(100, 0)
	l := newEngineLog(slog.New(slog.NewTextHandler(&out, nil)))
	l.now = func() time.Time { return now }
	for range 3000 {
		l.Errorf("no space for %d.sst", 7)
		now = now.Add(time.Millisecond)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines in three seconds", len(lines))
	}
	if !strings.Contains(lines[0], "no space for 7.sst") || !strings.Contains(lines[2], "unsaid=999") {
		t.Errorf("said %q", lines)
	}
}
