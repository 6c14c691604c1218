package event

// DoubtMax bounds the reasons why an event may be taken without a proof. They are numbers of
// whoever judges requests and are written into the journal; 0: its source proves nothing.
const DoubtMax = 15

// doubtShift is where the reason stands among the flags of a C line: in their upper half, of which
// the data plane knows nothing.
const doubtShift = 4

// DoubtFlags gives the flags that keep a reason.
func DoubtFlags(reason uint8) uint8 { return min(reason, DoubtMax) << doubtShift }

// DoubtOf reads the reason from the flags of an event that was taken without a proof.
func DoubtOf(flags uint8) (reason uint8) { return flags >> doubtShift }
