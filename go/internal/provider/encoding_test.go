package provider

import (
	"bytes"
	"encoding/hex"
	"testing"
)

func TestHexIsReadLikeTheLibraryReadsIt(t *testing.T) {
	var dst, want [2]byte
	for a := range 256 {
		for b := range 256 {
			text := []byte{byte(a), byte(b), '0', 'f'}
			n, seen := decodeHex(dst[:], text)
			_, err := hex.Decode(want[:], text)
			upper := !bytes.Equal(bytes.ToLower(text), text)
			switch {
			case (seen&hexNone != 0) != (err != nil):
				t.Fatalf("%q: %x, %v", text, seen, err)
			case err == nil && (n != 2 || dst != want || (seen&hexUpper != 0) != upper):
				t.Fatalf("%q: %x, want %x; upper: %x", text, dst, want, seen)
			}
		}
	}
	if _, seen := decodeHex(dst[:], []byte("012")); seen&hexNone == 0 {
		t.Error("half a byte is taken")
	}
}
