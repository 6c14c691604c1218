package main

import (
	"path/filepath"

	engine "github.com/cockroachdb/pebble/v2"

	"sluice/go/storebench/meter"
)

// memtableBytes is what CockroachDB sets, and sixteen times the engine's default.
const memtableBytes = 64 << 20

// pebble commits a group as one synced batch.
type pebble struct{ db *engine.DB }

func openPebble(c meter.Case) (peer, error) {
	db, err := engine.Open(filepath.Join(c.Dir, "pebble"), &engine.Options{
		FormatMajorVersion: engine.FormatNewest, MemTableSize: memtableBytes,
		Logger: silent{},
	})
	if err != nil {
		return nil, err
	}
	return &pebble{db}, nil
}

func (p *pebble) put(ids, bodies [][]byte) error {
	b := p.db.NewBatch()
	defer b.Close()
	for i := range ids {
		if err := b.Set(ids[i], bodies[i], nil); err != nil {
			return err
		}
	}
	return b.Commit(engine.Sync)
}

func (p *pebble) Close() error { return p.db.Close() }

// silent drops what the engine logs, but for what ends it.
type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(format string, args ...any) {
	engine.DefaultLogger.Fatalf(format, args...)
}
