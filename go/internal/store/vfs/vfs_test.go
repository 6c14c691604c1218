package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// conformance is what the journal needs of any file system.
func conformance(t *testing.T, f FS, root string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := path.Join(root, "a/b")
	must(f.MkdirAll(dir))
	must(f.MkdirAll(dir))
	name := path.Join(dir, "one")
	file, err := f.Create(name, 0)
	must(err)
	if _, err := f.Create(name, 0); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("made twice: %v", err)
	}
	must(file.Preallocate(8192))
	if n, err := file.Size(); n != 8192 || err != nil {
		t.Fatalf("size %d, %v", n, err)
	}
	want := bytes.Repeat([]byte("sluice"), 100)
	_, err = file.WriteAt(want, 5000)
	must(err)
	must(file.Sync())
	must(f.SyncDir(dir))
	got := make([]byte, len(want))
	if _, err := file.ReadAt(got, 5000); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("read: %v", err)
	}
	if n, err := file.ReadAt(make([]byte, 100), 8150); n != 42 || !errors.Is(err, io.EOF) {
		t.Fatalf("read over the end: %d, %v", n, err)
	}
	must(file.Truncate(5003))
	if n, err := file.ReadAt(got, 5000); n != 3 || !errors.Is(err, io.EOF) {
		t.Fatalf("read of a cut file: %d, %v", n, err)
	}
	must(file.Close())
	must(f.Rename(name, path.Join(dir, "two")))
	if _, err := f.Open(name, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("old name: %v", err)
	}
	list, err := f.List(dir)
	must(err)
	if !slices.Equal(list, []string{"two"}) {
		t.Fatalf("list %v", list)
	}
	if info, err := f.Stat(dir); err != nil || !info.Dir {
		t.Fatalf("stat of a directory: %+v, %v", info, err)
	}
	if info, err := f.Stat(path.Join(dir, "two")); err != nil || info.Size != 5003 {
		t.Fatalf("stat of a file: %+v, %v", info, err)
	}
	reader, err := f.Open(path.Join(dir, "two"), ReadOnly)
	must(err)
	if _, err := reader.WriteAt(want, 0); err == nil {
		t.Fatal("a file opened for reading takes a write")
	}
	must(reader.Close())
	must(f.Remove(path.Join(dir, "two")))
	if err := f.Remove(path.Join(dir, "two")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("removed twice: %v", err)
	}
	lock, err := f.Lock(path.Join(dir, "lock"))
	must(err)
	if _, err := f.Lock(path.Join(dir, "lock")); !errors.Is(err, ErrLocked) {
		t.Fatalf("locked twice: %v", err)
	}
	must(lock.Close())
	lock, err = f.Lock(path.Join(dir, "lock"))
	must(err)
	must(lock.Close())
	space, err := f.Space(dir)
	must(err)
	if space.Total <= 0 || space.Free < 0 || space.Free > space.Total {
		t.Fatalf("space %+v", space)
	}
}

func Test_every_file_system_does_what_the_journal_needs(t *testing.T) {
	t.Run("os", func(t *testing.T) { conformance(t, OS(), t.TempDir()) })
	t.Run("mem", func(t *testing.T) { conformance(t, NewMem(), "data") })
	t.Run("recorded", func(t *testing.T) { conformance(t, Record(NewMem()), "data") })
	t.Run("faulty", func(t *testing.T) { conformance(t, NewFaulty(NewMem(), nil, nil), "data") })
}

