package referee

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestWhatMayHoldAPasswordIsNotShown(t *testing.T) {
	for _, c := range []struct {
		args, given []string
		want        string
	}{
		{[]string{"-gate", "-only", "steady", "-steady", "10m"}, []string{"gate"},
			"-only steady -steady 10m"},
		{[]string{"-postgres", "host=/tmp password=pass", "-gate"}, nil, "-postgres … -gate"},
		{[]string{"--postgres=host=/tmp password=pass", "-only", "a"}, nil, "… -only a"},
		{[]string{"postgres://u:pass@host/db"}, nil, "…"},
		{[]string{"-only", "postgres"}, nil, "-only postgres"},
		{[]string{"-only", "keep-alive 2"}, nil, `-only "keep-alive 2"`},
		{nil, nil, ""},
	} {
		if got := shownFlags(c.args, c.given); got != c.want {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
}

func TestAHeadSaysWhereAndHow(t *testing.T) {
	var out strings.Builder
	Head{Title: "store bench", Make: "bench-store", Dir: t.TempDir(), Notes: []string{"a note"}}.
		Print(&out)
	lines := strings.Split(out.String(), "\n")
	for at, want := range []string{
		"sluice store bench, ", "command: make bench-store", "machine: ", "kernel: ", "disk: ",
		"load average: ", "a note", "~ marks",
	} {
		if !strings.HasPrefix(lines[at], want) || strings.Contains(lines[at], "unknown") {
			t.Errorf("line %d is %q, want %q", at, lines[at], want)
		}
	}
	out.Reset()
	if (Head{}).Print(&out); strings.Contains(out.String(), "disk: ") {
		t.Errorf("a disk that nobody measured: %s", out.String())
	}
}

func TestAProcessNameMayHoldAnything(t *testing.T) {
	p, err := parseStat("42 (a) (b) 1) S 7 42 42 0 -1 4194560 1 0 0 0 150 50 30 20 20 0 1 0 5")
	if err != nil {
		t.Fatal(err)
	}
	want := Process{PID: 42, Parent: 7, Name: "a) (b) 1", Own: 2, User: 1.5, Children: 0.5}
	if p != want {
		t.Fatalf("got %+v, want %+v", p, want)
	}
	for _, line := range []string{"", "42 a S", "42 (a) S 1"} {
		if _, err := parseStat(line); err == nil {
			t.Errorf("%q was read", line)
		}
	}
}

func TestAProcessIsReadFinerThanATick(t *testing.T) {
	p, err := ReadProcess(os.Getpid())
	if err != nil || p.Own <= 0 || p.Own > Own()+1 {
		t.Errorf("%v s of %v, %v", p.Own, Own(), err)
	}
	if ticks := p.Own * ticksPerSecond; ticks == math.Trunc(ticks) {
		t.Errorf("%v s is whole ticks", p.Own)
	}
	if _, ok := clockOf(1<<22 + 1); ok { // PID_MAX_LIMIT and one more
		t.Error("a process that is not there has a clock")
	}
}

func TestWhatIsKnownIsNotCountedAsOthers(t *testing.T) {
	began := time.Now()
	from, to := Watch{began, 100}, Watch{began.Add(2 * time.Second), 103}
	for known, want := range map[float64]Cores{0: 1.5, 2: 0.5, 3.1: 0} {
		if got := from.others(to, known); got != want {
			t.Errorf("with %v s known: %v, want %v", known, float64(got), float64(want))
		}
	}
	if w := StartWatch(); w.busy < Own() || w.Others(0) < 0 {
		t.Errorf("the machine was busy for %v s, this process for %v s", w.busy, Own())
	}
}

func TestUsageIsOfTheLivingAndOfTheirDead(t *testing.T) {
	program := filepath.Join(t.TempDir(), "refereed")
	shell, err := exec.LookPath("sh")
	if err == nil {
		err = os.Symlink(shell, program)
	}
	if err != nil {
		t.Skip(err)
	}
	// A child that has been waited for, then a parent that waits.
	loop := "n=0; while [ $n -lt 200000 ]; do n=$((n+1)); done"
	cmd := exec.Command(program, "-c", "("+loop+"); echo done; read wait")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	p, err := ReadProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	got := UsageOf("refereed")
	if p.Parent != os.Getpid() || p.Children <= p.Own || got < p.Own+p.Children {
		t.Errorf("%v s of %+v", got, p)
	}
	if !slices.ContainsFunc(Processes(), func(p Process) bool { return p.PID == os.Getpid() }) {
		t.Error("this process is not listed")
	}
	_ = in.Close()
	_ = cmd.Wait()
	if UsageOf("refereed") != 0 {
		t.Error("it is gone and still counted")
	}
}

func TestAGateIsJudgedByRowsInQuiet(t *testing.T) {
	type row struct {
		met    bool
		others Cores
	}
	for _, c := range []struct {
		want string
		rows []row
	}{
		{"met", []row{{true, 0}, {true, NoisyCores}}},
		{"MISSED", []row{{true, 0}, {false, 0.1}}},
		{"MISSED", []row{{false, 0}, {true, 0.9}}},
		{"unjudged", []row{{true, 0}, {false, 0.9}}},
		{"unjudged", []row{{true, 0.9}, {true, 0}}},
		{"unjudged", []row{{false, 0.41}}},
	} {
		g := Gate{Name: "a", Shown: "1"}
		for _, r := range c.rows {
			g.Judge(r.met, 0, r.others)
		}
		var out strings.Builder
		missed := PrintGates(&out, []Gate{g})
		if !strings.Contains(out.String(), "\n  "+c.want+" ") || (missed == 1) != (c.want == "MISSED") ||
			g.Met() != (c.want == "met") {
			t.Errorf("%v: %d missed, want %s: %s", c.rows, missed, c.want, out.String())
		}
	}
}

func TestGatesArePrintedAlike(t *testing.T) {
	list := []Gate{
		{Name: "a", Shown: "1"}, {Name: "b", Shown: "2", Missed: true}, {Name: "c", Unjudged: "why"},
	}
	var out strings.Builder
	missed := PrintGates(&out, list)
	const want = "\ngates\n  met       a: 1\n  MISSED    b: 2\n  unjudged  c: why\n"
	if missed != 1 || out.String() != want {
		t.Errorf("%d missed:\n%s", missed, out.String())
	}
	out.Reset()
	if n := PrintGates(&out, Unjudge(list, "")); n != 1 {
		t.Errorf("%d missed, and there was no reason to take that back", n)
	}
	out.Reset()
	if n := PrintGates(&out, Unjudge(list, "busy")); n != 0 ||
		strings.Count(out.String(), "; busy") != 2 {
		t.Errorf("%d missed:\n%s", n, out.String())
	}
	out.Reset()
	if PrintGates(&out, nil); out.Len() > 0 {
		t.Errorf("no gate is %q", out.String())
	}
}

func TestAResultIsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "r.txt")
	r, err := Create(path, "")
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(filepath.Dir(path), "r.seconds.txt"); r.Beside("seconds") != want {
		t.Errorf("beside it is %s, want %s", r.Beside("seconds"), want)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(path); err != nil || !strings.Contains(string(data), path) {
		t.Errorf("%q, %v", data, err)
	}
	t.Chdir(t.TempDir())
	if r, err = Create("", "store-"); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	found, _ := filepath.Glob("bench/results/local/store-*Z.txt")
	if len(found) != 1 {
		t.Errorf("found %q", found)
	}
}
