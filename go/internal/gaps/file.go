package gaps

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"time"
)

// The file is two lines of JSON: one that says what it is, with the checksum of the other.
//
//	{"sluice":"gaps","format":1,"crc32c":"0123abcd"}
//	{"boot":"…","planes":[…],"gaps":[…]}
const (
	fileKind   = "gaps"
	fileFormat = 1
	// fileMax is over what the bounds allow: 65,536 ids of 96 bytes, each byte six characters.
	fileMax = 64 << 20

	saveInterval = time.Second
	// refreshInterval bounds how old the file gets without a change: what is refused while nobody
	// looks was refused after the last look that the file knows of.
	refreshInterval = time.Minute
	// saveBytes a second is what saving may cost the disk: a large ledger is saved less often.
	saveBytes = 256 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type fileHead struct {
	Sluice string `json:"sluice"`
	Format int    `json:"format"`
	CRC32C string `json:"crc32c"`
}

type fileBody struct {
	Boot   string       `json:"boot"`
	Planes []planeState `json:"planes"`
	Gaps   []*gap       `json:"gaps"`
}

type planeState struct {
	Generation uint32      `json:"generation"`
	Pid        uint32      `json:"pid"`
	LookedNS   int64       `json:"looked_ns"`
	Next       []uint64    `json:"next"`
	Counts     []slotState `json:"counts"`
}

type slotState struct {
	Slot int    `json:"slot"`
	Shed counts `json:"shed"`
}

// Open takes the ledger up where the last life saved it. One that cannot be read or believed is set
// aside, and the ledger begins empty: it must not keep the daemon from starting.
func Open(o Options) *Ledger {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.bounds == (bounds{}) {
		o.bounds = bounds{gapsMax, idsMax, idsPerGap}
	}
	l := &Ledger{
		o: o, coarse: map[pair]*gap{}, open: map[pair]*gap{}, planes: map[uint32]*plane{},
	}
	data, err := o.Disk.Read(fileMax)
	var body fileBody
	if err == nil && data != nil {
		body, err = decode(data)
	}
	if err != nil {
		aside, asideErr := o.Disk.SetAside(".damaged-" + o.Now().UTC().Format("20060102T150405.000"))
		o.Log.Error("the ledger of refusals cannot be believed and begins empty",
			"why", err, "kept", aside, "error", asideErr)
		return l
	}
	l.take(&body)
	return l
}

// decode reads a file; an error says what is wrong with it.
func decode(data []byte) (body fileBody, err error) {
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	var head fileHead
	if err := json.Unmarshal(line, &head); err != nil {
		return body, fmt.Errorf("the first line: %w", err)
	}
	if head.Sluice != fileKind || head.Format != fileFormat {
		return body, fmt.Errorf("it is %q of format %d", head.Sluice, head.Format)
	}
	if sum := fmt.Sprintf("%08x", crc32.Checksum(rest, castagnoli)); sum != head.CRC32C {
		return body, fmt.Errorf("its checksum is %s, not %s", sum, head.CRC32C)
	}
	if err := json.Unmarshal(rest, &body); err != nil {
		return body, fmt.Errorf("the second line: %w", err)
	}
	for _, g := range body.Gaps {
		if g == nil || g.From > g.To || len(g.IDs) > 0 && g.Named == 0 {
			return body, errors.New("it holds a gap that cannot be")
		}
	}
	return body, nil
}

// take puts a file's content into an empty ledger.
func (l *Ledger) take(body *fileBody) {
	for _, g := range body.Gaps {
		p := pair{g.Source, g.Reason}
		if g.Coarse {
			l.coarse[p] = g
			continue
		}
		g.last = time.Unix(0, g.To)
		l.gaps = append(l.gaps, g)
		if g.Closed == 0 {
			l.open[p] = g
		}
		l.ids += len(g.IDs)
	}
	l.bound()
	if body.Boot != hex.EncodeToString(l.o.Boot[:]) {
		return // those planes are gone, and their numbers are given anew
	}
	for _, s := range body.Planes {
		p := &plane{
			Pid: s.Pid, Looked: time.Unix(0, s.LookedNS), Next: s.Next, Counts: map[int]counts{},
		}
		for _, c := range s.Counts {
			p.Counts[c.Slot] = c.Shed
		}
		l.planes[s.Generation] = p
	}
}

// encode is the file of now.
func (l *Ledger) encode() ([]byte, error) {
	body := fileBody{Boot: hex.EncodeToString(l.o.Boot[:])}
	for generation, p := range l.planes {
		s := planeState{Generation: generation, Pid: p.Pid, LookedNS: p.Looked.UnixNano(), Next: p.Next}
		for slot, c := range p.Counts {
			s.Counts = append(s.Counts, slotState{slot, c})
		}
		body.Planes = append(body.Planes, s)
	}
	for _, g := range l.coarse {
		body.Gaps = append(body.Gaps, g)
	}
	body.Gaps = append(body.Gaps, l.gaps...)
	rest, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	rest = append(rest, '\n')
	head, err := json.Marshal(fileHead{fileKind, fileFormat,
		fmt.Sprintf("%08x", crc32.Checksum(rest, castagnoli))})
	if err != nil {
		return nil, err
	}
	return append(append(head, '\n'), rest...), nil
}

// save writes the file if anything changed since the last one, or if it must. A disk that does not
// take it is told of once; the ledger goes on in memory.
func (l *Ledger) save(must bool) {
	began := l.o.Now()
	l.mu.Lock()
	changes := l.changes
	if changes == l.saved && !must {
		l.mu.Unlock()
		return
	}
	data, err := l.encode()
	l.mu.Unlock()
	if err == nil {
		err = l.o.Disk.Write(data)
	}
	if err != nil {
		if !l.failing {
			l.o.Log.Warn("the ledger of refusals is not saved; it is kept in memory and saved when "+
				"the disk takes it", "error", err)
		}
		l.failing, l.next = true, began.Add(saveInterval)
		return
	}
	if l.failing {
		l.o.Log.Info("the ledger of refusals is saved again")
	}
	l.failing = false
	l.next, l.refresh = began.Add(interval(len(data))), began.Add(refreshInterval)
	l.mu.Lock()
	l.saved = changes
	l.mu.Unlock()
}

// interval is the time between two saves of so many bytes.
func interval(size int) time.Duration {
	return max(saveInterval, time.Duration(size)*time.Second/saveBytes)
}

func (l *Ledger) saveNowAndThen(ctx context.Context) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := l.o.Now(); !now.Before(l.next) {
			l.save(!now.Before(l.refresh))
		}
	}
}
