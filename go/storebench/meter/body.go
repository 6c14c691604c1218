package meter

import (
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
)

// Body is JSON of exactly so many bytes, as a sender could have sent it: of random text, so that
// nothing that compresses has an advantage. The same seed gives the same one.
func Body(size int, seed uint64) []byte {
	const head, tail = `{"data":"`, `"}`
	text := base64.RawStdEncoding.EncodeToString(Noise(size, seed))
	return []byte((head + text)[:max(size-len(tail), 0)] + tail)[:size]
}

// Noise is so many random bytes, the same for the same seed.
func Noise(size int, seed uint64) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	b := make([]byte, size)
	_, _ = rand.NewChaCha8(key).Read(b) // it never fails
	return b
}
