package provider

import (
	"crypto/sha256"
	"iter"
	"slices"
	"time"
)

// Finding is one likely mistake.
type Finding struct {
	// Name is its word for scripts; two names joined by + are two mistakes at once.
	Name string
	// Proven: with the mistake undone the signature holds. Otherwise it is a trace of the mistake.
	Proven bool
	// With says what exactly was undone; empty where there is nothing to choose from.
	With string
	// Says is what went wrong, Fault who has to mend it and Mend how.
	Says, Fault, Mend string
	// Secret is the index of the secret with which it holds, or -1.
	Secret int
}

// Who made a mistake.
const (
	faultSender   = "the sender's set-up"
	faultSecret   = "the configured secret"
	faultSource   = "the configured source"
	faultProxy    = "a proxy or a server in front"
	faultReceiver = "what took the request in and wrote it down"
)

// facet is what a mistake changes. Two mistakes at once are of two facets.
type facet uint8

const (
	facetBody facet = iota
	facetSecret
	facetURL
	facetSignature
	facetHeader
	facetProfile
)

// mistake is one thing that people and machines get wrong, with the way to undo it.
type mistake struct {
	name              string
	facet             facet
	says, fault, mend string
	// try gives the request as it may have been before the mistake. What it gives differs from a.
	try func(a attempt) iter.Seq[attempt]
}

// attempt is a request with its scheme and secrets, one of them changed. The copy shares all memory
// with the original, so a change is always a new slice.
type attempt struct {
	scheme  *Scheme
	secrets []Secret
	// index is the secret that is left, or -1 if all are there.
	index   int
	request Request
	with    string
	// compiled is the verifier of scheme and secrets; nil after either was changed.
	compiled *Verifier
	others   []*Scheme
}

func (a attempt) withBody(body []byte, with string) attempt {
	a.request.Body, a.with = body, with
	return a
}

func (a attempt) withHeaders(fields []Field, with string) attempt {
	a.request.Headers, a.with = fields, with
	return a
}

func (a attempt) withSecret(i int, secret Secret, with string) attempt {
	if a.index < 0 {
		a.index = i
	}
	a.secrets, a.with, a.compiled = []Secret{secret}, with, nil
	return a
}

// withScheme changes every way to sign of the scheme.
func (a attempt) withScheme(with string, edit func(*Variant)) attempt {
	changed := *a.scheme
	changed.AnyOf = slices.Clone(changed.AnyOf)
	for i := range changed.AnyOf {
		changed.AnyOf[i].Proofs = slices.Clone(changed.AnyOf[i].Proofs)
		edit(&changed.AnyOf[i])
	}
	a.scheme, a.with, a.compiled = &changed, with, nil
	return a
}

// withProofs changes every proof of the scheme.
func (a attempt) withProofs(with string, edit func(*Proof)) attempt {
	return a.withScheme(with, func(v *Variant) {
		for i := range v.Proofs {
			edit(&v.Proofs[i])
		}
	})
}

// signs tells whether any way to sign signs a text.
func (a attempt) signs() bool {
	return slices.ContainsFunc(a.scheme.AnyOf, func(v Variant) bool {
		return v.Proofs[0].Algorithm.signsText()
	})
}

// search tries attempts within its bounds.
type search struct {
	options     Options
	tries, cost int
	exhausted   bool
	// made are the attempts of each mistake; what they hold is below the bound of cost.
	made [][]attempt
}

// holds tells whether a proves itself. Time is left out of it: a time that does not fit is told by
// the verdict.
func (s *search) holds(a *attempt) (secret int, ok bool) {
	if s.tries >= explainTriesMax || s.cost >= explainBytesMax {
		s.exhausted = true
		return -1, false
	}
	s.tries++
	s.cost += len(a.request.Body)
	for i := range a.scheme.AnyOf {
		if a.scheme.AnyOf[i].Asymmetric() {
			s.cost += explainProofBytes
		}
	}
	if a.compiled == nil {
		v, err := Compile(a.scheme, a.secrets, s.options)
		if err != nil {
			return -1, false // The change makes no scheme, so nobody signs like this.
		}
		a.compiled = v
	}
	verdict := a.compiled.Verify(&a.request)
	if verdict.Outcome != OK || verdict.Secret < 0 {
		return -1, false
	}
	if a.index >= 0 {
		return a.index, true
	}
	return verdict.Secret, true
}

