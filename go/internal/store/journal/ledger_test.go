package journal

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sluice/go/internal/store/vfs"
)

// What a journal on a real disk promises goes, line by line, to a place that survives: the pipe of
// a parent, or the console of a virtual machine whose power is cut.
//
//	SLUICE_LEDGER_DIR=/disk/journal journal.test -test.run Test_ledger_is_written > console
//	(the power goes; the disk comes back)
//	SLUICE_LEDGER_DIR=/disk/journal SLUICE_LEDGER=console journal.test -test.run Test_ledger_is_kept
const (
	ledgerDir  = "SLUICE_LEDGER_DIR"
	ledgerFile = "SLUICE_LEDGER"
)

// writeLedger appends groups to the journal in a directory until something fails.
func writeLedger(d *drill, out io.Writer) error {
	o := d.options(vfs.OS(), d.rng.Uint64())
	j, r, err := Open(o)
	if err != nil {
		return err
	}
	if len(r.Damage) > 0 {
		return fmt.Errorf("damage: %v", r.Damage)
	}
	if err := j.Settle(); err != nil {
		return err
	}
	for tag := max(r.Lanes[laneOf(1)], 1); ; {
		var tags offered
		for range 1 + d.rng.IntN(4) {
			tags = append(tags, tag)
			tag++
		}
		fmt.Fprintln(out, "offered", join(tags))
		g, err := j.Append(tagBatch(d.t, tags...))
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "acknowledged", g.Number, join(tags))
		g.Release()
		if s := j.Segments(); len(s) > 6 {
			fmt.Fprintln(out, "dropped", s[0].LastGroup)
			if err := j.Drop(s[0].Number); err != nil {
				return err
			}
		}
		if d.rng.IntN(5) == 0 {
			if err := j.Prepare(); err != nil {
				return err
			}
		}
	}
}

func join(tags []uint64) string { return strings.Trim(fmt.Sprint(tags), "[]") }

// readLedger gives the notes of whole lines; other lines of a console are passed over.
func readLedger(in io.Reader) (notes []any) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		verb, rest, _ := strings.Cut(lines.Text(), " ")
		var numbers []uint64
		for _, word := range strings.Fields(rest) {
			n, err := strconv.ParseUint(word, 10, 64)
			if err != nil {
				break
			}
			numbers = append(numbers, n)
		}
		switch {
		case len(numbers) == 0:
		case verb == "offered":
			notes = append(notes, offered(numbers))
		case verb == "acknowledged":
			notes = append(notes, acknowledged{numbers[0], numbers[1:]})
		case verb == "dropped":
			notes = append(notes, dropped{numbers[0]})
		}
	}
	return notes
}

func ledgerDrill(t *testing.T, dir string) *drill {
	return &drill{t: t, dir: dir, rng: rand.New(rand.NewPCG(rand.Uint64(), 1)), clock: newClock(),
		direct: true}
}

func Test_ledger_is_written(t *testing.T) {
	dir := os.Getenv(ledgerDir)
	if dir == "" || os.Getenv(ledgerFile) != "" {
		t.Skipf("writes until it is killed; needs %s alone", ledgerDir)
	}
	t.Fatal(writeLedger(ledgerDrill(t, dir), os.Stdout))
}

func Test_ledger_is_kept(t *testing.T) {
	dir, file := os.Getenv(ledgerDir), os.Getenv(ledgerFile)
	if dir == "" || file == "" {
		t.Skipf("compares a journal with a ledger; needs %s and %s", ledgerDir, ledgerFile)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	notes := readLedger(f)
	if err := ledgerDrill(t, dir).recovered(vfs.OS(), promisesOf(notes)); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d promises are kept", len(notes))
}

// The form for kill -9, with a pipe for the console.
func Test_a_killed_process_has_kept_its_promises(t *testing.T) {
	if os.Getenv(ledgerDir) != "" {
		t.Skip("a part of it is under way")
	}
	lives := 3
	if soak() {
		lives = 100
	}
	dir := filepath.Join(t.TempDir(), "journal")
	var notes []any
	for life := range lives {
		child := exec.Command(os.Args[0], "-test.run", "^Test_ledger_is_written$")
		child.Env = append(os.Environ(), ledgerDir+"="+dir)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		lines := bufio.NewReader(out)
		for range 20 + rand.IntN(100) {
			line, err := lines.ReadString('\n')
			if text.WriteString(line); err != nil {
				t.Fatalf("life %d ended by itself: %s", life, text.String())
			}
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		rest, _ := io.ReadAll(lines)
		text.Write(rest)
		_ = child.Wait() // says that it was killed
		notes = append(notes, readLedger(strings.NewReader(wholeLines(text.String())))...)
		p := promisesOf(notes)
		d := ledgerDrill(t, dir)
		if err := d.recovered(vfs.OS(), p); err != nil {
			t.Fatalf("life %d: %v", life, err)
		}
		notes = append(notes, offered{d.tag})
	}
	if p := promisesOf(notes); len(p.groups) < 10*lives {
		t.Fatalf("only %d groups were acknowledged", len(p.groups))
	}
}

// wholeLines leaves a last line without its end out.
func wholeLines(text string) string { return text[:strings.LastIndexByte(text, '\n')+1] }
