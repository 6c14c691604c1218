package doctor

// dumps tells what a crash would write of secrets to the disk.
func dumps(h Host) Finding {
	const name = "core dumps"
	// The file is there in kernels that write any (CONFIG_ELF_CORE).
	if _, any := h.read("proc/self/coredump_filter"); !any {
		return good(name, "this kernel writes none")
	}
	return good(name, "memory is left out of them, but for run --dev")
}
