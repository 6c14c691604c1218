package main

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	engine "github.com/cockroachdb/pebble/v2"

	"sluice/go/storebench/meter"
)

func TestPeersMeasure(t *testing.T) {
	for subject := range peers {
		t.Run(subject, func(t *testing.T) {
			if subject == "postgres-copy" {
				needPostgres(t)
			}
			c := meter.Case{
				Subject: subject, Size: 512, Group: 16, Duration: 50 * time.Millisecond, Dir: t.TempDir(),
			}
			r, err := measureGroups(c, peers[subject])
			if err != nil {
				t.Fatal(err)
			}
			if r.Events == 0 || r.Bytes != int64(512*r.Events) || r.Times.Count() != r.Events/16 ||
				r.CPU <= 0 {
				t.Fatalf("%+v", r)
			}
			if kept, ok := count(t, subject, c.Dir); ok && kept != r.Events {
				t.Fatalf("%d events are kept of %d", kept, r.Events)
			}
		})
	}
}

func TestInsertsMeasure(t *testing.T) {
	needPostgres(t)
	c := meter.Case{Size: 512, Group: 4, Duration: 50 * time.Millisecond, Dir: t.TempDir()}
	r, err := measureInserts(c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Events == 0 || r.Times.Count() != r.Events {
		t.Fatalf("%+v", r)
	}
}

func needPostgres(t *testing.T) {
	if os.Getenv(urlVariable) == "" {
		t.Skip(urlVariable + " names no server; scripts/with-postgres sets it")
	}
}

// count tells how many events a peer left in its folder.
func count(t *testing.T, subject, dir string) (n int, ok bool) {
	t.Helper()
	switch subject {
	case "sqlite":
		db, err := sql.Open("sqlite", filepath.Join(dir, "events.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.QueryRow("SELECT count(*) FROM events").Scan(&n); err != nil {
			t.Fatal(err)
		}
	case "pebble":
		db, err := engine.Open(filepath.Join(dir, "pebble"), &engine.Options{Logger: silent{}})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		rows, err := db.NewIter(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.First(); rows.Valid(); rows.Next() {
			n++
		}
	default:
		return 0, false
	}
	return n, true
}
