package lane

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// roleVariable makes the test binary a consumer process instead.
const roleVariable = "SLUICE_LANE_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "consumer" {
		os.Exit(consumerMain())
	}
	os.Exit(m.Run())
}

// stressSize is how much of it there is.
type stressSize struct {
	lanes  int
	alive  int // producers at a time
	frames int // of one producer
	kills  int // of each kind, at most
}

// TestNoFrameIsLostByKillsOfEitherProcess runs real producers (the Rust side) and real consumers,
// each killed at random moments and started again: a producer with a new lane, a consumer over the
// same lanes. In the end the consumers' logs must hold every committed frame once and in order.
func TestNoFrameIsLostByKillsOfEitherProcess(t *testing.T) {
	size := stressSize{lanes: 10, alive: 2, frames: 4000, kills: 6}
	if os.Getenv("SLUICE_SOAK") != "" {
		size = stressSize{lanes: 120, alive: 3, frames: 20000, kills: 80}
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d (SLUICE_SEED)", seed)
	s := newStress(t, size, seed)
	s.run()
	s.check()
}

type stress struct {
	t        *testing.T
	size     stressSize
	random   *rand.Rand
	seed     uint64
	binary   string
	dir      string
	bells    [][2]*Bell // of each lane: rung by its producer, wakes it
	deadline time.Time

	producers map[int]*process
	started   int
	finished  map[int]string // what a producer that was not killed said in the end
	killed    int
	consumer  *process
	lives     int
	made      map[int]bool // its file is there, or nobody will make it any more
	ended     map[int]bool
}

func newStress(t *testing.T, size stressSize, seed uint64) *stress {
	t.Helper()
	s := &stress{
		t: t, size: size, random: rand.New(rand.NewPCG(seed, 1)), seed: seed,
		binary: buildProducer(t), dir: shmDir(t), producers: map[int]*process{},
		finished: map[int]string{}, made: map[int]bool{}, ended: map[int]bool{},
		deadline: time.Now().Add(time.Duration(60+size.lanes*10) * time.Second),
	}
	for range size.lanes {
		var pair [2]*Bell
		for i := range pair {
			bell, err := NewBell()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = bell.Close() })
			pair[i] = bell
		}
		s.bells = append(s.bells, pair)
	}
	return s
}

// buildProducer builds the Rust side's example program.
func buildProducer(t *testing.T) string {
	t.Helper()
	cargo, err := exec.LookPath("cargo")
	if err != nil {
		t.Skip("no cargo here to build the producer with")
	}
	var out, diagnostics bytes.Buffer
	build := exec.Command(cargo, "build", "--locked", "--message-format=json",
		"-p", "sluice-lane", "--example", "producer")
	build.Dir, build.Stdout, build.Stderr = "../../..", &out, &diagnostics
	if err := build.Run(); err != nil {
		t.Fatalf("build the producer: %v\n%s", err, diagnostics.String())
	}
	for line := range strings.Lines(out.String()) {
		var message struct {
			Target     struct{ Name string }
			Executable string
		}
		if json.Unmarshal([]byte(line), &message) == nil && message.Target.Name == "producer" {
			return message.Executable
		}
	}
	t.Fatal("cargo built no producer")
	return ""
}

// shmDir is where lanes live, on tmpfs if there is one.
func shmDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "sluice-lane-test")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// process is one that the test started; its lines come one by one.
type process struct {
	command *exec.Cmd
	stdin   *os.File
	lines   chan string
	over    chan struct{}
	err     error
	stderr  bytes.Buffer
}

func (s *stress) start(command *exec.Cmd) *process {
	s.t.Helper()
	p := &process{command: command, lines: make(chan string, 1024), over: make(chan struct{})}
	stdin, input, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	p.stdin = input
	command.Stdin, command.Stderr = stdin, &p.stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		s.t.Fatal(err)
	}
	_ = stdin.Close() // the child has its own
	go func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			p.lines <- lines.Text()
		}
		p.err = command.Wait()
		_ = input.Close()
		close(p.over)
	}()
	s.t.Cleanup(func() { p.kill() })
	return p
}

func (p *process) kill() {
	_ = p.command.Process.Kill()
	<-p.over
}

func (s *stress) laneName(lane int) string {
	return filepath.Join(s.dir, fmt.Sprintf("%02x%030x", lane, 0))
}

func (s *stress) startProducer() {
	lane := s.started
	s.started++
	command := exec.Command(s.binary, s.dir, fmt.Sprint(lane), fmt.Sprint(s.seed+uint64(lane)),
		fmt.Sprint(s.size.frames), fmt.Sprint(16384), fmt.Sprint(4096))
	command.ExtraFiles = []*os.File{s.bells[lane][0].File(), s.bells[lane][1].File()}
	s.producers[lane] = s.start(command)
}

