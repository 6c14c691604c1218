package rhythm

import "time"

// The measures of a silence.
const (
	// WeightMin is the least weight of an unusual silence, in minutes that should have had an event.
	WeightMin = 12
	// Factor is how much more it weighs than the heaviest one of the last two weeks.
	Factor = 2
	// MinAge is how long a sender must be known.
	MinAge = 24 * time.Hour
	// BlindAfter is the time between two looks from which on it was not observed.
	BlindAfter = time.Minute

	hours = 7 * 24
	// learning is the least share that the newest week has in the mean of an hour.
	learning = 1.0 / 3
	week     = hours * time.Hour
)

// Rhythm is what is known of one sender. The zero value knows nothing. It can be kept as JSON.
type Rhythm struct {
	// Began is when it was first looked at, Looked when last. Seconds since 1970, as all times here.
	Began  int64 `json:"began"`
	Looked int64 `json:"looked"`
	// Heard is when the sender was heard last; Quiet is from when on it was observed to be quiet.
	Heard int64 `json:"heard"`
	Quiet int64 `json:"quiet"`
	// Hours are those of the week, the first one Thursday's, as 1970 began.
	Hours [hours]Hour `json:"hours"`
	// Now is the hour that is being observed.
	Now Current `json:"now"`
	// Heaviest are the weights of the heaviest silences of this week and the one before; Turned is
	// when this week began.
	Heaviest [2]float64 `json:"heaviest"`
	Turned   int64      `json:"turned"`
}

// Hour is one hour of the week.
type Hour struct {
	// Minutes is in how many minutes the sender is heard, in the mean.
	Minutes float64 `json:"m"`
	// Weeks is in how many weeks the hour was observed.
	Weeks int `json:"w"`
}

// Current is an hour that is not over.
type Current struct {
	Hour     int64 `json:"hour"`     // since 1970
	Observed int   `json:"observed"` // seconds of it
	Minutes  int   `json:"minutes"`  // in which the sender was heard
	Last     int64 `json:"last"`     // the last of them, since 1970
}

// Observe notes a look at the sender: heard tells whether it came since the last one.
func (r *Rhythm) Observe(now time.Time, heard bool) {
	at := now.Unix()
	gap := at - r.Looked
	switch {
	case r.Began == 0:
		r.Began, r.Quiet, r.Turned = at, at, at
	case gap < 0 || gap > int64(BlindAfter/time.Second):
		r.Quiet = at // nobody listened, or the clock was set
	}
	r.turn(at)
	if hour := at / 3600; hour != r.Now.Hour {
		r.learn()
		r.Now = Current{Hour: hour}
	}
	if gap > 0 && gap <= int64(BlindAfter/time.Second) {
		r.Now.Observed += int(min(gap, at%3600+1))
	}
	if heard {
		if w := r.weight(r.Quiet, at); w > r.Heaviest[0] {
			r.Heaviest[0] = w
		}
		r.Heard, r.Quiet = at, at
		if minute := at / 60; minute != r.Now.Last {
			r.Now.Minutes, r.Now.Last = r.Now.Minutes+1, minute
		}
	}
	r.Looked = at
}

// turn begins another week for the heaviest silences.
func (r *Rhythm) turn(at int64) {
	const span = int64(week / time.Second)
	switch since := at - r.Turned; {
	case since < 0:
		r.Turned = at
	case since >= 2*span:
		r.Heaviest, r.Turned = [2]float64{}, at
	case since >= span:
		r.Heaviest, r.Turned = [2]float64{0, r.Heaviest[0]}, r.Turned+span
	}
}

// learn takes the hour that is over into the mean, if most of it was observed.
func (r *Rhythm) learn() {
	const most = 3000
	if r.Now.Observed < most {
		return
	}
	h := &r.Hours[r.Now.Hour%hours]
	h.Weeks++
	share := max(1/float64(h.Weeks), learning)
	minutes := float64(r.Now.Minutes) * 3600 / float64(min(r.Now.Observed, 3600))
	h.Minutes += (minutes - h.Minutes) * share
}

// weight is in how many minutes between two times the sender is usually heard.
func (r *Rhythm) weight(from, to int64) (sum float64) {
	for at := max(from, to-2*int64(week/time.Second)); at < to; {
		next := min((at/3600+1)*3600, to)
		sum += r.Hours[at/3600%hours].Minutes * float64(next-at) / 3600
		at = next
	}
	return sum
}

// Silence is how a sender's silence stands.
type Silence struct {
	// For is how long it has been observed.
	For time.Duration
	// Weight is in how many minutes of it the sender is usually heard; Unusual is from which weight
	// on it is one to look at.
	Weight, Threshold float64
	Unusual           bool
}

// Silence measures the silence of now.
func (r *Rhythm) Silence(now time.Time) Silence {
	at := now.Unix()
	s := Silence{Threshold: max(WeightMin, Factor*max(r.Heaviest[0], r.Heaviest[1]))}
	if r.Began == 0 || at < r.Quiet || at-r.Looked > int64(BlindAfter/time.Second) {
		return s
	}
	s.For = time.Duration(at-r.Quiet) * time.Second
	s.Weight = r.weight(r.Quiet, at)
	s.Unusual = s.Weight >= s.Threshold && time.Duration(at-r.Began)*time.Second >= MinAge
	return s
}
