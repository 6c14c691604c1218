package listen

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The variables of sd_listen_fds(3), and ours, by which a program that replaces another one under
// the same pid learns which names the sockets have that a data plane hands it.
const (
	envPid     = "LISTEN_PID"
	envPidID   = "LISTEN_PIDFDID" // systemd 258
	envCount   = "LISTEN_FDS"
	envNames   = "LISTEN_FDNAMES"
	envHanded  = "SLUICE_LISTENERS"
	firstFd    = 3         // SD_LISTEN_FDS_START
	nameAbsent = "unknown" // what sd_listen_fds_with_names(3) calls a socket without a name
)

// Inherited are the sockets that systemd made, by the names that their units give them. They are
// held for the life of the process, so that a config can take them up later as well. A nil one is
// empty.
type Inherited struct {
	files map[string][]*os.File
	known map[string][]Addr // of files, and of those that a data plane holds
}

// Inherit takes the sockets that were passed to this process. It is called once, before anything is
// started: the variables are taken out of the environment, and the descriptors close on exec.
func Inherit() (*Inherited, error) {
	environment := map[string]string{}
	for _, name := range []string{envPid, envPidID, envCount, envNames, envHanded} {
		environment[name] = os.Getenv(name)
		if err := os.Unsetenv(name); err != nil {
			return nil, err
		}
	}
	return inherit(environment, firstFd)
}

func inherit(environment map[string]string, first int) (*Inherited, error) {
	i := &Inherited{files: map[string][]*os.File{}, known: map[string][]Addr{}}
	if text := environment[envHanded]; text != "" {
		if err := json.Unmarshal([]byte(text), &i.known); err != nil {
			return nil, fmt.Errorf("%s in the environment: %w", envHanded, err)
		}
	}
	// What is meant for another process, a parent's leftovers, is none of ours.
	if environment[envPid] != strconv.Itoa(os.Getpid()) {
		return i, nil
	}
	count, err := strconv.Atoi(environment[envCount])
	if err != nil || count < 0 || count > inheritedMax {
		return nil, fmt.Errorf("%s is %q: want a number up to %d", envCount, environment[envCount],
			inheritedMax)
	}
	names := strings.Split(environment[envNames], ":")
	if environment[envNames] == "" {
		names = slices.Repeat([]string{nameAbsent}, count)
	}
	if len(names) != count {
		return nil, fmt.Errorf("%s has %d names for %d sockets", envNames, len(names), count)
	}
	for n, name := range names {
		if err := i.add(name, first+n); err != nil {
			return nil, err
		}
	}
	return i, nil
}

func (i *Inherited) add(name string, fd int) error {
	unix.CloseOnExec(fd)
	file := os.NewFile(uintptr(fd), "listener systemd:"+name)
	if file == nil {
		return fmt.Errorf("socket %s of systemd: %d is no descriptor", name, fd)
	}
	i.files[name] = append(i.files[name], file)
	// One that is no socket has no address. It is an error when a config asks for it.
	if at, err := Address(file); err == nil && !slices.Contains(i.known[name], at) {
		i.known[name] = append(i.known[name], at)
	}
	return nil
}

// Names are those of all sockets, sorted.
func (i *Inherited) Names() []string {
	if i == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(i.files))
}

// Environ is what a program that replaces this one needs in its environment to know the sockets
// again, which it gets from the data plane.
func (i *Inherited) Environ() []string {
	if i == nil || len(i.known) == 0 {
		return nil
	}
	text, err := json.Marshal(i.known)
	if err != nil {
		return nil // a map of texts always encodes
	}
	return []string{envHanded + "=" + string(text)}
}

func (i *Inherited) addresses(name string) []Addr {
	if i == nil {
		return nil
	}
	return i.known[name]
}

// take duplicates the sockets of a name but for those that are there already.
func (i *Inherited) take(name string, have []*os.File) ([]*os.File, error) {
	if i == nil {
		return nil, nil
	}
	files, err := distinct(slices.Concat(have, i.files[name]))
	if err != nil {
		return nil, err
	}
	var taken []*os.File
	for _, f := range files[len(have):] {
		if err := checkListener(f); err != nil {
			return taken, err
		}
		copied, err := duplicate(f)
		if err != nil {
			return taken, err
		}
		taken = append(taken, copied)
	}
	return taken, nil
}

// lacks says that a name is not among the sockets, and which are.
func (i *Inherited) lacks(name string) error {
	names := i.Names()
	if len(names) == 0 {
		return fmt.Errorf("systemd passed no socket to this process: enable the .socket unit with "+
			"FileDescriptorName=%s, and start its service by systemd", name)
	}
	return fmt.Errorf("systemd passed no socket of this name: write FileDescriptorName=%s in its "+
		"unit, or name one of %s", name, strings.Join(names, ", "))
}
