package testserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// PostgresServer is a running Postgres. Its user "sluice" is a superuser without a password; others
// that a test creates need none either. What is committed outlives Stop and Kill.
type PostgresServer struct {
	// URL names a database and its superuser, for pgx.
	URL string
	// Addr is where it listens, host:port.
	Addr string

	t       testing.TB
	cluster *cluster
	shared  bool
}

// Postgres gives a new, empty database on the server that all tests of this binary share; it is
// dropped with the test. The server has the default settings, 100 connections among them.
func Postgres(t testing.TB) *PostgresServer {
	t.Helper()
	c, err := sharedCluster()
	if errors.Is(err, exec.ErrNotFound) {
		missing(t, err.Error())
	}
	if err != nil {
		t.Fatalf("start the shared Postgres: %v", err)
	}
	name := fmt.Sprintf("test%d", databases.Add(1))
	if err := c.execute("CREATE DATABASE " + name); err != nil {
		t.Fatalf("create a database: %v", err)
	}
	t.Cleanup(func() {
		if err := c.execute("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	return &PostgresServer{URL: c.url(name), Addr: c.addr(), t: t, cluster: c, shared: true}
}

// OwnPostgres starts a server for this test alone, which may stop it. Settings are those of
// postgresql.conf, as "max_connections=20".
func OwnPostgres(t testing.TB, settings ...string) *PostgresServer {
	t.Helper()
	c, err := newCluster(settings)
	if errors.Is(err, exec.ErrNotFound) {
		missing(t, err.Error())
	}
	if err != nil {
		t.Fatalf("start Postgres: %v", err)
	}
	s := &PostgresServer{URL: c.url("postgres"), Addr: c.addr(), t: t, cluster: c}
	t.Cleanup(func() {
		s.Kill()
		_ = os.RemoveAll(c.dir)
	})
	return s
}

// As is the URL with another user.
func (s *PostgresServer) As(user string) string {
	u, err := url.Parse(s.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	u.User = url.User(user)
	return u.String()
}

// Stop ends the server in order: transactions are rolled back, connections closed. A server that
// does not run stays so. Stop, Kill and Start are for the goroutine of the test.
func (s *PostgresServer) Stop() { s.t.Helper(); s.end(syscall.SIGINT) }

// Kill ends the server at once, as a crash does; the next start recovers.
func (s *PostgresServer) Kill() { s.t.Helper(); s.end(syscall.SIGQUIT) }

func (s *PostgresServer) end(with syscall.Signal) {
	s.t.Helper()
	if s.shared {
		s.t.Fatal("other tests use this Postgres; stop one that OwnPostgres gave")
	}
	if err := s.cluster.end(with); err != nil {
		s.t.Fatalf("end Postgres: %v", err)
	}
}

// Start starts a stopped server again, at the same address.
func (s *PostgresServer) Start() {
	s.t.Helper()
	if err := s.cluster.start(); err != nil {
		s.t.Fatalf("start Postgres: %v", err)
	}
}

var (
	databases     atomic.Int64
	sharedCluster = sync.OnceValues(func() (*cluster, error) { return newCluster(nil) })
)

// template is a data directory that no server runs on: to copy it takes half the time of initdb.
var template = sync.OnceValues(func() (*cluster, error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	owner, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := folder("template", owner)
	if err != nil {
		return nil, err
	}
	c := &cluster{bin: bin, dir: dir, owner: owner}
	return c, c.run(filepath.Join(bin, "initdb"), "-D", c.data(), "-U", "sluice", "--auth=trust",
		"--encoding=UTF8", "--locale=C", "--wal-segsize=1", "--no-sync")
})

// cluster is one data directory and the server that runs on it, or does not.
type cluster struct {
	bin, dir string
	owner    *syscall.Credential
	port     int
	settings []string
	running  *process
}

func newCluster(settings []string) (*cluster, error) {
	from, err := template()
	if err != nil {
		return nil, err
	}
	dir, err := folder("postgres", from.owner)
	if err != nil {
		return nil, err
	}
	c := &cluster{bin: from.bin, dir: dir, owner: from.owner, settings: settings}
	if err := c.run("cp", "-R", from.data(), c.data()); err != nil {
		return nil, err
	}
	// Another process may take the port between the look and the bind.
	for range startTries {
		if c.port, err = freePort(); err != nil {
			return nil, err
		}
		if err = c.start(); err == nil {
			return c, nil
		}
	}
	return nil, err
}

func (c *cluster) data() string { return filepath.Join(c.dir, "data") }
func (c *cluster) addr() string { return fmt.Sprintf("127.0.0.1:%d", c.port) }
func (c *cluster) url(database string) string {
	return fmt.Sprintf("postgres://sluice@%s/%s?sslmode=disable", c.addr(), database)
}

// run runs a command as the cluster's owner.
func (c *cluster) run(path string, args ...string) error {
	command := exec.Command(path, args...)
	command.Dir = c.dir
	command.SysProcAttr = &syscall.SysProcAttr{Credential: c.owner}
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(path), err, out)
	}
	return nil
}

func (c *cluster) start() error {
	if c.running != nil {
		return nil
	}
	args := []string{"-D", c.data(), "-p", strconv.Itoa(c.port), "-h", "127.0.0.1", "-k", "",
		"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "shared_buffers=16MB",
		"-c", "dynamic_shared_memory_type=posix"}
	for _, setting := range c.settings {
		args = append(args, "-c", setting)
	}
	// SIGQUIT and not SIGKILL: the postmaster ends its children and frees the shared memory.
	p, err := launch(filepath.Join(c.bin, "postgres"), args, c.dir, c.owner, syscall.SIGQUIT)
	if err != nil {
		return err
	}
	if err := p.await(func() error { return c.execute("SELECT 1") }); err != nil {
		_ = p.end(syscall.SIGQUIT)
		return err
	}
	c.running = p
	return nil
}

func (c *cluster) end(with syscall.Signal) error {
	if c.running == nil {
		return nil
	}
	p := c.running
	c.running = nil
	return p.end(with)
}

// execute runs one statement as the superuser, on the database "postgres".
func (c *cluster) execute(statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.url("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}

// postgresBin is the folder with initdb and postgres. The one on the path may be a link into it.
func postgresBin() (string, error) {
	candidates, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	slices.Reverse(candidates)
	if found, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(found); err == nil {
			candidates = slices.Insert(candidates, 0, real)
		}
	}
	for _, initdb := range candidates {
		if _, err := os.Stat(filepath.Join(filepath.Dir(initdb), "postgres")); err == nil {
			return filepath.Dir(initdb), nil
		}
	}
	return "", fmt.Errorf("no Postgres here (initdb); on Debian: apt-get install postgresql: %w",
		exec.ErrNotFound)
}

// unprivileged is who runs Postgres, which refuses root: nobody then, else nil for ourselves.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return nil, fmt.Errorf("Postgres refuses to run as root: %w", err)
	}
	uid, err := strconv.ParseUint(nobody.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(nobody.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

// Connect gives a connection that ends with the test.
func (s *PostgresServer) Connect() *pgx.Conn {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		s.t.Fatalf("connect to Postgres: %v", err)
	}
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	})
	return conn
}
