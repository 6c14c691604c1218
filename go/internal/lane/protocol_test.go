package lane

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sluice/shm-abi/shmabi"
)

// The scripts are run by both languages: here the consumer is the real one and the producer is
// played by hand, in the data plane's test it is the other way round. Same script, same output.
var rewrite = flag.Bool("rewrite", false, "write what the protocol scripts print into them")

const scripts = "../../../shm-abi/testdata/protocol"

func TestProtocolScripts(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(scripts, "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts in %s: %v", scripts, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got := runScript(t, string(text))
			if got == string(text) {
				return
			}
			if *rewrite {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Error(firstDifference(string(text), got))
		})
	}
}

// runScript gives the script with the output that its commands have now. A command is followed by
// ---- and its output; an empty line ends that.
func runScript(t *testing.T, text string) string {
	var out strings.Builder
	s := &stage{t: t, path: filepath.Join(t.TempDir(), "lane")}
	defer s.end()
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if line == "" || strings.HasPrefix(line, "#") {
			fmt.Fprintln(&out, line)
			continue
		}
		printed := strings.TrimRight(s.do(line), "\n")
		fmt.Fprintf(&out, "%s\n----\n%s\n", line, printed)
		if i+1 < len(lines) && lines[i+1] == "----" {
			for i++; i+1 < len(lines) && lines[i+1] != ""; i++ {
			}
		} else if i+1 < len(lines) && lines[i+1] != "" {
			fmt.Fprintln(&out)
		}
	}
	return out.String()
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := 0; i < len(w) && i < len(g); i++ {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d: the script says\n  %s\nthis side says\n  %s",
				i+1, w[i], g[i])
		}
	}
	return fmt.Sprintf("the script has %d lines, this side %d", len(w), len(g))
}

// stage is where a script plays: one lane, a producer and a consumer.
type stage struct {
	t        *testing.T
	path     string
	producer *handProducer
	consumer *Lane
	readTo   uint64 // what the consumer has read; verify goes up to there
	replied  bool   // since its last turn
	freed    bool
}

func (s *stage) end() {
	if s.consumer != nil {
		s.consumer.Close()
	}
	if s.producer != nil {
		_ = s.producer.file.Close()
	}
}

func (s *stage) do(line string) string {
	words := strings.Fields(line)
	numbers := make([]uint64, 0, len(words))
	for _, w := range words {
		if n, err := strconv.ParseUint(w, 0, 64); err == nil {
			numbers = append(numbers, n)
		}
	}
	room := words[len(words)-1] == "room"
	switch words[0] + " " + words[min(1, len(words)-1)] {
	case "crash producer":
		_ = s.producer.file.Close()
		s.producer.dead = true
		return "its lock is free"
	case "crash consumer":
		s.consumer.Close()
		s.consumer, s.replied, s.freed = nil, false, false
		return "its words stay"
	case "attach consumer":
		return s.attach()
	case "turn producer":
		return rings(s.producer.turn())
	case "turn consumer":
		published, freed := s.replied, s.freed
		s.replied, s.freed = false, false
		return rings(s.consumer.RingDue(published, freed))
	case "sleep producer":
		return s.producer.sleep(room)
	case "sleep consumer":
		slept := s.consumer.Sleep(s.readTo, room)
		return asleep(slept, s.load(shmabi.LaneHeaderCPTicketOffset))
	case "wake producer":
		s.producer.wake()
		return fmt.Sprintf("ticket %d", s.producer.ticket)
	case "wake consumer":
		s.consumer.Wake()
		return fmt.Sprintf("ticket %d", s.load(shmabi.LaneHeaderCPTicketOffset))
	}
	switch words[0] {
	case "lane":
		s.producer = newHandProducer(s.t, s.path, numbers[0], numbers[1])
		return "ok"
	case "publish":
		var out strings.Builder
		for _, size := range numbers {
			fmt.Fprintln(&out, s.producer.publish(int(size)))
		}
		return out.String()
	case "torn":
		for i := range numbers[0] {
			s.producer.put(s.producer.commit+i, []byte{0xee})
		}
		return "ok"
	case "drain":
		return s.producer.drain()
	case "budget":
		delete(s.producer.open, uint32(numbers[0]))
		return "nobody waits any more"
	case "close":
		s.store(shmabi.LaneHeaderClosedOffset, 1)
		return "ok"
	case "intake":
		return s.intake()
	case "verify":
		return s.verify(numbers[0])
	case "verdicts":
		return s.verdicts()
	case "reply":
		return s.reply(numbers)
	case "release":
		at, err := s.skip(s.consumer.Consume(), numbers[0])
		if err != nil {
			return wrong(err)
		}
		s.consumer.Release(at)
		s.freed = true
		return fmt.Sprintf("consume %d", at)
	case "retire":
		s.consumer.Retire()
		return "ok"
	case "gone?":
		return yes(s.consumer.ProducerGone())
	case "closed?":
		return yes(s.consumer.Closed())
	case "retired?":
		return yes(s.load(shmabi.LaneHeaderRetiredOffset) != 0)
	case "corrupt":
		s.store(wordOffsets[words[1]], numbers[0])
		return "ok"
	case "flip":
		at := shmabi.PageSize + int64(numbers[0]%s.producer.capacity)
		var b [1]byte
		if _, err := s.producer.file.ReadAt(b[:], at); err != nil {
			s.t.Fatal(err)
		}
		s.producer.put(numbers[0], []byte{b[0] ^ 1})
		return "ok"
	case "words":
		return s.words()
	}
	s.t.Fatalf("no command %q", line)
	return ""
}

