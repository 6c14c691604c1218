package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What a limit on the size of files does to a data plane that makes a lane is an error, not an end.
func TestADataPlaneIgnoresTheSignalOfAFileTooLarge(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	plane, told := filepath.Join(s.shm, "plane"), filepath.Join(s.shm, "signals")
	must(t, os.Rename(s.binary, plane))
	s.install(s.binary, fmt.Sprintf("grep SigIgn /proc/self/status > '%s'\nexec '%s' \"$@\"", told,
		plane))
	s.start().stop()
	text, err := os.ReadFile(told)
	must(t, err)
	ignored, err := strconv.ParseUint(strings.Fields(string(text))[1], 16, 64)
	must(t, err)
	if ignored>>(unix.SIGXFSZ-1)&1 == 0 {
		t.Errorf("it ignores %#x, SIGXFSZ is not among that", ignored)
	}
}
