package meter

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestQuantilesAreWithinTwoPercent(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var times Times
	var all []time.Duration
	for range 20_000 {
		d := time.Duration(rng.ExpFloat64() * float64(3*time.Millisecond))
		times.Note(d)
		all = append(all, d)
	}
	slices.Sort(all)
	for _, q := range []float64{0.001, 0.5, 0.99, 0.999, 1} {
		want := all[max(int(q*float64(len(all)))-1, 0)]
		got := times.Quantile(q)
		if got < want || float64(got) > 1.02*float64(want)+1 {
			t.Errorf("quantile %g is %v, want %v", q, got, want)
		}
	}
}

func TestStepsCoverEveryDurationOnce(t *testing.T) {
	end := time.Duration(-1)
	for step := range 40 << stepBits {
		if stepOf(end+1) != step || stepOf(stepEnd(step)) != step {
			t.Fatalf("step %d does not begin at %d and end at %d", step, end+1, stepEnd(step))
		}
		end = stepEnd(step)
	}
}

func TestRoundsAddUp(t *testing.T) {
	var sum Result
	for range 3 {
		r := Result{Events: 10, Bytes: 100, Wall: 2, CPU: 1, Device: 150}
		r.Times.Note(time.Millisecond)
		sum.Add(r)
	}
	if sum.PerSecond() != 5 || sum.CPUMicros() != 1e5 || sum.Amplification() != 1.5 ||
		sum.Times.Count() != 3 {
		t.Fatalf("%+v", sum)
	}
	sum.Add(Result{Device: -1})
	if sum.Amplification() >= 0 {
		t.Fatal("a round without the device's count leaves the sum known")
	}
}
