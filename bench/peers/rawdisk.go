package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// diskRow is what the bare disk does at one size of write.
type diskRow struct {
	Bytes   int     `json:"bytes"`
	Writes  int     `json:"writes"`
	PerS    float64 `json:"per_s"`
	MBPerS  float64 `json:"mb_per_s"`
	P50Us   int64   `json:"p50_us"`
	P99Us   int64   `json:"p99_us"`
	MaxUs   int64   `json:"max_us"`
	Flagged string  `json:"flags"`
}

// rawdisk writes one block after the other into a preallocated file, each on disk before the
// next: the floor under every durable acknowledgement.
func rawdisk(out io.Writer, o options) error {
	f, err := create(o.file)
	if err != nil {
		return err
	}
	_ = f.Close()
	defer os.Remove(o.file)
	fd, flags, err := openDirect(o.file)
	if err != nil {
		return fmt.Errorf("open %s: %w", o.file, err)
	}
	defer syscall.Close(fd)
	for text := range strings.SplitSeq(o.sizes, ",") {
		size, err := strconv.Atoi(text)
		if err != nil || size < 4096 || size > preallocated/2 || size%4096 != 0 {
			return fmt.Errorf("--sizes %s: multiples of 4096 up to %d", text, preallocated/2)
		}
		row, err := writeFor(fd, size, o.length)
		if err != nil {
			return err
		}
		row.Flagged = flags
		if err := json.NewEncoder(out).Encode(row); err != nil {
			return err
		}
	}
	return nil
}

// openDirect falls back to O_DSYNC alone where the file system knows no direct I/O.
func openDirect(path string) (int, string, error) {
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_DSYNC|syscall.O_DIRECT, 0)
	if err == nil {
		return fd, "O_DIRECT|O_DSYNC", nil
	}
	fd, err = syscall.Open(path, syscall.O_WRONLY|syscall.O_DSYNC, 0)
	return fd, "O_DSYNC", err
}

func writeFor(fd, size int, length time.Duration) (diskRow, error) {
	block := aligned(size)
	for i := range block {
		block[i] = byte(i * 31)
	}
	var took []time.Duration
	at := int64(0)
	start := time.Now()
	for time.Since(start) < length {
		if at+int64(size) > preallocated {
			at = 0
		}
		from := time.Now()
		if n, err := syscall.Pwrite(fd, block, at); err != nil || n != size {
			return diskRow{}, fmt.Errorf("write %d at %d: wrote %d: %w", size, at, n, err)
		}
		took = append(took, time.Since(from))
		at += int64(size)
	}
	elapsed := time.Since(start).Seconds()
	slices.Sort(took)
	return diskRow{
		Bytes:  size,
		Writes: len(took),
		PerS:   float64(len(took)) / elapsed,
		MBPerS: float64(len(took)) * float64(size) / elapsed / 1e6,
		P50Us:  took[len(took)/2].Microseconds(),
		P99Us:  took[len(took)*99/100].Microseconds(),
		MaxUs:  took[len(took)-1].Microseconds(),
	}, nil
}

// aligned gives a block that direct I/O takes.
func aligned(size int) []byte {
	const page = 4096
	whole := make([]byte, size+page)
	skip := page - int(uintptr(unsafe.Pointer(&whole[0]))%page)
	return whole[skip : skip+size]
}
