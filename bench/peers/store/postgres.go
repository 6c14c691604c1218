package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/bench/referee"
	"sluice/go/storebench/meter"
)

// urlVariable is where go/storebench says how to reach the server.
const urlVariable = "SLUICE_BENCH_POSTGRES"

const table = `DROP TABLE IF EXISTS bench_store;
	CREATE TABLE bench_store (
		number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		id bytea NOT NULL, body bytea NOT NULL)`

// connect gives a connection whose commits wait for the disk.
func connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, os.Getenv(urlVariable))
	if err != nil {
		return nil, err
	}
	var fsync string
	if _, err = conn.Exec(ctx, "SET synchronous_commit = on"); err == nil {
		err = conn.QueryRow(ctx, "SHOW fsync").Scan(&fsync)
	}
	if err == nil && fsync != "on" {
		err = fmt.Errorf("fsync is %s on this server; nothing that it says is durable", fsync)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return conn, nil
}

// copies sends a group as one COPY in binary form, prepared outside of what is measured as far as
// it can be.
type copies struct {
	conn *pgx.Conn
	text []byte
}

func openCopy(meter.Case) (peer, error) {
	ctx := context.Background()
	conn, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, table); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return &copies{conn: conn}, nil
}

// The binary form: PostgreSQL 15 documentation, COPY, "Binary Format".
var (
	copyHead = append([]byte("PGCOPY\n\xff\r\n\x00"), make([]byte, 8)...)
	copyTail = []byte{0xff, 0xff}
)

func (c *copies) put(ids, bodies [][]byte) error {
	c.text = append(c.text[:0], copyHead...)
	for i := range ids {
		c.text = binary.BigEndian.AppendUint16(c.text, 2)
		for _, field := range [][]byte{ids[i], bodies[i]} {
			c.text = binary.BigEndian.AppendUint32(c.text, uint32(len(field)))
			c.text = append(c.text, field...)
		}
	}
	c.text = append(c.text, copyTail...)
	tag, err := c.conn.PgConn().CopyFrom(context.Background(), bytes.NewReader(c.text),
		"COPY bench_store (id, body) FROM STDIN BINARY")
	if err == nil && tag.RowsAffected() != int64(len(ids)) {
		err = fmt.Errorf("%d rows came of %d", tag.RowsAffected(), len(ids))
	}
	return err
}

func (c *copies) Close() error { return c.conn.Close(context.Background()) }

// measureInserts has as many connections as a group has events, each of which inserts one row after
// the other, a transaction each. What is timed is a row.
func measureInserts(c meter.Case) (r meter.Result, err error) {
	ctx := context.Background()
	var conns []*pgx.Conn
	defer func() {
		for _, conn := range conns {
			err = errors.Join(err, conn.Close(ctx))
		}
	}()
	for n := range c.Group {
		conn, err := connect(ctx)
		if err != nil {
			return r, err
		}
		conns = append(conns, conn)
		if n > 0 {
			continue
		}
		if _, err := conn.Exec(ctx, table); err != nil {
			return r, err
		}
	}
	bodies := newEvents(c).bodies
	r.Notes = atServer(&c)
	m, err := meter.Start(c, postgresUsage)
	if err != nil {
		return r, err
	}
	parts, faults := make([]meter.Result, len(conns)), make([]error, len(conns))
	var work sync.WaitGroup
	for i, conn := range conns {
		work.Go(func() {
			for n := i; m.Elapsed() < c.Duration; n += len(conns) {
				began := time.Now()
				_, err := conn.Exec(ctx, "INSERT INTO bench_store (id, body) VALUES ($1, $2)",
					newID(uint64(n)), bodies[n%len(bodies)])
				if err != nil {
					faults[i] = err
					return
				}
				parts[i].Times.Note(time.Since(began))
				parts[i].Events++
				parts[i].Bytes += int64(c.Size)
			}
		})
	}
	work.Wait()
	for _, part := range parts {
		r.Events += part.Events
		r.Bytes += part.Bytes
		r.Times.Add(part.Times)
	}
	if err := errors.Join(faults...); err != nil {
		return r, err
	}
	return r, m.Stop(&r)
}

// atServer points a case to the folder of a server that runs on this machine, whose disk is the one
// to be watched, and notes when that is not the disk that is measured.
func atServer(c *meter.Case) (notes []string) {
	config, err := pgx.ParseConfig(os.Getenv(urlVariable))
	if err != nil || !filepath.IsAbs(config.Host) {
		return []string{"the server may be on another machine or disk"}
	}
	here, err := meter.Device(c.Dir)
	there, fault := meter.Device(config.Host)
	if err != nil || fault != nil || here != there {
		notes = []string{"the server's files may be on another disk"}
	}
	c.Dir = config.Host
	return notes
}

// postgresUsage is the CPU seconds of every process of a database server.
func postgresUsage() float64 { return referee.UsageOf("postgres") }