// diagnose looks for single mistakes, at most one of each facet, and if there is none for two at
// once. Traces are told where nothing is proven.
func (e *Explanation) diagnose(
	s *Scheme, secrets []Secret, r *Request, o Options, others []*Scheme,
) {
	switch e.Verdict.Outcome {
	case Expired:
		e.Findings = e.timeFindings(r)
		return
	case Unavailable:
		e.Findings = []Finding{{Name: "key-unknown", Secret: -1, Fault: faultSource,
			Says: "the sender publishes its key, and it is not here: " + e.Verdict.Detail,
			Mend: "give the certificate or key that it publishes as a secret; only the daemon fetches"}}
		return
	}
	forever := time.Duration(noTolerance)
	o.Tolerance, o.AllowLegacy, o.KeepUnusable = &forever, true, true
	find := &search{options: o, made: make([][]attempt, len(mistakes))}
	a := attempt{scheme: s, secrets: secrets, index: -1, request: *r, others: others}
	if secret, ok := find.holds(&a); ok {
		e.Findings = []Finding{{Name: "time-missing", Proven: true, Secret: secret, Fault: faultSender,
			Says: "the signature holds, but has no time that can be judged: " + e.Verdict.Detail,
			Mend: "let the sender sign its time, or allow any with tolerance: off"}}
		return
	}
	e.Findings = find.singles(a)
	if len(e.Findings) == 0 && len(r.Body) <= explainPairMax {
		e.Findings = find.pairs(a)
	}
	if len(e.Findings) == 0 {
		e.Findings = traces(a, e)
	}
	e.Tried, e.Exhausted = find.tries, find.exhausted
}

const noTolerance = -1

func (s *search) singles(a attempt) []Finding {
	var found []Finding
	done := map[facet]bool{}
	for i := range mistakes {
		m := &mistakes[i]
		// That another profile fits too says nothing once the mistake is known.
		if done[m.facet] || m.facet == facetProfile && len(found) > 0 {
			continue
		}
		for next := range m.try(a) {
			if secret, ok := s.holds(&next); ok {
				found = append(found, m.finding(next.with, secret))
				done[m.facet] = true
				break
			}
			if s.exhausted {
				return found
			}
			s.made[i] = append(s.made[i], next)
		}
	}
	return found
}

// pairs goes from the pairs that make few attempts to those that make many, since the bound may
// end it.
func (s *search) pairs(a attempt) []Finding {
	var order [][2]int
	for i := range mistakes {
		for j := i + 1; j < len(mistakes); j++ {
			if mistakes[i].facet != mistakes[j].facet {
				order = append(order, [2]int{i, j})
			}
		}
	}
	slices.SortStableFunc(order, func(p, q [2]int) int {
		return len(s.made[p[0]])*len(s.made[p[1]]) - len(s.made[q[0]])*len(s.made[q[1]])
	})
	for _, pair := range order {
		second := &mistakes[pair[1]]
		for _, one := range s.made[pair[0]] {
			for two := range second.try(one) {
				if secret, ok := s.holds(&two); ok {
					return []Finding{mistakes[pair[0]].finding(one.with, secret).and(
						second.finding(two.with, secret))}
				}
				if s.exhausted {
					return nil
				}
			}
		}
	}
	return nil
}

func (m *mistake) finding(with string, secret int) Finding {
	return Finding{Name: m.name, Proven: true, With: with, Says: m.says, Fault: m.fault,
		Mend: m.mend, Secret: secret}
}

func (f Finding) and(g Finding) Finding {
	join := func(a, b, by string) string {
		if a == "" || b == "" || a == b {
			return max(a, b)
		}
		return a + by + b
	}
	f.Name, f.With = f.Name+"+"+g.Name, join(f.With, g.With, "; ")
	f.Says, f.Mend = join(f.Says, g.Says, "; and "), join(f.Mend, g.Mend, "; ")
	f.Fault = join(f.Fault, g.Fault, ", ")
	return f
}

// seen drops what came before.
type seen map[[sha256.Size]byte]bool

func (s seen) first(text []byte) bool {
	sum := sha256.Sum256(text)
	have := s[sum]
	s[sum] = true
	return !have
}

// MistakeNames are the words for all mistakes that are undone.
func MistakeNames() []string {
	var names []string
	for i := range mistakes {
		names = append(names, mistakes[i].name)
	}
	return names
}

// mistakes are all that are known, the most exact of each facet first. Bodies come first, since
// pairs make the attempts of the later one again for each of the earlier one.
var mistakes = slices.Concat(
	bodyMistakes, urlMistakes, secretMistakes, signatureMistakes, headerMistakes, profileMistakes)
