package admission

import (
	"math"
	"testing"
	"time"
)

// reference is slope written a second time, as plainly as its design is, to be compared with.
type reference struct {
	lmin, lmax, tau               float64
	l, sign, cv2, settle          float64
	bound                         bool
	quiet, grow                   int
	pts                           [][3]float64
	n, dt, sumW, area, sat        float64
	cutAt                         time.Duration
	peakNow, peakOld, peakEnd, pk float64
}

func (r *reference) publish() float64 {
	l := r.l
	if r.bound {
		l += r.sign * math.Max(0.12*r.l, 0.75)
	}
	return math.Round(math.Min(math.Max(l, r.lmin), r.lmax))
}

func (r *reference) clear() { r.n, r.dt, r.sumW, r.area, r.sat = 0, 0, 0, 0, 0 }

func (r *reference) peak(t, peak float64) {
	if t >= r.peakEnd {
		r.peakOld = r.peakNow
		if t-r.peakEnd >= 5 {
			r.peakOld = 0
		}
		r.peakNow, r.peakEnd = 0, t+5
	}
	r.peakNow = math.Max(r.peakNow, peak)
	r.pk = math.Max(r.peakNow, r.peakOld)
}

func (r *reference) tick(now time.Duration, w Window) {
	t, mean := now.Seconds(), w.ServiceTime.Seconds()
	n, dt := float64(w.Samples), w.Span.Seconds()
	r.peak(t, float64(w.Peak))
	drops := float64(w.Drops)
	if drops > 0 && 20*drops > n && now-r.cutAt > max(100*time.Millisecond, w.ServiceTime) {
		r.l = math.Max(r.lmin, 0.7*r.l)
		r.cutAt, r.pts, r.settle = now, nil, 0
		r.clear()
		return
	}
	if r.settle > 0 {
		r.settle -= dt
		return
	}
	r.n, r.dt, r.sumW = r.n+n, r.dt+dt, r.sumW+w.SampleSum.Seconds()
	r.area, r.sat = r.area+w.Area.Seconds(), r.sat+w.Saturated.Seconds()
	if r.n < 40 && r.dt < 1 || r.dt < math.Max(0.08, math.Min(2*mean, 0.5)) {
		return
	}
	n, dt = r.n, r.dt
	x, q, service, s := n/dt, r.area/dt, r.sumW/n, math.Min(1, r.sat/dt)
	r.clear()
	if n < 5 || q <= 0 {
		return
	}
	if s < 0.3 {
		if r.quiet++; r.quiet >= 3 || !r.bound {
			r.bound, r.pts = false, nil
			enough := math.Max(8, 1.25*r.pk+2)
			if r.l > enough && s < 0.2 {
				r.l = math.Max(math.Max(enough, 0.98*r.l), r.lmin)
			}
		}
		return
	}
	if s < 0.7 {
		if r.quiet++; r.quiet > 20 {
			r.bound, r.pts = false, nil
		}
		return
	}
	r.quiet = 0
	if !r.bound {
		r.bound, r.pts = true, nil
	}
	r.saturated(math.Log(q), math.Log(x), n, service)
}

func (r *reference) saturated(q, x, n, service float64) {
	if len(r.pts) > 0 {
		p := r.pts[len(r.pts)-1]
		dq, dx := q-p[0], x-p[1]
		tol := math.Max(0.35, 4*math.Sqrt(r.cv2*(1/n+1/p[2])))
		if dx < math.Min(0, dq)-tol || dx > math.Max(0, dq)+tol {
			r.pts = nil
		} else if len(r.pts) >= 2 {
			o := r.pts[len(r.pts)-2]
			if math.Abs(o[0]-q) < 0.12 {
				seen := math.Pow(x-o[1], 2) / (1/n + 1/o[2])
				r.cv2 += 0.1 * (math.Min(seen, 9*r.cv2) - r.cv2)
				r.cv2 = math.Max(r.cv2, 0.02)
			}
		}
	}
	r.pts = append(r.pts, [3]float64{q, x, n})
	if len(r.pts) > 40 {
		r.pts = r.pts[1:]
	}
	if len(r.pts) >= 2 {
		var sw, mq, mx, sxx, sxy float64
		weight := func(i int) float64 {
			p := r.pts[i]
			return math.Pow(0.95, float64(len(r.pts)-1-i)) * math.Min(p[2], 400) *
				math.Exp(-math.Pow((p[0]-math.Log(r.l))/0.4, 2)/2)
		}
		for i, p := range r.pts {
			sw, mq, mx = sw+weight(i), mq+weight(i)*p[0], mx+weight(i)*p[1]
		}
		for i, p := range r.pts {
			sxx += weight(i) * math.Pow(p[0]-mq/sw, 2)
			sxy += weight(i) * (p[0] - mq/sw) * (p[1] - mx/sw)
		}
		lam := r.cv2 / 0.25
		e, v := (sxy+lam*0.5)/(sxx+lam), r.cv2/(sxx+lam)
		star := service / (service + r.tau)
		g := 0.6 * math.Max(star, math.Abs(e-star)) / math.Max(0.01, v)
		g = math.Min(math.Max(g, 0.1), 1)
		step := math.Min(math.Max(g*(e-star), -0.25), 0.5)
		r.l = math.Min(math.Max(r.l*math.Exp(step), r.lmin), r.lmax)
		if step > 0.2 && e > 0.5 {
			r.grow = 2
		}
	}
	r.grow--
	r.sign = -r.sign
	r.settle = math.Min(0.5, service)
}

func TestSlopeIsWhatItsDesignSays(t *testing.T) {
	seed := seeded(t)
	for i := range uint64(count(40, 2000)) {
		config := standard(Slope)
		s := newController(config, 16)
		r := &reference{lmin: 2, lmax: 4096, tau: 0.5, l: 16, sign: 1, cv2: 0.3, cutAt: -time.Hour}
		stream := newStream(random(seed, i))
		mean := 0.0
		for n := range 3000 {
			w := stream.window(s.Limit())
			mean += (1 - math.Exp(-float64(w.Samples)/30)) *
				(w.SampleSum.Seconds()/max(float64(w.Samples), 1) - mean)
			w.ServiceTime = time.Duration(mean * 1e9)
			s.Tick(stream.now, w)
			r.tick(stream.now, w)
			if math.Abs(s.Base()-r.l) > 1e-6*r.l || s.Growing() != (r.bound && r.grow > 0) ||
				math.Abs(float64(s.Limit())-r.publish()) > 1 {
				t.Fatalf("stream %d, tick %d: base %v limit %d growing %v, reference %v %v %v", i, n,
					s.Base(), s.Limit(), s.Growing(), r.l, r.publish(), r.bound && r.grow > 0)
			}
		}
	}
}
