package keyring

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Undumpable keeps the memory of this process from core dumps and from other processes of its user:
// it is neither dumped nor traced any more (prctl(2), PR_SET_DUMPABLE). A limit on the size of core
// files alone would not do: it does not bind a program that the kernel pipes them to (core(5)). A
// program executed in its place begins dumpable again.
func Undumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keep secrets out of core dumps: %w", err)
	}
	return nil
}
