package keyring

import (
	"bytes"
	"context"
	"slices"
	"syscall"
	"time"
)

// watch is what is known of where a secret comes from.
type watch struct {
	paths []string
	marks []mark // of the files when they were last read
	again int    // looks at which they are read whatever their marks say

	seen    bool   // at the last look it was otherwise than what is in force
	next    []byte // what was read then
	failed  string // why nothing could be read; empty: next was
	refused bool   // it does not serve, and that has been told

	due     time.Time // of the command
	running bool
}

// mark is what stat says of a file behind any links.
type mark struct {
	device, inode     uint64
	size              int64
	modified, changed syscall.Timespec
}

// begin takes the marks of the files before they are read for the first time.
func (w *watch) begin(paths []string) {
	w.paths, w.again = paths, lookAgain
	w.marks = marksOf(paths)
}

// marksOf gives a file that is not there the zero mark: reading says why.
func marksOf(paths []string) []mark {
	marks := make([]mark, len(paths))
	for i, path := range paths {
		var s syscall.Stat_t
		if syscall.Stat(path, &s) == nil {
			// The width of some fields is the platform's.
			marks[i] = mark{uint64(s.Dev), s.Ino, s.Size, s.Mtim, s.Ctim}
		}
	}
	return marks
}

// quiet tells that nothing has changed, and there is nothing to be seen a second time.
func (w *watch) quiet() bool {
	marks := marksOf(w.paths)
	switch {
	case !slices.Equal(marks, w.marks):
		w.marks, w.again = marks, lookAgain
	case w.again > 0:
		w.again--
	default:
		return w.refused || !w.seen
	}
	return false
}

// Run looks at files, runs commands when they are due, and takes up what has changed, until ctx
// ends.
func (r *Ring) Run(ctx context.Context) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-r.ended:
			r.take(e)
		case <-tick.C:
			r.look(ctx)
		}
	}
}

// look is one look at everything.
func (r *Ring) look(ctx context.Context) {
	r.mu.Lock()
	sets, running := r.sets, 0
	var slots []*slot
	for _, set := range sets {
		for _, s := range set.sources {
			slots = append(slots, s.slots...)
		}
	}
	r.mu.Unlock()
	for _, l := range slots {
		if l.watch.running {
			running++
		}
	}
	now := r.o.Now()
	for _, l := range slots {
		if len(l.want.Files) > 0 && !l.watch.quiet() && l.want.Command == nil {
			text, err := l.want.Read(nil)
			r.saw(l, text, err)
		}
		c := l.want.Command
		if c == nil || l.watch.running || now.Before(l.watch.due) || running >= commandsMax {
			continue
		}
		running++
		l.watch.running = true
		go func() {
			text, err := c.Run(ctx, r.o.Log)
			select {
			case r.ended <- ended{l, result{text: text, err: err}}:
			case <-ctx.Done():
			}
		}()
	}
	r.lookAtLearned()
}

// saw judges what a look at a file has read. It is taken up when it is there for the second time.
func (r *Ring) saw(l *slot, text []byte, err error) {
	w := &l.watch
	failed := ""
	if err != nil {
		failed, text = err.Error(), nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case l.text == nil: // its set was replaced meanwhile
	case err == nil && bytes.Equal(text, l.text):
		w.forget()
		l.problem = ""
	case !w.seen || failed != w.failed || !bytes.Equal(text, w.next):
		w.forget()
		w.seen, w.next, w.failed = true, text, failed
		return
	case w.refused:
	case err != nil:
		w.refused = true
		r.troubled(l, failed)
	case r.replace(l, text):
		w.forget()
		return
	default:
		w.refused = true
	}
	clear(text)
}

// forget drops what was seen once.
func (w *watch) forget() {
	clear(w.next)
	w.seen, w.next, w.failed, w.refused = false, nil, "", false
}

// take takes up what a command has given.
func (r *Ring) take(e ended) {
	l := e.slot
	l.watch.running = false
	l.watch.due = r.o.Now().Add(l.want.Command.again(e.err))
	text, err := e.text, e.err
	if err == nil {
		text, err = l.want.Read(e.text)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case l.text == nil:
	case err != nil:
		r.troubled(l, err.Error())
	case bytes.Equal(text, l.text):
		l.problem = ""
	case r.replace(l, text):
		return
	}
	clear(text)
}
