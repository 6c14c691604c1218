package ingest

import (
	"sync"

	"sluice/shm-abi/shmabi"
)

// heavy judges the frames whose proofs take long (a signature of a public key takes a hundred times
// an HMAC) on goroutines of its own, so that a flood of them costs so many processors and no more.
// How many of them lie before a frame in its lane is bounded by the data plane.
type heavy struct {
	jobs    chan func(*judge) // holds none: who hands one in waits himself
	working sync.WaitGroup
}

// job is one frame to judge. It is the lane's again when done is.
type job struct {
	feed    *feed
	frame   shmabi.Frame
	verdict verdict
	err     error
	done    sync.WaitGroup
}

func newHeavy(s *Service) *heavy {
	h := &heavy{jobs: make(chan func(*judge))}
	for range heavyGoroutines() {
		j := &judge{service: s}
		h.working.Go(func() {
			for task := range h.jobs {
				task(j)
			}
		})
	}
	return h
}

// close ends it; no lane is at work any more.
func (h *heavy) close() {
	close(h.jobs)
	h.working.Wait()
}

func (t *job) run(j *judge) {
	defer t.done.Done()
	own := &t.feed.judge
	j.use(own.table)
	j.log, j.answerMax = own.log, own.answerMax
	t.err = t.feed.lane.Guard(func() (err error) {
		t.verdict, err = j.frame(t.feed.lane.ID(), t.frame)
		return err
	})
}

// isHeavy tells whether the proof of a frame takes long.
func (j *judge) isHeavy(f shmabi.Frame) bool {
	s := j.seat(f.D().SourceID())
	return s != nil && s.heavy
}

// Heavy tells whether a proof takes long, as one of a public key does.
func (p *Proof) Heavy() bool { return p.Verifier.Asymmetric() }
