package keyring

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestTheMemoryOfAProcessAndOfItsCommandsIsNotDumped(t *testing.T) {
	const variable = "KEYRING_TEST_DUMPS"
	if os.Getenv(variable) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), variable+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	if err := KeepFromDumps(); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("cat", "/proc/self/coredump_filter").Output()
	if mask := strings.Trim(string(out), "0\n"); err != nil || mask != "" {
		t.Errorf("these are dumped: %s, %v", mask, err)
	}
}
