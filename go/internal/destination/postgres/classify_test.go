package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"sluice/go/internal/destination"
	"sluice/go/internal/retry"
)

func TestErrorsAreClassified(t *testing.T) {
	const (
		again     = destination.Retry
		permanent = destination.Permanent
	)
	for _, c := range []struct {
		code  string
		kind  retry.Verdict
		cause retry.Cause
		row   bool
	}{
		{"08006", again, retry.Unknown, false},
		{"09000", again, retry.Unknown, true},
		{"22001", permanent, retry.Unknown, true},
		{"22P02", permanent, retry.Unknown, true},
		{"23503", permanent, retry.Unknown, true},
		{"23505", permanent, retry.Unknown, true},
		{"23514", permanent, retry.Unknown, true},
		{"25006", again, retry.Unknown, false},
		{"28P01", again, retry.Unknown, false},
		{"3D000", again, retry.Unknown, false},
		{"40001", again, retry.Unknown, false},
		{"40P01", again, retry.Unknown, false},
		{"42501", again, retry.Unknown, false},
		{"42703", again, retry.Unknown, false},
		{"42804", again, retry.Unknown, false},
		{"42P01", again, retry.Unknown, false},
		{"44000", permanent, retry.Unknown, true},
		{"53100", again, retry.Unknown, false},
		{"53300", again, retry.Pool, false},
		{"54000", permanent, retry.Unknown, true},
		{"55000", again, retry.Unknown, false},
		{"55P03", again, retry.Lock, false},
		{"57014", again, retry.Timeout, false},
		{"57P01", again, retry.Unknown, false},
		{"57P03", again, retry.Unknown, false},
		{"58030", again, retry.Unknown, false},
		{"P0001", again, retry.Unknown, true},
		{"XX000", again, retry.Unknown, false},
		{"", again, retry.Unknown, false},
	} {
		err := fmt.Errorf("exec: %w", &pgconn.PgError{
			Code: c.code, Message: "says", Detail: "Failing row contains (hunter2)", Hint: "hunter2",
			Where: "hunter2", InternalQuery: "hunter2",
		})
		r := Classify(err)
		if r.Kind != c.kind || r.Cause() != c.cause || ofOneRow(err) != c.row {
			t.Errorf("%s: got %v, %v, %v", c.code, r.Kind, r.Cause(), ofOneRow(err))
		}
		if text := r.Err.Error(); strings.Contains(text, "hunter2") || !strings.Contains(text, c.code) ||
			c.row && strings.Contains(text, "says") {
			t.Errorf("%s: %v", c.code, r.Err)
		}
	}
	for err, cause := range map[error]retry.Cause{
		io.ErrUnexpectedEOF: retry.Closed, context.Canceled: retry.Cancelled,
		context.DeadlineExceeded: retry.Timeout, errors.New("odd"): retry.Unknown,
	} {
		if r := Classify(err); r.Kind != again || r.Cause() != cause {
			t.Errorf("%v: got %v, %v", err, r.Kind, r.Cause())
		}
	}
}

func TestANullInAColumnThatIsNotOursIsTheOperators(t *testing.T) {
	for column, kind := range map[string]retry.Verdict{
		"region": destination.Retry, "body": destination.Permanent,
	} {
		r := Classify(&pgconn.PgError{Code: notNullViolation, ColumnName: column})
		if r.Kind != kind || !strings.Contains(r.Err.Error(), column) {
			t.Errorf("%s: got %v, %v", column, r.Kind, r.Err)
		}
	}
}
