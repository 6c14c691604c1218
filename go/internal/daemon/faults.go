package daemon

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sluice/go/internal/dataplane"
	"sluice/go/internal/gameday"
	"sluice/go/internal/store/vfs"
)

// stopDefault is how long a stopped data plane stays so where nobody says.
const stopDefault = 5 * time.Second

// openFaults puts the journal on a file system that can fail, and makes the board of what can be
// set. Without --dev there is neither, and nothing costs anything.
func (d *Daemon) openFaults() vfs.FS {
	if !d.o.Config.Dev {
		return nil
	}
	disk := vfs.NewFaulty(vfs.OS(), nil, nil)
	write, sync := "journal.write", "journal.sync"
	d.faults = gameday.NewBoard([]gameday.Point{
		{Name: write, Kinds: append(diskKinds(disk, write), d.slotsKind())},
		{Name: sync, Kinds: diskKinds(disk, sync)},
		{Name: "dataplane", Kinds: d.planeKinds()},
	})
	return disk
}

// diskKinds are the ways in which calls of a file system fail.
func diskKinds(disk *vfs.Faulty, point string) []gameday.Kind {
	kind := func(name, argument string, read func(string) (vfs.Fault, string, error)) gameday.Kind {
		armed := point + " " + name // kinds of one point hold together
		return gameday.Kind{
			Name: name, Argument: argument,
			Set: func(text string) (string, error) {
				fault, shown, err := read(text)
				if err != nil {
					return "", err
				}
				return shown, disk.Set(armed, fault)
			},
			Clear: func() { disk.Clear(armed) },
			Met:   func() uint64 { return disk.Met(armed) },
		}
	}
	return []gameday.Kind{
		kind("delay", "DURATION", func(text string) (vfs.Fault, string, error) {
			delay, err := gameday.Delay(text)
			return vfs.Fault{Delay: delay}, delay.String(), err
		}),
		kind("error", "ERRNO", func(text string) (vfs.Fault, string, error) {
			errno, err := gameday.Errno(text)
			return vfs.Fault{Err: errno}, unix.ErrnoName(errno), err
		}),
	}
}

// slotsKind makes the journal a store of a known capacity.
func (d *Daemon) slotsKind() gameday.Kind {
	return gameday.Kind{
		Name: "slots", Argument: "COUNTxTIME",
		Set: func(text string) (string, error) {
			servers, each, err := gameday.Slots(text)
			if err != nil {
				return "", err
			}
			judging := d.seenIngest.Load()
			if judging == nil {
				return "", errStarting
			}
			judging.SetStation(servers, each)
			return fmt.Sprintf("%dx%v", servers, each), nil
		},
		// Called only after Set found it.
		Clear: func() { d.seenIngest.Load().ClearStation() },
		Met:   func() uint64 { return d.seenIngest.Load().StationEntered() },
	}
}

var errStarting = fmt.Errorf("%w: the daemon is starting", gameday.ErrNotNow)

// planeKinds are what can happen to the data plane's process.
func (d *Daemon) planeKinds() []gameday.Kind {
	var mu sync.Mutex
	var stopped *dataplane.Process
	goOn := func() {
		mu.Lock()
		defer mu.Unlock()
		if stopped != nil {
			stopped.Signal(unix.SIGCONT)
			stopped = nil
		}
	}
	return []gameday.Kind{
		{
			Name: "kill", Once: true,
			Set: func(string) (string, error) {
				process, err := d.plane()
				if err == nil {
					process.Kill()
				}
				return "", err
			},
		},
		{
			Name: "stop", Span: stopDefault,
			Set: func(string) (string, error) {
				process, err := d.plane()
				if err != nil {
					return "", err
				}
				goOn() // one that a newer data plane took the place of
				mu.Lock()
				defer mu.Unlock()
				process.Signal(unix.SIGSTOP)
				stopped = process
				return "", nil
			},
			Clear: goOn,
		},
	}
}

// plane is the process of the data plane that accepts.
func (d *Daemon) plane() (*dataplane.Process, error) {
	super := d.seenSuper.Load()
	if super == nil {
		return nil, errStarting
	}
	if process := super.Process(); process != nil {
		return process, nil
	}
	return nil, fmt.Errorf("%w: no data plane accepts at the moment", gameday.ErrNotNow)
}

// withFaults adds the faults in force to what an operator should look at; they are no reason not to
// be ready.
func (d *Daemon) withFaults(problems []string) []string {
	if d.faults == nil {
		return problems
	}
	for _, f := range d.faults.Faults() {
		problems = append(problems, f.String())
	}
	return problems
}

// closeFaults ends all faults, so that a stop is not held up by one.
func (d *Daemon) closeFaults() {
	if d.faults != nil {
		d.faults.Close()
	}
}
