package testserver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/go/internal/testserver"
)

const patience = 60 * time.Second

func TestEachTestHasADatabaseOfItsOwnOnTheSharedServer(t *testing.T) {
	one, two := testserver.Postgres(t), testserver.Postgres(t)
	if one.Addr != two.Addr || one.URL == two.URL {
		t.Fatalf("%s and %s: want one server, two databases", one.URL, two.URL)
	}
	if _, err := one.Connect().Exec(t.Context(), "CREATE TABLE here (n int)"); err != nil {
		t.Fatal(err)
	}
	if _, err := two.Connect().Exec(t.Context(), "SELECT * FROM here"); err == nil {
		t.Fatal("a table of the first database is in the second")
	}
}

func TestAnOwnPostgresKeepsWhatWasCommittedOverStopAndKill(t *testing.T) {
	s := testserver.OwnPostgres(t, "max_connections=7")
	var limit string
	if err := s.Connect().QueryRow(t.Context(), "SHOW max_connections").Scan(&limit); err != nil {
		t.Fatal(err)
	}
	if limit != "7" {
		t.Fatalf("max_connections is %s, want 7", limit)
	}
	if _, err := s.Connect().Exec(t.Context(), "CREATE TABLE kept (n int)"); err != nil {
		t.Fatal(err)
	}
	for _, end := range []func(){s.Stop, s.Kill} {
		end()
		if _, err := pgx.Connect(t.Context(), s.URL); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("connect to a stopped server: %v, want refused", err)
		}
		s.Start()
		if _, err := s.Connect().Exec(t.Context(), "INSERT INTO kept VALUES (1)"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestARedisComesBackEmptyAtTheSameAddress(t *testing.T) {
	s := testserver.Redis(t)
	if got := command(t, s.Addr, "SET k v"); got != "+OK" {
		t.Fatal(got)
	}
	for _, end := range []func(){s.Stop, s.Kill} {
		end()
		if _, err := net.Dial("tcp", s.Addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("connect to a stopped server: %v, want refused", err)
		}
		s.Start()
		if got := command(t, s.Addr, "EXISTS k"); got != ":0" {
			t.Fatal(got)
		}
	}
}

func TestAPausedRedisAnswersNothingAndKeepsItsData(t *testing.T) {
	s := testserver.Redis(t)
	command(t, s.Addr, "SET k v")
	s.Pause()
	conn, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "PING\r\n")
	_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read from a paused server: %v", err)
	}
	s.Resume()
	if got := command(t, s.Addr, "EXISTS k"); got != ":1" {
		t.Fatal(got)
	}
}

// command sends one line to Redis and gives the first line of its reply.
func command(t *testing.T, addr, line string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "%s\r\n", line)
	reply, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(reply)
}

// The process of this test that is killed is the test binary itself, in this role.
const roleVariable = "SLUICE_TESTSERVER_ROLE"

func TestNothingOutlivesAKilledProcess(t *testing.T) {
	if os.Getenv(roleVariable) != "" {
		pg, rd := testserver.OwnPostgres(t), testserver.Redis(t)
		fmt.Printf("servers %s %s\n", pg.Addr, rd.Addr)
		select {}
	}
	testserver.OwnPostgres(t) // skips where it is not installed
	testserver.Redis(t)
	temp := t.TempDir()
	for dir := temp; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		_ = os.Chmod(dir, 0o755) // the servers' user has to get in
	}
	victim := exec.Command(os.Args[0], "-test.run=^TestNothingOutlivesAKilledProcess$")
	victim.Env = append(os.Environ(), roleVariable+"=victim", "TMPDIR="+temp)
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(out)
	line, _ := said.ReadString('\n')
	var postgres, redis string
	if _, err := fmt.Sscanf(line, "servers %s %s", &postgres, &redis); err != nil {
		_ = victim.Process.Kill()
		rest, _ := io.ReadAll(said)
		t.Fatalf("the victim did not start its servers: %s%s", line, rest)
	}
	if left, _ := os.ReadDir(temp); len(left) != 1 {
		t.Errorf("%d entries in the temporary folder, want the one of the servers", len(left))
	}
	_ = victim.Process.Kill()
	_ = victim.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, addr := range []string{postgres, redis} {
		until(ctx, t, addr+" is closed", func() bool {
			conn, err := net.Dial("tcp", addr)
			if err == nil {
				conn.Close() // one that stays open holds up the end of Postgres
			}
			return errors.Is(err, syscall.ECONNREFUSED)
		})
	}
	until(ctx, t, "the files are gone", func() bool {
		left, err := os.ReadDir(temp)
		return err == nil && len(left) == 0
	})
}

func until(ctx context.Context, t *testing.T, what string, holds func() bool) {
	t.Helper()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("never came true: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
