package main

import "time"

const (
	// primitiveMost is what a proof of an HMAC family may cost, in bare primitives over the same
	// signed text, at gateBytes.
	primitiveMost = 1.3
	gateBytes     = 1024
	// libraryMost is what a proof may cost in verdicts of the library, at any size. Where one
	// elliptic curve operation is nearly all of both, two runs of the same differ by this much.
	libraryMost = 1.1
	// roundsMax and windowMax keep a contest far shorter than the five minutes for which the
	// libraries take its timestamp.
	roundsMax = 100
	windowMax = 200 * time.Millisecond
	// callsMax bounds the calls of a window, should a clock stand still.
	callsMax = 1 << 30
)

// Four judges take rounds of windows in turn, after up to three windows each to be timed.
const _ = uint((2 * time.Minute) - 4*(roundsMax+3)*windowMax)
