package doctor

import "strings"

// landlockNetwork is the version of Landlock that keeps a process from TCP (Linux 6.7).
const landlockNetwork = 4

// lacking is what it means that a layer of the sandbox is not to be had.
func (o Options) lacking() (Level, string) {
	if o.Sandbox == "require" {
		return Fail, "the data plane does not start with sandbox: require"
	}
	return Warn, "the data plane goes on without"
}

// rights says whom the data plane will be.
func rights(h Host, o Options) Finding {
	const name = "user"
	switch {
	case h.User() != 0:
		return good(name, "the data plane runs as the user of this process")
	case o.Sandbox == "off":
		return bad(Warn, name, "write sandbox: auto, or start sluice as another user",
			"the data plane, which strangers talk to, stays root: sandbox is off")
	case !h.can(capSetUID) || !h.can(capSetGID):
		level, then := o.lacking()
		return bad(level, name, "give it CAP_SETUID and CAP_SETGID, or start it as another user",
			"root without the right to become %s: %s", o.User, then)
	}
	return good(name, "the data plane becomes %s", o.User)
}

// layers says which parts of the sandbox the kernel gives. Those that every kernel has are not
// named.
func layers(h Host, o Options) Finding {
	const name = "sandbox"
	if o.Sandbox == "off" {
		return bad(Warn, name, "write sandbox: auto",
			"off: whoever breaks into the data plane may do all that its user may")
	}
	version := h.Landlock()
	actions, _ := h.read("proc/sys/kernel/seccomp/actions_avail")
	var missing []string
	if version == 0 {
		missing = append(missing, "Landlock (Linux 5.13, in the list of lsm=)")
	}
	if !strings.Contains(" "+actions+" ", " errno ") {
		missing = append(missing, "seccomp filters (CONFIG_SECCOMP_FILTER)")
	}
	switch level, then := o.lacking(); {
	case len(missing) > 0:
		return bad(level, name, "run a kernel that has it, or write sandbox: auto and live with less",
			"the kernel lacks %s: %s", strings.Join(missing, " and "), then)
	case version < landlockNetwork:
		return good(name, "seccomp, and Landlock without rules for TCP (Linux 6.7)")
	}
	return good(name, "seccomp, and Landlock for files and TCP")
}