var wordOffsets = map[string]int64{
	"magic":            shmabi.LaneHeaderMagicOffset,
	"layout_hash":      shmabi.LaneHeaderLayoutHashOffset,
	"boot_id":          shmabi.LaneHeaderBootIDOffset,
	"journal_id":       shmabi.LaneHeaderJournalIDOffset,
	"request_capacity": shmabi.LaneHeaderRequestCapacityOffset,
	"commit":           shmabi.LaneHeaderCommitOffset,
	"consume":          shmabi.LaneHeaderConsumeOffset,
	"verified":         shmabi.LaneHeaderVerifiedOffset,
	"reply_commit":     shmabi.LaneHeaderReplyCommitOffset,
	"reply_consume":    shmabi.LaneHeaderReplyConsumeOffset,
	"dp_ticket":        shmabi.LaneHeaderDPTicketOffset,
	"cp_ticket":        shmabi.LaneHeaderCPTicketOffset,
}

func (s *stage) load(at int64) uint64 {
	p := producer{t: s.t, file: s.producer.peek()}
	return p.load(at)
}

func (s *stage) store(at int64, v uint64) {
	p := producer{t: s.t, file: s.producer.peek()}
	p.store(at, v)
}

func (s *stage) words() string {
	out := make([]string, 0, 7)
	for _, name := range []string{"consume", "verified", "commit", "reply_consume", "reply_commit",
		"cp_ticket", "dp_ticket"} {
		out = append(out, fmt.Sprintf("%s %d", name, s.load(wordOffsets[name])))
	}
	return strings.Join(out, ", ")
}

func (s *stage) attach() string {
	l, err := Attach(s.path, testOwner)
	if err != nil {
		return wrong(err)
	}
	s.consumer, s.readTo = l, l.Verified()
	commit, err := l.Commit()
	if err != nil {
		return wrong(err)
	}
	return fmt.Sprintf("consume %d, verified %d, commit %d; rings whatever the ticket says",
		l.Consume(), l.Verified(), commit)
}

