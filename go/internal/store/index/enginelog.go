package index

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// engineLog passes the engine's log on. Its chatter is for debugging. Its last words end the
// process, because it holds locks that nobody can take any more: the journal is whole, and the next
// start continues from it. What the operating system refuses is no reason for them, see patient.
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

// enginePause is how long the engine waits after a flush or a merge that failed. It would try again
// at once, and again.
const enginePause = 100 * time.Millisecond

// paced is told of each flush and merge that failed, by whoever did it.
func paced(o Options, dir string, log pebble.Logger) func(error) {
	return func(err error) {
		log.Errorf("%v", err)
		if _, gone := o.FS.Stat(dir); errors.Is(gone, fs.ErrNotExist) && o.Damaged != nil {
			o.Damaged(fmt.Errorf("the directory of the index is gone, and the data directory with it, "+
				"maybe: %w", gone))
		}
		time.Sleep(enginePause)
	}
}

func (l *engineLog) Fatalf(format string, args ...any) {
	l.log.Error("index engine cannot go on; the next start continues from the journal",
		"says", fmt.Sprintf(format, args...))
	os.Exit(1)
}
