package keyring

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAProcessWithSecretsIsNotDumped(t *testing.T) {
	const variable = "KEYRING_TEST_UNDUMPABLE"
	if os.Getenv(variable) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), variable+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	if err := Undumpable(); err != nil {
		t.Fatal(err)
	}
	if may, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || may != 0 {
		t.Errorf("it may be dumped: %d, %v", may, err)
	}
}
