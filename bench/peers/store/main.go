// Command storepeers makes groups of events durable with what people use today: it measures one
// case of go/storebench, which starts it.
//
// It keeps no more than an id and a body of each event, without an index on either, so no peer does
// more than the journal; what a queue needs beyond that is not measured.
package main

import (
	"errors"
	"flag"
	"fmt"
	"time"

	"sluice/go/storebench/meter"
)

// peer makes events durable, group by group.
type peer interface {
	// put returns when the events are on the disk. ids and bodies belong to the caller.
	put(ids, bodies [][]byte) error
	Close() error
}

// peers are those that take groups, by subject.
var peers = map[string]func(meter.Case) (peer, error){
	"sqlite":          openSQLite,
	"pebble":          openPebble,
	"jetstream":       func(c meter.Case) (peer, error) { return openJetStream(c, false) },
	"jetstream-batch": func(c meter.Case) (peer, error) { return openJetStream(c, true) },
	"postgres-copy":   openCopy,
}

func main() {
	flag.Parse()
	meter.Serve(func(c meter.Case) (meter.Result, error) {
		switch {
		case c.Subject == "postgres-insert":
			return measureInserts(c)
		case peers[c.Subject] != nil:
			return measureGroups(c, peers[c.Subject])
		}
		return meter.Result{}, fmt.Errorf("there is no peer %q", c.Subject)
	})
}

// poolBytes is about how many bytes of bodies there are to choose from, as in go/storebench.
const poolBytes = 8 << 20

// events hands out groups of events.
type events struct {
	bodies [][]byte
	next   uint64
	ids    [][]byte
	take   [][]byte
}

func newEvents(c meter.Case) *events {
	e := &events{}
	for n := range max(c.Group, poolBytes/c.Size) {
		e.bodies = append(e.bodies, meter.Body(c.Size, uint64(n)))
	}
	return e
}

// group gives the next n events, valid until the next call.
func (e *events) group(n int) (ids, bodies [][]byte) {
	e.ids, e.take = e.ids[:0], e.take[:0]
	for range n {
		e.ids = append(e.ids, newID(e.next))
		e.take = append(e.take, e.bodies[e.next%uint64(len(e.bodies))])
		e.next++
	}
	return e.ids, e.take
}

// newID is an id that grows, which is what ordered stores like best.
func newID(n uint64) []byte { return fmt.Appendf(nil, "%016x", n) }

// measureGroups puts one group after the other.
func measureGroups(c meter.Case, open func(meter.Case) (peer, error)) (r meter.Result, err error) {
	p, err := open(c)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	var servers func() float64
	if c.Subject == "postgres-copy" {
		servers = postgresUsage
		r.Notes = atServer(&c)
	}
	e := newEvents(c)
	m, err := meter.Start(c, servers)
	if err != nil {
		return r, err
	}
	for m.Elapsed() < c.Duration {
		ids, bodies := e.group(c.Group)
		began := time.Now()
		if err := p.put(ids, bodies); err != nil {
			return r, err
		}
		r.Times.Note(time.Since(began))
		r.Events += c.Group
		r.Bytes += int64(c.Group) * int64(c.Size)
	}
	return r, m.Stop(&r)
}
