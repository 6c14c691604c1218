package lane

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"sluice/shm-abi/shmabi"
)

// beltTime is far beyond any pause of a loaded machine: whoever sleeps so long over work was not
// woken.
const beltTime = time.Minute

// consumerMain is the consumer process of the stress test: it takes up the lanes that it is told of
// on its standard input and says when one has ended. It is killed at any moment.
func consumerMain() int {
	seed, _ := strconv.ParseUint(os.Getenv(roleVariable+"_SEED"), 10, 64)
	failed := make(chan error, 1)
	go func() {
		served := map[int]bool{}
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			lane, err := strconv.Atoi(lines.Text())
			if err == nil && !served[lane] {
				var s *servedLane
				if s, err = takeUp(lane, seed); s != nil {
					served[lane] = true
					go func() {
						if err := s.serve(); err != nil {
							failed <- fmt.Errorf("lane %d: %w", lane, err)
						}
					}()
				}
			}
			if err != nil {
				failed <- err
			}
		}
		os.Exit(0) // the test is over
	}()
	fmt.Fprintln(os.Stderr, <-failed)
	return 1
}

// servedLane is one lane in the consumer's hands. What it writes to its log is durable; the log
// knows the position up to which it reaches, as the journal does.
type servedLane struct {
	number  int
	lane    *Lane
	wake    *Bell
	peer    *Bell
	log     *os.File
	random  *rand.Rand
	written uint64
	replied uint64
	full    bool // the reply ring
	orphan  bool
	spun    int
}

// takeUp attaches a lane; none: it is not made yet, or has ended.
func takeUp(number int, seed uint64) (*servedLane, error) {
	path := fmt.Sprintf("%02x%030x", number, 0)
	l, err := Attach(path, testOwner)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fmt.Printf("ended %d\n", number) // told so by nobody: the one before died in between
		return nil, nil
	case errors.Is(err, ErrUnfinished):
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		if (&Lane{file: file}).ProducerGone() {
			err = os.Remove(path)
			fmt.Printf("ended %d\n", number)
		}
		return nil, err
	case err != nil:
		return nil, err
	}
	s := &servedLane{number: number, lane: l, random: rand.New(rand.NewPCG(seed, uint64(number)))}
	s.orphan = l.ProducerGone() // who was told so may have died before it acted
	for i, bell := range []**Bell{&s.wake, &s.peer} {
		if *bell, err = DuplicateBell(os.NewFile(uintptr(3+2*number+i), "bell")); err != nil {
			return nil, err
		}
	}
	return s, s.recover()
}

