package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// promises is what became of the acknowledged deliveries: a 2xx says that the event is stored,
// once.
type promises struct {
	acknowledged int // deliveries
	missing      int // … that are not in the store
	twice        int // … that are there more than once
	strange      int // … whose event has another id than the answer said
	more         int // stored deliveries whose sender has no 2xx: their answer was lost
}

func (p promises) kept() bool { return p.missing+p.twice+p.strange == 0 }

func (p promises) String() string {
	return fmt.Sprintf("%d acknowledged, %d missing, %d twice, %d under another id, "+
		"%d stored without a 2xx", p.acknowledged, p.missing, p.twice, p.strange, p.more)
}

// storedEvent is an event as `sluice events list --json` shows it.
type storedEvent struct {
	ID         string `json:"id"`
	ProviderID string `json:"provider_id"`
}

// comparePromises holds a ledger against the store.
func comparePromises(ledger map[string]string, stored []storedEvent) promises {
	p := promises{acknowledged: len(ledger)}
	ids := map[string][]string{}
	for _, e := range stored {
		ids[e.ProviderID] = append(ids[e.ProviderID], e.ID)
	}
	for delivery, event := range ledger {
		switch found := ids[delivery]; {
		case len(found) == 0:
			p.missing++
		case len(found) > 1:
			p.twice++
		case event != noEvent && found[0] != event:
			p.strange++
		}
	}
	for delivery := range ids {
		if _, ok := ledger[delivery]; !ok {
			p.more++
		}
	}
	return p
}

// noEvent stands in a ledger where an answer named no event.
const noEvent = "-"

// readLedger reads what `sluice-load --ledger` writes: `DELIVERY EVENT`, the event that the first
// 2xx of the delivery named.
func readLedger(in io.Reader) (map[string]string, error) {
	ledger := map[string]string{}
	lines := bufio.NewScanner(in)
	for at := 1; lines.Scan(); at++ {
		delivery, event, ok := strings.Cut(lines.Text(), " ")
		if !ok || delivery == "" || event == "" {
			return nil, fmt.Errorf("line %d of the ledger: %q", at, lines.Text())
		}
		if _, seen := ledger[delivery]; !seen {
			ledger[delivery] = event
		}
	}
	return ledger, lines.Err()
}

func readStored(text []byte) ([]storedEvent, error) {
	var all []storedEvent
	decoder := json.NewDecoder(bytes.NewReader(text))
	for decoder.More() {
		var e storedEvent
		if err := decoder.Decode(&e); err != nil {
			return nil, fmt.Errorf("list of events: %w", err)
		}
		all = append(all, e)
	}
	return all, nil
}

// checkPromises asks the daemon for everything that it has stored. The list may lag a little behind
// the answers, so what is missing is asked for again for a while.
func checkPromises(g *gateway, file string) (*promises, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	ledger, err := readLedger(f)
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(15 * time.Second); ; time.Sleep(500 * time.Millisecond) {
		text, err := g.run("events", "list", "--json", "--limit", "0")
		if err != nil {
			return nil, err
		}
		stored, err := readStored(text)
		if err != nil {
			return nil, err
		}
		p := comparePromises(ledger, stored)
		if p.missing == 0 || time.Now().After(until) {
			return &p, nil
		}
	}
}
