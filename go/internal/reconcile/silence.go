package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sluice/go/internal/config"
	"sluice/go/internal/rhythm"
	"sluice/go/internal/store/vfs"
)

// Sender is a source to listen to.
type Sender struct {
	Name string
	// Heard counts what came of it since the start, whatever became of that.
	Heard uint64
	// Silence is after which quiet time it is one to look at.
	Silence config.Silence
}

// SilenceOptions of NewSilence; those that say nothing of nil are required.
type SilenceOptions struct {
	// File keeps what was learned.
	File *vfs.Whole
	// Senders are those of the config in force.
	Senders func() []Sender
	// Changed is told of each sender that is silent from now on, or no more; nil: the log is enough.
	Changed func(name string, silent bool)
	Log     *slog.Logger // nil: slog.Default
}

// Silence listens for senders that fell silent. Its methods may be called from any goroutine.
type Silence struct {
	o SilenceOptions

	mu      sync.Mutex
	senders map[string]*listened
}

// listened is a sender with what is known of it.
type listened struct {
	rhythm rhythm.Rhythm
	heard  uint64
	silent bool
}

// The bounds of what is kept: the layout has room for 1024 sources, of 8 KiB each at most.
const (
	rhythmsBytesMax = 16 << 20
	rhythmsEvery    = 5 * time.Minute
)

// NewSilence takes up what an earlier life learned. What cannot be read is learned anew.
func NewSilence(o SilenceOptions) *Silence {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Changed == nil {
		o.Changed = func(string, bool) {}
	}
	s := &Silence{o: o, senders: map[string]*listened{}}
	text, err := o.File.Read(rhythmsBytesMax)
	var kept map[string]rhythm.Rhythm
	if err == nil && text != nil {
		err = json.Unmarshal(text, &kept)
	}
	if err != nil {
		o.Log.Warn("the rhythms of sources are learned anew", "error", err)
		return s
	}
	for name, r := range kept {
		s.senders[name] = &listened{rhythm: r}
	}
	return s
}

// Run listens until ctx ends, and keeps what it learned.
func (s *Silence) Run(ctx context.Context) {
	look := time.NewTicker(tickInterval)
	defer look.Stop()
	keep := time.NewTicker(rhythmsEvery)
	defer keep.Stop()
	for {
		select {
		case <-ctx.Done():
			s.keep()
			return
		case now := <-look.C:
			s.look(now)
		case <-keep.C:
			s.keep()
		}
	}
}

// look listens to all senders once.
func (s *Silence) look(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := map[string]bool{}
	for _, sender := range s.o.Senders() {
		there[sender.Name] = true
		l := s.senders[sender.Name]
		if l == nil {
			l = &listened{}
			s.senders[sender.Name] = l
		}
		l.rhythm.Observe(now, sender.Heard > l.heard)
		l.heard = sender.Heard
		found := l.rhythm.Silence(now)
		silent := found.Unusual
		switch sender.Silence {
		case config.SilenceAuto:
		case config.SilenceOff:
			silent = false
		default:
			silent = found.For >= time.Duration(sender.Silence)
		}
		if silent == l.silent {
			continue
		}
		l.silent = silent
		if silent {
			s.o.Log.Warn("a source is silent", "source", sender.Name, "for", found.For,
				"rule", sender.Silence.String())
		} else {
			s.o.Log.Info("a source is heard again", "source", sender.Name)
		}
		s.o.Changed(sender.Name, silent)
	}
	for name := range s.senders {
		if !there[name] {
			delete(s.senders, name) // the config has it no more
		}
	}
}

// keep saves what was learned.
func (s *Silence) keep() {
	s.mu.Lock()
	kept := make(map[string]*rhythm.Rhythm, len(s.senders))
	for name, l := range s.senders {
		kept[name] = &l.rhythm
	}
	text, err := json.Marshal(kept)
	s.mu.Unlock()
	if err == nil {
		err = s.o.File.Write(append(text, '\n'))
	}
	if err != nil {
		s.o.Log.Warn("the rhythms of sources are not saved; a restart would forget the last minutes",
			"error", err)
	}
}

// Silent tells whether a sender is silent beyond what is usual for it, or the config allows.
func (s *Silence) Silent(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.senders[name]
	return l != nil && l.silent
}

// Heard is when a sender was heard last, in this life or an earlier one; zero: never.
func (s *Silence) Heard(name string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.senders[name]; l != nil && l.rhythm.Heard > 0 {
		return time.Unix(l.rhythm.Heard, 0)
	}
	return time.Time{}
}

// Problem says what an operator should look at; empty: nothing.
func (s *Silence) Problem(name string, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.senders[name]
	if l == nil || !l.silent {
		return ""
	}
	quiet := now.Sub(time.Unix(l.rhythm.Quiet, 0)).Truncate(time.Second)
	return fmt.Sprintf("source %s is silent: nothing came for %v, which is longer than is usual or "+
		"allowed for it; see whether its sender still sends", name, quiet)
}
