package split

import "math"

const (
	// DeriveMax and DeriveBytesMax bound what is made durable at once.
	DeriveMax      = 256
	DeriveBytesMax = 4 << 20

	// Whole is the number of an item that is the whole body. A list has fewer items.
	Whole = math.MaxUint32
)
