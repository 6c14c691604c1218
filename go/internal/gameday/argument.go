package gameday

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Bounds of arguments.
const (
	DelayMax    = time.Minute
	SlotsMax    = 4096
	SlotTimeMax = time.Minute // the longest that one slot may take for one frame
)

// errnos are the errors that a disk gives in life.
var errnos = map[string]syscall.Errno{
	"EDQUOT": syscall.EDQUOT,
	"EIO":    syscall.EIO,
	"ENODEV": syscall.ENODEV,
	"ENOSPC": syscall.ENOSPC,
	"EROFS":  syscall.EROFS,
}

// Delay reads the argument of `delay`, such as 50ms.
func Delay(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > DelayMax {
		return 0, fmt.Errorf("%q is no delay; write one of up to %v, such as 50ms", text, DelayMax)
	}
	return d, nil
}

// Errno reads the argument of `error`, such as ENOSPC.
func Errno(text string) (syscall.Errno, error) {
	if e, ok := errnos[strings.ToUpper(text)]; ok {
		return e, nil
	}
	var names []string
	for name := range errnos {
		names = append(names, name)
	}
	slices.Sort(names)
	return 0, fmt.Errorf("%q is none of the errors %s", text, strings.Join(names, ", "))
}

// Slots reads the argument of `slots`: 8x4ms is eight servers of 4 ms each.
func Slots(text string) (servers int, each time.Duration, err error) {
	count, span, found := strings.Cut(text, "x")
	servers, countErr := strconv.Atoi(count)
	each, spanErr := time.ParseDuration(span)
	if !found || countErr != nil || spanErr != nil ||
		servers < 1 || servers > SlotsMax || each <= 0 || each > SlotTimeMax {
		return 0, 0, fmt.Errorf("%q are no slots; write COUNTxTIME, 1 to %d of up to %v each, "+
			"such as 8x4ms", text, SlotsMax, SlotTimeMax)
	}
	return servers, each, nil
}
