package keyring

import "time"

const (
	lookInterval = 500 * time.Millisecond
	// lookAgain is for how many looks after a change a file is read whatever stat says: its times
	// have the resolution of the kernel's clock tick.
	lookAgain = 4

	// secretBytesMax bounds a file and what a command prints.
	secretBytesMax = 64 << 10
	// commandsMax run at once; the others wait for their turn.
	commandsMax = 4
	// commandAgain is when one that failed is run again, if its own interval is not shorter.
	commandAgain = 30 * time.Second
	// complaintMax bounds what is kept of what a command writes to its standard error.
	complaintMax = 4 << 10
	// reapGrace is how long output is waited for after a command has ended or was killed.
	reapGrace = time.Second

	// learnedMax bounds the secrets that one source keeps of handshakes.
	learnedMax = 64
	// learnedBytesMax bounds one of them. Asana's has 64 characters, Notion's about 50.
	learnedBytesMax = 1 << 10
	// learnedFileMax bounds a file: all of them in base64, and once more where they are sealed.
	learnedFileMax = 1 << 20
	// windowMax is the longest that a window is open.
	windowMax = 24 * time.Hour
	// windowAgain is how long an answer "closed" holds before the file is looked at again, so that a
	// flood of handshakes does not read it each time; and after one that could not be kept.
	windowAgain = 100 * time.Millisecond
	// lockPatience is how long intake waits for a command line that writes the same file.
	lockPatience = 200 * time.Millisecond
	lockPause    = 2 * time.Millisecond
	// unaskedAgain is the least time between two lines in the log on handshakes nobody asked for.
	unaskedAgain = time.Minute
	// unaskedShown is how long such a handshake is shown as a problem.
	unaskedShown = 15 * time.Minute

	// expiresSoon is when a secret that nothing replaces is worth a problem.
	expiresSoon = 7 * 24 * time.Hour
)

// A full file of the longest secrets fits, sealed: base64 twice is 16/9, and 1024 bytes are more
// than one takes beside its value.
const _ = uint(learnedFileMax - learnedMax*(learnedBytesMax+1024)*16/9)