func create(t *testing.T, m FS, name string, flags Flag) File {
	t.Helper()
	f, err := m.Create(name, flags)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func pages(fill byte, n int) []byte { return bytes.Repeat([]byte{fill}, n*memBlock) }

func write(t *testing.T, f File, b []byte) {
	t.Helper()
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
}

func Test_synced_bytes_under_a_synced_name_survive_a_power_cut(t *testing.T) {
	for seed := range uint64(50) {
		m := NewMem()
		f := create(t, m, "file", 0)
		write(t, f, pages('a', 4))
		if err := errors.Join(f.Sync(), m.SyncDir(".")); err != nil {
			t.Fatal(err)
		}
		write(t, f, pages('b', 2)) // not synced
		got := m.Crash(rand.New(rand.NewPCG(seed, 1))).Dump("file")
		if len(got) != 4*memBlock || !bytes.Equal(got[2*memBlock:], pages('a', 2)) {
			t.Fatalf("seed %d: synced bytes are gone", seed)
		}
	}
}

func Test_a_power_cut_keeps_loses_and_tears_what_is_not_synced(t *testing.T) {
	var kept, lost, torn, nameless, named int
	for seed := range uint64(200) {
		m := NewMem()
		f := create(t, m, "file", 0)
		write(t, f, pages('a', 1))
		if err := errors.Join(f.Sync(), m.SyncDir(".")); err != nil {
			t.Fatal(err)
		}
		write(t, f, pages('b', 1))
		create(t, m, "other", 0)
		after := m.Crash(rand.New(rand.NewPCG(seed, 2)))
		switch b := after.Dump("file"); {
		case bytes.Equal(b, pages('a', 1)):
			lost++
		case bytes.Equal(b, pages('b', 1)):
			kept++
		default:
			torn++
		}
		if after.Dump("other") == nil {
			nameless++
		} else {
			named++
		}
	}
	if min(kept, lost, torn, nameless, named) < 10 {
		t.Fatalf("kept %d, lost %d, torn %d, names lost %d, kept %d", kept, lost, torn, nameless,
			named)
	}
}

func Test_a_rename_is_whole_or_not_at_all(t *testing.T) {
	moved := 0
	for seed := range uint64(100) {
		m := NewMem()
		write(t, create(t, m, "old", 0), []byte("x"))
		if err := m.SyncDir("."); err != nil {
			t.Fatal(err)
		}
		if err := m.Rename("old", "new"); err != nil {
			t.Fatal(err)
		}
		names := m.Crash(rand.New(rand.NewPCG(seed, 3))).Names("")
		if len(names) != 1 {
			t.Fatalf("seed %d: %v", seed, names)
		}
		if names[0] == "new" {
			moved++
		}
	}
	if moved < 20 || moved > 80 {
		t.Fatalf("%d of 100 renames survived", moved)
	}
}

func Test_the_page_cache_survives_a_kill_and_not_a_later_power_cut(t *testing.T) {
	lost := 0
	for seed := range uint64(50) {
		m := NewMem()
		f := create(t, m, "file", 0)
		if err := errors.Join(f.Preallocate(memBlock), f.Sync(), m.SyncDir(".")); err != nil {
			t.Fatal(err)
		}
		write(t, f, pages('a', 1))
		next := m.Kill(nil)
		if !bytes.Equal(next.Dump("file"), pages('a', 1)) {
			t.Fatal("the page cache is gone")
		}
		if _, err := f.WriteAt(pages('b', 1), 0); !errors.Is(err, ErrHalted) {
			t.Fatalf("a dead process writes: %v", err)
		}
		if !bytes.Equal(next.Crash(rand.New(rand.NewPCG(seed, 4))).Dump("file"), pages('a', 1)) {
			lost++
		}
	}
	if lost == 0 {
		t.Fatal("a kill made bytes durable")
	}
}

func Test_a_sync_after_a_failed_one_succeeds_and_proves_nothing(t *testing.T) {
	lost, evicted := 0, 0
	for seed := range uint64(50) {
		m := NewMem()
		m.Seed(seed)
		faulty := NewFaulty(m, nil, nil)
		f := create(t, faulty, "x.seg", 0)
		if err := errors.Join(f.Preallocate(memBlock), f.Sync(), m.SyncDir(".")); err != nil {
			t.Fatal(err)
		}
		write(t, f, pages('a', 1))
		if err := faulty.Set("journal.sync", Fault{Err: syscall.EIO, Times: 1}); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); !errors.Is(err, syscall.EIO) {
			t.Fatalf("sync: %v", err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(m.Dump("x.seg"), pages('a', 1)) {
			t.Fatal("the page cache lost the bytes before it had to")
		}
		rng := rand.New(rand.NewPCG(seed, 5))
		next := m.Kill(rng)
		if !bytes.Equal(next.Dump("x.seg"), pages('a', 1)) {
			evicted++
		}
		if !bytes.Equal(next.Crash(rng).Dump("x.seg"), pages('a', 1)) {
			lost++
		}
	}
	if lost < 10 || evicted < 3 {
		t.Fatalf("of 50: lost %d, evicted %d", lost, evicted)
	}
}

func Test_a_direct_write_is_durable_when_it_returns_and_may_tear_when_halted(t *testing.T) {
	for seed := range uint64(20) {
		m := NewMem()
		f := create(t, m, "file", Direct)
		if err := errors.Join(f.Preallocate(2*memBlock), f.Sync(), m.SyncDir(".")); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("odd"), 0); !errors.Is(err, syscall.EINVAL) {
			t.Fatalf("a write that is not aligned: %v", err)
		}
		write(t, f, pages('a', 2))
		m.HaltAt(m.Steps() + 2)
		if _, err := f.WriteAt(pages('b', 1), 0); !errors.Is(err, ErrHalted) || !m.Halted() {
			t.Fatalf("halted write: %v", err)
		}
		got := m.Crash(rand.New(rand.NewPCG(seed, 6))).Dump("file")
		if !bytes.Equal(got[memBlock:], pages('a', 1)) {
			t.Fatal("a durable block is gone")
		}
	}
}

func Test_capacity_is_kept_by_writes_and_preallocation(t *testing.T) {
	m := NewMem()
	m.SetCapacity(4 * memBlock)
	f := create(t, m, "file", 0)
	if err := f.Preallocate(3 * memBlock); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(pages('a', 3), 0); err != nil {
		t.Fatalf("write into preallocated space: %v", err)
	}
	other := create(t, m, "other", 0)
	if err := other.Preallocate(2 * memBlock); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("preallocate: %v", err)
	}
	if _, err := other.WriteAt(pages('a', 2), 0); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("write: %v", err)
	}
	if space, err := m.Space("."); err != nil || space.Free != memBlock {
		t.Fatalf("space %+v, %v", space, err)
	}
	if err := m.Remove("file"); err != nil {
		t.Fatal(err)
	}
	if err := other.Preallocate(4 * memBlock); err != nil {
		t.Fatalf("after removal: %v", err)
	}
}

