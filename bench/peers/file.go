package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// preallocated spares both file stores the metadata commit of a growing file, as a careful
// author would.
const preallocated = 256 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// record is length, CRC32C, delivery, body: the least that can be found again.
func record(to []byte, delivery string, body []byte) []byte {
	to = binary.LittleEndian.AppendUint32(to, uint32(len(delivery)+len(body)))
	to = binary.LittleEndian.AppendUint32(to, crc32.Checksum(body, castagnoli))
	to = append(to, delivery...)
	return append(to, body...)
}

func create(path string) (*os.File, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	zeros := make([]byte, 1<<20)
	for at := int64(0); at < preallocated; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros, at); err != nil {
			return nil, fmt.Errorf("preallocate %s: %w", path, err)
		}
	}
	return f, f.Sync()
}

// place hands out room, from the start again once the file is full: the disk's work is
// measured, not its size.
func place(end *atomic.Int64, n int) int64 {
	for {
		at := end.Add(int64(n)) - int64(n)
		if at+int64(n) <= preallocated {
			return at
		}
		end.CompareAndSwap(at+int64(n), 0)
	}
}

// synced writes and syncs once for each request.
type synced struct {
	file *os.File
	end  atomic.Int64
}

func openSynced(path string) (store, error) {
	f, err := create(path)
	if err != nil {
		return nil, err
	}
	return &synced{file: f}, nil
}

func (s *synced) keep(_ context.Context, delivery string, body []byte) error {
	bytes := record(nil, delivery, body)
	if _, err := s.file.WriteAt(bytes, place(&s.end, len(bytes))); err != nil {
		return err
	}
	return syscall.Fdatasync(int(s.file.Fd()))
}

func (s *synced) close() { _ = s.file.Close() }

// grouped syncs once for all requests that came while the last sync ran.
type grouped struct {
	file *os.File
	end  atomic.Int64
	wake chan struct{}
	done chan struct{}

	mu    sync.Mutex
	group *group
}

type group struct {
	bytes []byte
	err   error
	ended chan struct{}
}

func openGrouped(path string) (store, error) {
	f, err := create(path)
	if err != nil {
		return nil, err
	}
	g := &grouped{file: f, wake: make(chan struct{}, 1), done: make(chan struct{})}
	g.group = &group{ended: make(chan struct{})}
	go g.commit()
	return g, nil
}

func (g *grouped) keep(_ context.Context, delivery string, body []byte) error {
	g.mu.Lock()
	mine := g.group
	mine.bytes = record(mine.bytes, delivery, body)
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
	<-mine.ended
	return mine.err
}

func (g *grouped) commit() {
	var spare []byte
	for {
		select {
		case <-g.done:
			return
		case <-g.wake:
		}
		g.mu.Lock()
		full := g.group
		g.group = &group{bytes: spare[:0], ended: make(chan struct{})}
		g.mu.Unlock()
		if len(full.bytes) > 0 {
			_, full.err = g.file.WriteAt(full.bytes, place(&g.end, len(full.bytes)))
			if full.err == nil {
				full.err = syscall.Fdatasync(int(g.file.Fd()))
			}
		}
		spare = full.bytes
		close(full.ended)
	}
}

func (g *grouped) close() {
	close(g.done)
	_ = g.file.Close()
}