// startConsumer gives a new consumer all bells and the lanes that have not ended. It takes one that
// is not there for one that has, so those that are still to be made come later.
func (s *stress) startConsumer() {
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), roleVariable+"=consumer",
		fmt.Sprintf("%s_SEED=%d", roleVariable, s.seed+uint64(1000+s.lives)))
	command.Dir = s.dir
	for _, pair := range s.bells {
		command.ExtraFiles = append(command.ExtraFiles, pair[0].File(), pair[1].File())
	}
	s.lives++
	s.consumer = s.start(command)
	for lane := range s.started {
		if s.made[lane] && !s.ended[lane] {
			s.tell(lane)
		}
	}
}

// tell makes the consumer take up a lane, if it is made already.
func (s *stress) tell(lane int) {
	_, err := fmt.Fprintln(s.consumer.stdin, lane)
	if err != nil && !errors.Is(err, os.ErrClosed) && !errors.Is(err, fs.ErrClosed) {
		s.t.Logf("consumer: %v", err) // killed meanwhile; the next one is told again
	}
}

func (s *stress) run() {
	s.startConsumer()
	consumerKills, producerKills := 0, 0
	next := time.NewTimer(0)
	for len(s.ended) < s.size.lanes {
		for len(s.producers) < s.size.alive && s.started < s.size.lanes {
			s.startProducer()
		}
		s.listen()
		select {
		case <-next.C:
		default:
			if time.Now().After(s.deadline) {
				s.t.Fatalf("%d of %d lanes have ended; consumer says: %s",
					len(s.ended), s.size.lanes, s.consumer.stderr.String())
			}
			time.Sleep(time.Millisecond) // lets the processes have the machine
			continue
		}
		next.Reset(time.Duration(1+s.random.IntN(40)) * time.Millisecond)
		switch s.random.IntN(4) {
		case 0, 1:
			if consumerKills < s.size.kills {
				consumerKills++
				s.consumer.kill()
				s.listen()
				s.startConsumer()
			}
		case 2:
			for lane, p := range s.producers {
				if producerKills < s.size.kills {
					producerKills++
					p.kill()
					s.gone(lane)
				}
				break
			}
		}
	}
	s.t.Logf("%d consumers, %d of %d producers killed", s.lives, s.killed, s.started)
}

// listen takes what the processes say.
func (s *stress) listen() {
	for lane, p := range s.producers {
		select {
		case line := <-p.lines:
			if line == "ready" {
				s.made[lane] = true
				s.tell(lane)
			} else {
				s.finished[lane] = line
			}
		case <-p.over:
			s.gone(lane)
		default:
		}
	}
	for {
		select {
		case line := <-s.consumer.lines:
			var lane int
			if _, err := fmt.Sscanf(line, "ended %d", &lane); err != nil {
				s.t.Fatalf("the consumer says %q", line)
			}
			s.ended[lane] = true
		case <-s.consumer.over:
			if len(s.consumer.lines) == 0 {
				if s.consumer.command.ProcessState.Exited() {
					s.t.Fatalf("the consumer ended by itself: %v\n%s",
						s.consumer.err, s.consumer.stderr.String())
				}
				return
			}
		default:
			return
		}
	}
}

// gone is what the supervisor does when a producer is dead.
func (s *stress) gone(lane int) {
	p := s.producers[lane]
	delete(s.producers, lane)
	for len(p.lines) > 0 {
		if line := <-p.lines; line != "ready" {
			s.finished[lane] = line
		}
	}
	if s.finished[lane] == "" {
		s.killed++
		if p.command.ProcessState.Exited() {
			s.t.Fatalf("producer %d ended by itself: %v\n%s", lane, p.err, p.stderr.String())
		}
	}
	s.made[lane] = true
	s.tell(lane)
	if err := s.bells[lane][0].Ring(); err != nil {
		s.t.Fatal(err)
	}
}

// check reads the logs of all lanes.
func (s *stress) check() {
	frames := 0
	for lane := range s.size.lanes {
		log, err := readLog(s.logName(lane))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.t.Fatal(err)
		}
		if err := log.inOrder(); err != nil {
			s.t.Errorf("lane %d: %v", lane, err)
		}
		frames += len(log)
		if said := s.finished[lane]; said != "" {
			var published, late, belt int
			if _, err := fmt.Sscanf(said, "done %d %d %d", &published, &late, &belt); err != nil {
				s.t.Fatalf("producer %d says %q", lane, said)
			}
			if published != s.size.frames || len(log) != published {
				s.t.Errorf("lane %d: %d frames published, %d logged", lane, published, len(log))
			}
			if belt != 0 {
				s.t.Errorf("lane %d: its producer was not woken %d times", lane, belt)
			}
		}
		if _, err := os.Stat(s.laneName(lane)); !errors.Is(err, fs.ErrNotExist) {
			s.t.Errorf("lane %d is still there: %v", lane, err)
		}
	}
	s.t.Logf("%d frames", frames)
}

func (s *stress) logName(lane int) string { return filepath.Join(s.dir, logName(lane)) }
