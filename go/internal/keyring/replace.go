package keyring

import (
	"slices"

	"sluice/go/internal/provider"
)

// replace puts another text of a secret in force, and tells whether it serves: then the text is the
// ring's.
func (r *Ring) replace(l *slot, text []byte) bool {
	s := r.sourceOf(l)
	if s == nil {
		return false // its set was replaced meanwhile
	}
	before, face := l.text, l.face
	parsed, err := provider.ParseSecret(string(text))
	if err == nil {
		l.text, l.face = text, faceOf(&parsed)
		err = r.compile(s)
	}
	if err != nil {
		l.text, l.face = before, face
		r.troubled(l, reasonOf(err))
		return false
	}
	clear(before)
	l.problem = ""
	r.o.Log.Info("a secret was replaced where it comes from and is in force",
		"source", s.want.Name, "secret", l.want.Origin)
	return true
}

// reasonOf is a fault without where it is: that is said beside it.
func reasonOf(err error) string {
	if fault, ok := err.(*Fault); ok {
		return fault.Problem
	}
	return err.Error()
}

// troubled notes that a secret stays as it was though it should be another.
func (r *Ring) troubled(l *slot, why string) {
	if l.problem == why {
		return
	}
	l.problem = why
	name := ""
	if s := r.sourceOf(l); s != nil {
		name = s.want.Name
	}
	r.o.Log.Error("a secret cannot be read anew: the one before it stays in force",
		"source", name, "secret", l.want.Origin, "error", why)
}

// sourceOf finds the source of a slot in the sets in force.
func (r *Ring) sourceOf(l *slot) *source {
	for _, set := range r.sets {
		for _, s := range set.sources {
			if slices.Contains(s.slots, l) {
				return s
			}
		}
	}
	return nil
}