func Test_a_lock_ends_with_its_process(t *testing.T) {
	m := NewMem()
	if _, err := m.Lock("lock"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Kill(nil).Lock("lock"); err != nil {
		t.Fatalf("after a kill: %v", err)
	}
}

func Test_faults_of_one_point_hold_together_and_are_counted(t *testing.T) {
	faulty := NewFaulty(NewMem(), nil, nil)
	file := create(t, faulty, "1.seg", 0)
	write := func(want error) {
		t.Helper()
		if _, err := file.WriteAt([]byte("x"), 0); !errors.Is(err, want) {
			t.Errorf("write: %v, want %v", err, want)
		}
	}
	set := func(name string, f Fault) {
		t.Helper()
		if err := faulty.Set(name, f); err != nil {
			t.Fatal(err)
		}
	}
	set("journal.write error", Fault{Err: syscall.EIO})
	set("journal.write delay", Fault{Delay: time.Nanosecond})
	set("journal.sync error", Fault{Err: syscall.EROFS})
	write(syscall.EIO)
	faulty.Clear("journal.write error")
	write(nil)
	if err := file.Sync(); !errors.Is(err, syscall.EROFS) {
		t.Errorf("sync: %v", err)
	}
	for name, want := range map[string]uint64{
		"journal.write delay": 2, "journal.sync error": 1, "journal.write error": 0,
	} {
		if got := faulty.Met(name); got != want {
			t.Errorf("%s met %d, want %d", name, got, want)
		}
	}
}

func Test_the_end_of_a_delay_ends_the_calls_in_it(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := NewFaulty(NewMem(), nil, nil)
		file := create(t, faulty, "1.seg", 0)
		done := make(chan error, 1)
		began := time.Now()
		write := func() {
			_, err := file.WriteAt([]byte("x"), 0)
			done <- err
		}
		for _, end := range []func() error{
			func() error { faulty.Clear("journal.write"); return nil },
			func() error { return faulty.Set("journal.write", Fault{Delay: time.Second}) },
		} {
			if err := faulty.Set("journal.write", Fault{Delay: time.Hour}); err != nil {
				t.Fatal(err)
			}
			go write()
			synctest.Wait()
			if err := errors.Join(end(), <-done); err != nil || time.Since(began) != 0 {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		}
		go write() // meets the second one to its end
		if err := <-done; err != nil || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func Test_faults_meet_the_calls_they_name(t *testing.T) {
	now := time.Unix(100, 0)
	var slept time.Duration
	faulty := NewFaulty(NewMem(), func() time.Time { return now },
		func(d time.Duration) { slept += d })
	seg, other := create(t, faulty, "1.seg", 0), create(t, faulty, "other", 0)
	set := func(name string, f Fault) {
		t.Helper()
		if err := faulty.Set(name, f); err != nil {
			t.Fatal(err)
		}
	}
	set("journal.write", Fault{Err: syscall.ENOSPC, After: 1, Times: 1})
	for i, want := range []error{nil, syscall.ENOSPC, nil} {
		if _, err := seg.WriteAt([]byte("x"), 0); !errors.Is(err, want) {
			t.Errorf("write %d: %v, want %v", i, err, want)
		}
	}
	set("journal.sync", Fault{Delay: 50 * time.Millisecond, Until: now.Add(20 * time.Second)})
	if err := errors.Join(seg.Sync(), other.Sync()); err != nil || slept != 50*time.Millisecond {
		t.Errorf("slow sync: %v, slept %v", err, slept)
	}
	now = now.Add(20 * time.Second)
	if err := seg.Sync(); err != nil || slept != 50*time.Millisecond {
		t.Errorf("the fault outlives its end: %v, slept %v", err, slept)
	}
	if list := faulty.Faults(); len(list) != 1 {
		t.Errorf("armed: %v", list)
	}
	faulty.Clear("")
	set("files", Fault{Op: OpCreate | OpOpen, Err: syscall.EMFILE})
	if _, err := faulty.Create("2.seg", 0); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("create: %v", err)
	}
	if _, err := faulty.Open("other", 0); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("open: %v", err)
	}
	faulty.Clear("files")
	if _, err := faulty.Open("other", 0); err != nil {
		t.Errorf("open after clear: %v", err)
	}
	if err := faulty.Set("no such point", Fault{Err: syscall.EIO}); err == nil {
		t.Error("a fault without calls is taken")
	}
}
