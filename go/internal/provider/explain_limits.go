package provider

// Bounds of an explanation. It runs by hand and beside no traffic, but on whatever somebody sent.
const (
	// explainTriesMax is how many changed requests are judged in search of a mistake.
	explainTriesMax = 20_000
	// explainBytesMax is how many bytes these may hash together, and explainProofBytes what one
	// asymmetric proof counts for, about as long as it takes.
	explainBytesMax   = 128 << 20
	explainProofBytes = 64 << 10
	// explainPairMax is the longest body for which two mistakes at once are looked for.
	explainPairMax = 1 << 20
	// explainBodyMax is the longest body that is unpacked or written anew.
	explainBodyMax = 4 << 20
	// formFieldsMax is how many fields of a form are taken for what was signed.
	formFieldsMax = 16
	// explainShown is how many signatures of one field are listed.
	explainShown = 32
)
