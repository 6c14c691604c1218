package keyring

import (
	"fmt"
	"os"
)

// KeepFromDumps leaves all memory of this process, and of those that it starts, out of core dumps
// (core(5), coredump_filter): what is left of one says where it crashed. A limit on the size of
// core files would not do, since it does not bind a program that the kernel pipes them to; and one
// that is not dumpable at all could not be looked at through /proc by its own data plane.
func KeepFromDumps() error {
	if err := os.WriteFile("/proc/self/coredump_filter", []byte("0"), 0); err != nil {
		return fmt.Errorf("keep secrets out of core dumps: %w", err)
	}
	return nil
}
