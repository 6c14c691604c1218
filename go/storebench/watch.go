package main

import (
	"errors"
	"syscall"
	"time"

	"sluice/go/storebench/meter"
)

// watch looks at a life once a second, and tries the bare disk beside it. The zero value, with a
// life, watches nothing.
type watch struct {
	life  *life
	disk  rawDisk
	bytes []byte
}

// prepare makes it watch: now and then it writes a group's bytes over old ones, like the journal.
func (w *watch) prepare(c meter.Case) (err error) {
	if w.bytes, err = pageMemory(c.Stored); err != nil {
		return err
	}
	w.disk, err = newRecycled(c, syscall.O_DIRECT|syscall.O_DSYNC)
	if errors.Is(err, syscall.EINVAL) { // this file system takes no direct writes
		w.disk, err = newRecycled(c, syscall.O_DSYNC)
	}
	return err
}

// run fills in what it saw until the life ends.
func (w *watch) run(r *meter.Result) {
	if w.disk == nil {
		return
	}
	defer w.disk.Close()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	probe := time.NewTicker(probeEvery)
	defer probe.Stop()
	var last meter.Second // as counted since the beginning
	var worst time.Duration
	for {
		select {
		case <-w.life.ctx.Done():
			return
		case <-probe.C:
			began := time.Now()
			if err := w.disk.write(w.bytes); err != nil {
				w.life.fail(err)
				return
			}
			took := time.Since(began)
			r.Probe.Note(took)
			worst = max(worst, took)
		case <-second.C:
			now := meter.Second{
				Appended: int(w.life.appended.Load()), Finished: int(w.life.finished.Load()),
			}
			r.Seconds = append(r.Seconds, meter.Second{
				Appended: now.Appended - last.Appended, Finished: now.Finished - last.Finished,
				Backlog: now.Appended - now.Finished,
				WorstMS: float64(w.life.worst.Swap(0)) / 1e6, ProbeMS: float64(worst) / 1e6,
			})
			last, worst = now, 0
		}
	}
}
