package provider

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Fact is one thing that a sender says about itself, with the place where it says so.
type Fact[T any] struct {
	Value T
	// Source is where the value comes from; empty means that nothing is known.
	Source string
	// Verified is false if the value was not read in the sender's own text; it is then the
	// cautious one.
	Verified bool
	// Checked is the day on which the value was last read at Source, as 2006-01-02; empty: never.
	Checked string
}

// Known tells whether there is a value at all.
func (f Fact[T]) Known() bool { return f.Source != "" }

// Or is the value, or otherwise if nothing is known.
func (f Fact[T]) Or(otherwise T) T {
	if f.Known() {
		return f.Value
	}
	return otherwise
}

// Contract is how a sender delivers: what admission needs, and what an operator wants to know.
type Contract struct {
	// Deadline is when the sender gives up on an answer, ConnectDeadline when on a connection.
	Deadline, ConnectDeadline Fact[time.Duration]
	// SuccessStatus is the status that the sender wants for an event that was taken; EmptySuccess
	// says that the answer must have no body.
	SuccessStatus Fact[int]
	EmptySuccess  Fact[bool]
	// SuccessStatuses are all that the sender takes for success, if it names them; any other one,
	// also of the 2xx, is then a failure.
	SuccessStatuses Fact[[]int]
	// ShedStatus is the refusal that this sender retries.
	ShedStatus Fact[int]
	// NeverRetries: an event that we refuse is lost, or comes back by hand only.
	NeverRetries Fact[bool]
	// Retries and RetryWindow are how often and how long the sender tries again.
	Retries     Fact[int]
	RetryWindow Fact[time.Duration]
	// RetryStatuses are the refusals after which the sender tries again, if it names them;
	// DropStatuses those after which it does not.
	RetryStatuses, DropStatuses Fact[[]int]
	// HonoursRetryAfter: the sender waits as long as Retry-After says.
	HonoursRetryAfter Fact[bool]
	// DisableAfter is the number of failures after which the sender stops sending.
	DisableAfter Fact[int]
	// DisableStatuses end the subscription the first time that they are answered.
	DisableStatuses Fact[[]int]
	// Ordered: the sender delivers the next event only after this one, or in an order that it
	// promises. Most promise none.
	Ordered Fact[bool]
	// ProbesBadSignatures: the sender tests us with wrong signatures, and a 401 that comes late
	// or not at all fails the set-up.
	ProbesBadSignatures Fact[bool]
	// RetryHeaders: a request with one of these fields is a repeat, as the sender itself says. A field
	// that first attempts have as well is none.
	RetryHeaders Fact[[]string]
	// Redelivers: an operator can ask the sender for what was missed.
	Redelivers Fact[bool]
	// Methods are the request methods of events; those of handshakes come on top.
	Methods []string
}

// Methods are the request methods that a source of this scheme takes, in sorted order.
func (s *Scheme) Methods() []string {
	set := map[string]bool{}
	for _, method := range s.Contract.Methods {
		set[method] = true
	}
	if len(set) == 0 {
		set["POST"] = true
	}
	for _, rule := range s.Handshakes {
		if rule.Method != "" {
			set[rule.Method] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// Unsigned tells whether the scheme passes requests without any proof.
func (s *Scheme) Unsigned() bool {
	for _, variant := range s.AnyOf {
		for _, proof := range variant.Proofs {
			if proof.Algorithm == None {
				return true
			}
		}
	}
	return false
}

func wordList[T any](words map[string]T) string {
	return strings.Join(slices.Sorted(maps.Keys(words)), ", ")
}
