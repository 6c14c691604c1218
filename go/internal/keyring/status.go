package keyring

import (
	"fmt"
	"slices"
	"time"
)

// Status is one secret of a source, without a word of what it is.
type Status struct {
	Origin              string
	KeyID, Role         string
	NotBefore, NotAfter time.Time // zero: no bound
	Verified            uint64    // events that it has proved since the start
	LastUsed            time.Time // zero: not since the start
}

// Statuses are the secrets of all sources by name: those of the config in its order, then those of
// handshakes, the oldest first.
func (r *Ring) Statuses() map[string][]Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string][]Status{}
	for _, s := range r.sorted() {
		var list []Status
		for _, l := range s.slots {
			list = append(list, statusOf(l.want.Origin, l.face, l.use))
		}
		entries, _ := r.entries(s)
		for _, e := range entries {
			list = append(list, statusOf("handshake:"+e.ID, face{role: e.Role}, e.use))
		}
		all[s.want.Name] = list
	}
	return all
}

func statusOf(origin string, f face, u *use) Status {
	s := Status{
		Origin: origin, KeyID: f.keyID, Role: f.role, NotBefore: f.notBefore, NotAfter: f.notAfter,
		Verified: u.verified.Load(),
	}
	if last := u.last.Load(); last != 0 {
		s.LastUsed = time.Unix(0, last)
	}
	return s
}

// Problems are what an operator should look at, by source.
func (r *Ring) Problems() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.o.Now()
	var list []string
	say := func(s *source, format string, args ...any) {
		list = append(list, "source "+s.want.Name+": "+fmt.Sprintf(format, args...))
	}
	for _, s := range r.sorted() {
		for _, l := range s.slots {
			if l.problem != "" {
				say(s, "the secret %s stays as it was read before: %s", l.want.Origin, l.problem)
			}
		}
		for i, l := range s.slots {
			if why := r.ends(s, i, now); why != "" {
				say(s, "the secret %s %s", l.want.Origin, why)
			}
		}
		for _, id := range s.unfit {
			say(s, "the secret handshake:%s is none for its provider: drop it with "+
				"`sluice secrets forget %s %s`", id, s.want.Name, id)
		}
		if s.want.Learns {
			r.learning(s, now, say)
		}
	}
	return list
}

// ends says what the window of a secret means now, where no other one of its role makes up for it.
func (r *Ring) ends(s *source, index int, now time.Time) string {
	f := s.slots[index].face
	covered := func(at time.Time) bool {
		entries, _ := r.entries(s)
		return slices.ContainsFunc(s.slots, func(other *slot) bool {
			return other.face.role == f.role && other.face.holds(at)
		}) || slices.ContainsFunc(entries, func(e *entry) bool { return e.Role == f.role })
	}
	const stamp = "2006-01-02 15:04 MST"
	switch {
	case !f.notBefore.IsZero() && now.Before(f.notBefore) && !covered(now):
		return "does not hold before " + f.notBefore.UTC().Format(stamp) + ", and no other one does now"
	case f.notAfter.IsZero():
		return ""
	case !now.Before(f.notAfter) && !covered(now):
		return "has expired at " + f.notAfter.UTC().Format(stamp) + ", and no other one holds: " +
			"give the source the sender's new one"
	case f.holds(now) && f.notAfter.Sub(now) < expiresSoon && !covered(f.notAfter):
		return "expires at " + f.notAfter.UTC().Format(stamp) + ", and no other one holds then: " +
			"add the sender's next one"
	}
	return ""
}

// holds tells whether a secret counts at a time.
func (f *face) holds(at time.Time) bool {
	return !at.Before(f.notBefore) && (f.notAfter.IsZero() || at.Before(f.notAfter))
}

// learning says what goes on with handshakes that bring secrets.
func (r *Ring) learning(s *source, now time.Time, say func(*source, string, ...any)) {
	l := r.learned[s.want.Name]
	if l == nil {
		return
	}
	if l.problem != "" {
		say(s, "the secrets that handshakes brought stay as they were read before: %s", l.problem)
	}
	w, open := r.store.window(s.want.Name, now)
	left := 0
	if open {
		left = w.Count - w.spent(l.entries)
	}
	if left > 0 {
		say(s, "until %s the next %d that make a handshake decide what is believed "+
			"(`sluice secrets learn`)", w.Until.UTC().Format("15:04:05 MST"), left)
	} else if ago := now.Sub(l.unasked); !l.unasked.IsZero() && ago >= 0 && ago < unaskedShown {
		say(s, "a handshake from %v brought a secret that nobody asked for, and was refused: if it "+
			"is yours, run `sluice secrets learn %s` and have the sender make it again", l.from,
			s.want.Name)
	}
	if s.want.First && len(s.slots)+len(l.entries) == 0 {
		say(s, "whoever makes the first handshake decides what is believed (learn: first)")
	}
}