func (s *stage) intake() string {
	commit, err := s.consumer.Commit()
	if err != nil {
		return wrong(err)
	}
	var out strings.Builder
	for s.readTo = max(s.readTo, s.consumer.Verified()); s.readTo < commit; {
		f, err := s.consumer.Frame(s.readTo, commit)
		if err != nil {
			fmt.Fprintln(&out, wrong(err))
			return out.String()
		}
		e, err := f.Event()
		if err != nil {
			s.t.Fatal(err)
		}
		fmt.Fprintf(&out, "frame %d at %d: %d bytes, body of %d, crc %08x\n",
			f.D().Seq(), s.readTo, len(f), len(e.Body()), f.D().Crc32c())
		s.readTo += uint64(len(f))
	}
	if out.Len() == 0 {
		return "nothing"
	}
	return out.String()
}

// skip gives the position behind so many frames.
func (s *stage) skip(at, frames uint64) (uint64, error) {
	for range frames {
		f, err := s.consumer.Frame(at, s.readTo)
		if err != nil {
			return 0, err
		}
		at += uint64(len(f))
	}
	return at, nil
}

func (s *stage) verify(frames uint64) string {
	at := s.consumer.Verified()
	for range frames {
		f, err := s.consumer.Frame(at, s.readTo)
		if err != nil {
			return wrong(err)
		}
		f.C().SetState(uint16(shmabi.StateVerified))
		at += uint64(len(f))
	}
	s.consumer.PublishVerified(at)
	return fmt.Sprintf("verified %d", at)
}

func (s *stage) verdicts() string {
	var out strings.Builder
	commit, err := s.consumer.Commit()
	if err != nil {
		return wrong(err)
	}
	for at := s.consumer.Consume(); at < commit; {
		f, err := s.consumer.Frame(at, commit)
		if err != nil {
			return wrong(err)
		}
		verdict := "not judged"
		if at < s.consumer.Verified() {
			verdict = fmt.Sprintf("state %d", f.C().State())
		}
		fmt.Fprintf(&out, "frame %d: %s\n", f.D().Seq(), verdict)
		at += uint64(len(f))
	}
	return out.String()
}

// reply answers the request with a sequence number: code, and a body of so many bytes.
func (s *stage) reply(n []uint64) string {
	r := Reply{Kind: shmabi.ReplyAccepted, Code: uint16(n[1]), Token: n[0], Seq: uint32(n[0])}
	if len(n) > 2 {
		r.Kind, r.Body = shmabi.ReplyInline, bodyOf(uint32(n[0]), int(n[2]))
	}
	ok, err := s.consumer.Reply(&r)
	switch {
	case err != nil:
		return wrong(err)
	case !ok:
		return "no room"
	}
	s.consumer.PublishReplies()
	s.replied = true
	return fmt.Sprintf("reply_commit %d", s.load(shmabi.LaneHeaderReplyCommitOffset))
}

var frameAt = regexp.MustCompile(`at (\d+)( = .*|: not a frame.*)$`)

// wrong is how both languages say what an error is about.
func wrong(err error) string {
	text := err.Error()
	switch at := frameAt.FindStringSubmatch(text); {
	case errors.Is(err, ErrUnfinished):
		return "wrong: never finished"
	case errors.Is(err, ErrForeign):
		return "wrong: foreign"
	case errors.Is(err, ErrOtherBoot):
		return "wrong: another boot"
	case errors.Is(err, ErrOtherJournal):
		return "wrong: another journal"
	case errors.Is(err, ErrCorrupt) && at != nil:
		return "wrong: frame at " + at[1]
	case errors.Is(err, ErrCorrupt) && strings.Contains(text, ": consume ") &&
		strings.Contains(text, ", verified "):
		return "wrong: cursors"
	case errors.Is(err, ErrCorrupt):
		_, what, _ := strings.Cut(text, ErrCorrupt.Error()+": ")
		return "wrong: " + what
	}
	return "wrong: too large"
}

func rings(due bool) string {
	if due {
		return "rings"
	}
	return "quiet"
}

func asleep(slept bool, ticket uint64) string {
	if slept {
		return fmt.Sprintf("asleep, ticket %d", ticket)
	}
	return fmt.Sprintf("stays awake, ticket %d", ticket)
}

func yes(v bool) string {
	if v {
		return "yes"
	}
	return "no"
}
