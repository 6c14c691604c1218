package index

import (
	"errors"
	"fmt"
	"syscall"
)

// ErrRefused says that the operating system refused the engine something. That tells nothing about
// what is in the files: they stay as they are.
var ErrRefused = errors.New("the operating system refuses")

// mends are errors of the operating system that say nothing about what is in the files, and what an
// operator can do.
var mends = map[syscall.Errno]string{
	syscall.EACCES:    "let the user of sluice read and write it",
	syscall.EDQUOT:    "raise the quota of the user of sluice",
	syscall.EFBIG:     "raise the limit of the size of files (LimitFSIZE)",
	syscall.EIO:       lookAfter,
	syscall.EMFILE:    "raise the limit of open files (LimitNOFILE)",
	syscall.ENFILE:    "raise the limit of open files of the machine (fs.file-max)",
	syscall.ENODEV:    lookAfter,
	syscall.ENOMEM:    "give the machine more memory",
	syscall.ENOSPC:    "make room on the disk",
	syscall.ENXIO:     lookAfter,
	syscall.EPERM:     "let the user of sluice read and write it",
	syscall.EROFS:     "mount its disk for writing",
	syscall.ESTALE:    "mount its disk again",
	syscall.ETIMEDOUT: lookAfter,
	syscall.EUCLEAN:   "have its file system checked (fsck)",
}

const lookAfter = "look after the disk (the kernel's log says more)"

// Mend is what an operator can do about an error of the operating system; "": it is none, or one
// that he can do nothing about.
func Mend(err error) string {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return ""
	}
	return mends[errno]
}

// noRoom tells that there was no space, for whatever reason.
func noRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// readFault tells damage from what the operating system refused: a good index behind a disk that
// fails for a while is not thrown away.
func readFault(what string, err error) error {
	if mend := Mend(err); mend != "" {
		return fmt.Errorf("%s: %w: %w; %s", what, ErrRefused, err, mend)
	}
	return fmt.Errorf("%w: %s: %w", ErrDamaged, what, err)
}

// openFault is what came of opening an index. refused is what the operating system said to a read
// of the engine meanwhile, nil for nothing: the engine may not have passed it on, and have taken
// what it read for all there is.
func openFault(dir string, err error, refused *error) error {
	if refused != nil && Mend(err) == "" {
		err = errors.Join(err, *refused)
	}
	if err == nil || errors.Is(err, ErrFull) {
		return err
	}
	err = readFault("open index "+dir, err)
	if errors.Is(err, ErrRefused) {
		return fmt.Errorf("%w, and start again; if the disk never gives it back, remove %s: it is "+
			"built again from the journal, which has all that is in it", err, dir)
	}
	return err
}