// recover finds how far the log reaches. What a kill tore off at its end was never acknowledged.
func (s *servedLane) recover() error {
	log, err := readLog(logName(s.number))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.log, err = os.OpenFile(logName(s.number), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := s.log.Truncate(int64(len(log) * recordSize)); err != nil {
		return err
	}
	if _, err := s.log.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	s.written, s.replied = max(s.lane.Consume(), log.end()), s.lane.Consume()
	if log.end() < s.lane.Consume() || log.end() > s.lane.Verified() {
		return fmt.Errorf("the log reaches %d, consume is %d, verified %d",
			log.end(), s.lane.Consume(), s.lane.Verified())
	}
	return nil
}

func (s *servedLane) serve() error {
	if err := s.peer.Ring(); err != nil { // whatever the ticket says
		return err
	}
	for {
		worked, err := s.turn()
		if err != nil {
			return err
		}
		if worked {
			continue
		}
		commit, err := s.lane.Commit()
		if err != nil {
			return err
		}
		if (s.orphan || s.lane.Closed()) && commit == s.lane.Consume() {
			return s.end()
		}
		s.dawdle()
		if s.lane.Sleep(s.lane.Verified(), s.full && !s.orphan) {
			rung, err := s.wake.Wait(beltTime)
			if err != nil {
				return err
			}
			s.lane.Wake()
			if !rung {
				return s.unrung()
			}
		}
		s.orphan = s.lane.ProducerGone()
	}
}

// unrung says how things stood when nobody rang.
func (s *servedLane) unrung() error {
	h := s.lane.header
	return fmt.Errorf("nobody rang for %v: consume %d, verified %d, commit %d, logged %d, "+
		"answered %d, replies %d of %d, tickets %d and %d, closed %d, gone %v, waits for room %v",
		beltTime, h.Consume(), h.Verified(), h.Commit(), s.written, s.replied, h.ReplyConsume(),
		h.ReplyCommit(), h.CPTicket(), h.DPTicket(), h.Closed(), s.lane.ProducerGone(), s.full)
}

// turn judges, logs, answers and gives room back: in this order, and killed anywhere.
func (s *servedLane) turn() (bool, error) {
	l := s.lane
	commit, err := l.Commit()
	if err != nil {
		return false, err
	}
	from, at := l.Verified(), l.Verified()
	for range 1 + s.random.IntN(16) {
		if at == commit {
			break
		}
		f, err := l.Frame(at, commit)
		if err != nil {
			return false, err
		}
		if err := checkBody(f); err != nil {
			return false, err
		}
		var id [16]byte
		binary.LittleEndian.PutUint64(id[:], at)
		f.C().SetEventID(id)
		f.C().SetState(uint16(shmabi.StateVerified))
		at += uint64(len(f))
	}
	if at > from {
		l.PublishVerified(at)
		s.dawdle()
	}
	logged, err := s.write()
	if err != nil {
		return false, err
	}
	s.dawdle()
	published, err := s.answer()
	if err != nil {
		return false, err
	}
	before := l.Consume()
	s.dawdle()
	l.Release(min(s.written, s.replied))
	s.dawdle()
	if l.RingDue(published, l.Consume() != before) {
		s.dawdle()
		err = s.peer.Ring()
	}
	return at > from || logged || published, err
}

// dawdle stretches the moment between two steps, so that a kill or the other process falls into it.
func (s *servedLane) dawdle() {
	spins := 0
	switch s.random.IntN(32) {
	case 0:
		spins = 200000
	case 1, 2, 3, 4, 5, 6, 7, 8:
		spins = 10000
	}
	if spins > 0 {
		for range s.random.IntN(spins) {
			s.spun++
		}
	}
}

func checkBody(f shmabi.Frame) error {
	e, err := f.Event()
	if err != nil {
		return err
	}
	for i, b := range e.Body() {
		if b != byte((int(f.D().Seq())+i)%251) {
			return fmt.Errorf("byte %d of frame %d is another one", i, f.D().Seq())
		}
	}
	return nil
}

// write logs what is verified and not logged; its C lines must be those of an earlier or this life.
func (s *servedLane) write() (bool, error) {
	var records []byte
	for at := s.written; at < s.lane.Verified(); {
		f, err := s.lane.Frame(at, s.lane.Verified())
		if err != nil {
			return false, err
		}
		id := f.C().EventID()
		mine := binary.LittleEndian.Uint64(id[:]) == at
		if !mine || f.C().State() != uint16(shmabi.StateVerified) {
			return false, fmt.Errorf("the verdict on the frame at %d is of another one", at)
		}
		records = record{at, uint64(len(f)), f.D().Seq()}.append(records)
		at += uint64(len(f))
	}
	if len(records) == 0 {
		return false, nil
	}
	if _, err := s.log.Write(records); err != nil {
		return false, err
	}
	s.written = s.lane.Verified()
	return true, nil
}

// answer replies to what is logged, as far as there is room; a dead producer needs no reply.
func (s *servedLane) answer() (published bool, err error) {
	s.full = false
	if s.orphan {
		s.replied = s.written
		return false, nil
	}
	for s.replied < s.written {
		f, err := s.lane.Frame(s.replied, s.written)
		if err != nil {
			return published, err
		}
		seq := f.D().Seq()
		ok, err := s.lane.Reply(&Reply{
			Kind: shmabi.ReplyInline, Code: 200, Token: f.D().Token(), Seq: seq,
			Body: bodyOf(seq, s.random.IntN(900)),
		})
		if err != nil {
			return published, err
		}
		if !ok {
			s.full = true
			break
		}
		s.replied += uint64(len(f))
		published = true
	}
	if published {
		s.lane.PublishReplies()
	}
	return published, nil
}

func (s *servedLane) end() error {
	commit, err := s.lane.Commit()
	if err != nil {
		return err
	}
	if s.written != commit {
		return fmt.Errorf("ends at %d, logged up to %d", commit, s.written)
	}
	if err := os.Remove(filepath.Base(s.lane.Path())); err != nil {
		return err
	}
	fmt.Printf("ended %d\n", s.number)
	return nil
}

// A log is a file of records, each a frame that was stored.
type record struct {
	position, length uint64
	seq              uint32
}

type records []record

const recordSize = 20

func logName(lane int) string { return fmt.Sprintf("log-%d", lane) }

func (r record) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, r.position)
	b = binary.LittleEndian.AppendUint64(b, r.length)
	return binary.LittleEndian.AppendUint32(b, r.seq)
}

// readLog gives the whole records of a log.
func readLog(path string) (records, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out records
	for ; len(b) >= recordSize; b = b[recordSize:] {
		out = append(out, record{
			binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]),
			binary.LittleEndian.Uint32(b[16:]),
		})
	}
	return out, nil
}

func (r records) end() uint64 {
	if len(r) == 0 {
		return 0
	}
	return r[len(r)-1].position + r[len(r)-1].length
}

// inOrder checks that nothing is missing, twice or out of order.
func (r records) inOrder() error {
	position := uint64(0)
	for i, frame := range r {
		if frame.position != position || frame.seq != uint32(i+1) {
			return fmt.Errorf("record %d is frame %d at %d, want frame %d at %d",
				i, frame.seq, frame.position, i+1, position)
		}
		position += frame.length
	}
	return nil
}
