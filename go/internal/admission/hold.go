package admission

import "time"

// The hold bound moves every tenth of a second, between these.
const (
	holdEvery = 100 * time.Millisecond
	holdLeast = 10 * time.Millisecond
	holdMost  = 300 * time.Millisecond
	holdBusy  = 0.97 // saturation from which a longer hold would gain nothing
)

// hold finds the shortest bound on a hold that still keeps all slots taken while requests are shed.
type hold struct {
	bound      time.Duration
	saturation float64 // of the last interval, 0 to 1

	since time.Duration // of this interval
	shed  bool
	span  float64 // metered seconds of it
	sat   float64 // and those with all slots taken
}

// see takes one tick. full says whether all slots are taken now, which is all that is known of an
// interval without metered time.
func (h *hold) see(since time.Duration, w Window, full bool) {
	h.since += since
	h.shed = h.shed || w.Sheds > 0
	h.span += w.Span.Seconds()
	h.sat += w.Saturated.Seconds()
	if h.since < holdEvery {
		return
	}
	switch {
	case h.span > 0:
		h.saturation = min(h.sat/h.span, 1)
	case full:
		h.saturation = 1
	default:
		h.saturation = 0
	}
	if h.shed && h.saturation < holdBusy {
		h.bound = min(holdMost, h.bound*5/4)
	} else {
		h.bound = max(holdLeast, h.bound*19/20)
	}
	h.drop()
}

// drop begins a new interval.
func (h *hold) drop() { h.since, h.shed, h.span, h.sat = 0, false, 0, 0 }
