package shmabi

import (
	"encoding/binary"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

// readImage reads a golden image: `offset hex` lines, everything else zero. It starts on 64.
func readImage(t *testing.T, name string, size int) []byte {
	t.Helper()
	text, err := os.ReadFile("../testdata/image/" + name + ".hex")
	if err != nil {
		t.Fatal(err)
	}
	room := make([]byte, size+64)
	skip := int(-uintptr(unsafe.Pointer(&room[0])) & 63)
	b := room[skip : skip+size]
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		at, digits, ok := strings.Cut(line, " ")
		offset, err := strconv.Atoi(at)
		if !ok || err != nil {
			t.Fatalf("%s: line %q", name, line)
		}
		row, err := hex.DecodeString(digits)
		if err != nil {
			t.Fatal(err)
		}
		copy(b[offset:], row)
	}
	return b
}

func wantWord(t *testing.T, name string, got uint64, size, field int) {
	t.Helper()
	var b [8]byte
	for n := range size {
		b[n] = byte((field + n) % 251)
	}
	if want := binary.LittleEndian.Uint64(b[:]); got != want {
		t.Errorf("%s = %#x, want %#x", name, got, want)
	}
}

func wantBytes[A [16]byte | [24]byte | [96]byte](t *testing.T, name string, got A, field int) {
	t.Helper()
	for n := range len(got) {
		if want := byte((field + n) % 251); got[n] != want {
			t.Errorf("%s[%d] = %#x, want %#x", name, n, got[n], want)
		}
	}
}
