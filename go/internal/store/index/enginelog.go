package index

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// engineLog passes the engine's log on. Its chatter is for debugging. Its last words (it could not
// write its list of files, on a full disk for example) end the process, because it holds locks that
// nobody can take any more: the journal is whole, and the next start continues from it.
//
// Of its warnings one a second is passed on, with how many were not: an engine that cannot write
// tries again at once, thousands of times a second.
type engineLog struct {
	log *slog.Logger
	now func() time.Time

	mu     sync.Mutex
	quiet  time.Time // until then
	unsaid int
}

func newEngineLog(log *slog.Logger) *engineLog { return &engineLog{log: log, now: time.Now} }

func (l *engineLog) Infof(format string, args ...any) {
	l.log.Debug("index engine", "says", fmt.Sprintf(format, args...))
}

func (l *engineLog) Errorf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if now.Before(l.quiet) {
		l.unsaid++
		return
	}
	l.log.Warn("index engine", "says", fmt.Sprintf(format, args...), "unsaid", l.unsaid)
	l.quiet, l.unsaid = now.Add(time.Second), 0
}

func (l *engineLog) Fatalf(format string, args ...any) {
	l.log.Error("index engine cannot go on; the next start continues from the journal",
		"says", fmt.Sprintf(format, args...))
	os.Exit(1)
}
