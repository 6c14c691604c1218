package meter

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// stepBits is how finely Times tells durations apart: 2^stepBits steps for each doubling.
const stepBits = 6

// Times counts durations in steps of about 1.5 %. The zero value is ready. It is not safe for
// several goroutines.
type Times struct {
	Counts map[int]int   `json:"counts,omitempty"` // by step
	Max    time.Duration `json:"max"`
}

// Note counts one duration.
func (t *Times) Note(d time.Duration) {
	if t.Counts == nil {
		t.Counts = map[int]int{}
	}
	t.Counts[stepOf(d)]++
	t.Max = max(t.Max, d)
}

// Add counts all that another has counted.
func (t *Times) Add(other Times) {
	if t.Counts == nil && len(other.Counts) > 0 {
		t.Counts = map[int]int{}
	}
	for step, n := range other.Counts {
		t.Counts[step] += n
	}
	t.Max = max(t.Max, other.Max)
}

// Count is how many were noted.
func (t *Times) Count() (n int) {
	for _, c := range t.Counts {
		n += c
	}
	return n
}

// Quantile is the upper end of the step that the share q of all lies in or below; 0 without any.
func (t *Times) Quantile(q float64) time.Duration {
	rank := int(math.Ceil(q * float64(t.Count())))
	steps := make([]int, 0, len(t.Counts))
	for step := range t.Counts {
		steps = append(steps, step)
	}
	slices.Sort(steps)
	for _, step := range steps {
		if rank -= t.Counts[step]; rank <= 0 {
			return min(stepEnd(step), t.Max)
		}
	}
	return 0
}

// Milliseconds is a quantile in milliseconds.
func (t *Times) Milliseconds(q float64) float64 {
	return float64(t.Quantile(q)) / float64(time.Millisecond)
}

func stepOf(d time.Duration) int {
	n := uint64(max(d, 0))
	shift := max(bits.Len64(n)-stepBits-1, 0)
	return shift<<stepBits + int(n>>shift)
}

func stepEnd(step int) time.Duration {
	if step < 2<<stepBits {
		return time.Duration(step)
	}
	shift := step>>stepBits - 1
	low := uint64(step) - uint64(shift)<<stepBits
	return time.Duration((low+1)<<shift - 1)
}
