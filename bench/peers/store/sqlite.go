package main

import (
	"database/sql"
	"errors"
	"path/filepath"

	_ "modernc.org/sqlite" // registers the driver

	"sluice/go/storebench/meter"
)

// sqlite commits a group as one transaction to a write-ahead log that is synced with each.
type sqlite struct {
	db     *sql.DB
	insert *sql.Stmt
}

func openSQLite(c meter.Case) (peer, error) {
	// The pragmas by the driver's parameter: https://pkg.go.dev/modernc.org/sqlite#Driver.Open
	db, err := sql.Open("sqlite", "file:"+filepath.Join(c.Dir, "events.db")+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	_, err = db.Exec(`CREATE TABLE events (
		number INTEGER PRIMARY KEY, id BLOB NOT NULL, body BLOB NOT NULL)`)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	insert, err := db.Prepare(`INSERT INTO events (id, body) VALUES (?, ?)`)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &sqlite{db, insert}, nil
}

func (s *sqlite) put(ids, bodies [][]byte) error {
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	insert := tx.Stmt(s.insert)
	for i := range ids {
		if _, err := insert.Exec(ids[i], bodies[i]); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

func (s *sqlite) Close() error { return errors.Join(s.insert.Close(), s.db.Close()) }
