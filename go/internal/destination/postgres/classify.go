package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"sluice/go/internal/destination"
	"sluice/go/internal/retry"
)

// Conditions that are told apart (PostgreSQL's appendix "Error Codes").
const (
	notNullViolation   = "23502"
	unknownStatement   = "26000"
	tooManyConnections = "53300"
	lockNotAvailable   = "55P03"
	queryCanceled      = "57014"
	adminShutdown      = "57P01"
	undefinedTable     = "42P01"
	undefinedColumn    = "42703"
	datatypeMismatch   = "42804"
	noConflictTarget   = "42P10"
)

// class is what the first two characters of a condition say.
type class struct {
	name      string
	row       bool // one row of a batch may be what caused it
	permanent bool // and the same row gets it again
	told      bool // the server's message holds nothing of a row
}

var classes = map[string]class{
	"08": {name: "connection", told: true},
	"09": {name: "a trigger failed", row: true},
	"22": {name: "the row's data do not fit", row: true, permanent: true},
	"23": {name: "a constraint refuses the row", row: true, permanent: true},
	"25": {name: "transaction state", told: true},
	"28": {name: "not let in", told: true},
	"38": {name: "a trigger failed", row: true},
	"39": {name: "a trigger failed", row: true},
	"3D": {name: "no such database", told: true},
	"3F": {name: "no such schema", told: true},
	"40": {name: "rolled back", told: true},
	"42": {name: "the table is not as it should be", told: true},
	"44": {name: "a view refuses the row", row: true, permanent: true},
	"53": {name: "the server ran out of something", told: true},
	"54": {name: "the row is beyond a limit of the server", row: true, permanent: true},
	"55": {name: "not in a state to do it", told: true},
	"57": {name: "the server ended it", told: true},
	"58": {name: "system error", told: true},
	"P0": {name: "a trigger refuses the row", row: true},
}

// Classify judges what stopped a statement or a connection. Permanent is what the same row will
// meet again: data and constraints (22, 23, 44) and limits (54). All that an operator or time
// mends is tried again: locks, timeouts, deadlocks, missing tables and rights, a server that is
// full, read-only, starting or gone, and triggers that raise an exception. The error holds neither
// row nor password.
func Classify(err error) destination.Result {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return judge(answer)
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return destination.Failure(fmt.Errorf("connect: %w", connect.Unwrap()))
	}
	return destination.Failure(fmt.Errorf("insert: %w", err))
}

func judge(e *pgconn.PgError) destination.Result {
	switch e.Code {
	case lockNotAvailable:
		return destination.Failure(fmt.Errorf("%w (SQLSTATE %s)", retry.ErrLock, e.Code))
	case tooManyConnections:
		return destination.Failure(fmt.Errorf("%w: %s (SQLSTATE %s)", retry.ErrPool, e.Message, e.Code))
	case queryCanceled:
		return destination.Failure(fmt.Errorf("%s (SQLSTATE %s): %w", e.Message, e.Code,
			context.DeadlineExceeded))
	case undefinedTable, undefinedColumn, datatypeMismatch, noConflictTarget:
		return destination.Failure(fmt.Errorf("%s (SQLSTATE %s): the table needs the columns %s, "+
			"id unique", e.Message, e.Code, strings.Join(columns, ", ")))
	case notNullViolation:
		if !slices.Contains(columns, e.ColumnName) {
			return destination.Failure(fmt.Errorf("column %q of the table needs a default: "+
				"it may not be null, and is none of ours (SQLSTATE %s)", e.ColumnName, e.Code))
		}
	}
	c, known := classOf(e.Code)
	switch {
	case !known:
		c.name = "the server failed"
	case c.told:
		return destination.Failure(fmt.Errorf("%s: %s (SQLSTATE %s)", c.name, e.Message, e.Code))
	}
	text := c.name
	for _, part := range []struct{ kind, name string }{
		{"column", e.ColumnName}, {"constraint", e.ConstraintName},
	} {
		if part.name != "" {
			text += fmt.Sprintf(", %s %q", part.kind, part.name)
		}
	}
	err := fmt.Errorf("%s (SQLSTATE %s)", text, e.Code)
	if c.permanent {
		return destination.Refusal(err)
	}
	return destination.Failure(err)
}

func classOf(code string) (class, bool) {
	if len(code) < 2 {
		return class{}, false
	}
	c, known := classes[code[:2]]
	return c, known
}

// stateOf is the condition that the server gave; empty where it gave none.
func stateOf(err error) string {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		return answer.Code
	}
	return ""
}

// ofOneRow tells whether the other rows of a batch may pass without the one that caused the error.
func ofOneRow(err error) bool {
	c, _ := classOf(stateOf(err))
	return c.row
}

func missingTable(err error) bool { return stateOf(err) == undefinedTable }

// broken tells whether a statement failed with its connection, and not because we ended it; or with
// what the server forgot of the connection, as one behind a pooler does.
func broken(err error) bool {
	switch state := stateOf(err); {
	case err == nil:
		return false
	case state != "":
		return state == adminShutdown || state == unknownStatement
	}
	return !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
}

// unconnected is the result where no statement was tried, which is never the row's fault.
func unconnected(err error) destination.Result {
	result := Classify(err)
	result.Kind = destination.Retry
	return result
}
