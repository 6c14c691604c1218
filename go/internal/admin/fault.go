package admin

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"sluice/go/internal/store"
	"sluice/shm-abi/shmabi"
)

// ErrNotNow is wrapped by errors of a command that the daemon's state forbids.
var ErrNotNow = errors.New("not now")

// fault gives an error of another part the code that says whose it is.
func fault(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := codes.Internal
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	case errors.Is(err, store.ErrNotFound):
		code = codes.NotFound
	case errors.Is(err, store.ErrImport):
		code = codes.InvalidArgument
	case errors.Is(err, ErrNotNow), errors.Is(err, store.ErrFull):
		code = codes.FailedPrecondition
	case errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrNotSettled),
		errors.Is(err, store.ErrUnwritable):
		code = codes.Unavailable
	case errors.Is(err, shmabi.ErrFrame):
		code = codes.DataLoss
	}
	return status.Error(code, err.Error())
}

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}
