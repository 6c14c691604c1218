package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"sluice/go/storebench/meter"
)

const (
	subject = "events"
	// ackWait is how long an acknowledgement may take before the row is given up.
	ackWait = 30 * time.Second
)

// jetStream publishes to a server in the same process, over memory, which syncs every message
// (sync_interval: always). A group is published and its acknowledgements awaited, or it is an
// atomic batch, which is acknowledged as one.
type jetStream struct {
	server  *server.Server
	conn    *nats.Conn
	stream  jetstream.JetStream
	batch   bool
	batches int
}

func openJetStream(c meter.Case, batch bool) (peer, error) {
	s, err := server.NewServer(&server.Options{
		DontListen: true, NoSigs: true, NoLog: true, JetStream: true, StoreDir: c.Dir,
		SyncAlways:      true,
		JetStreamLimits: server.JSLimitOpts{MaxBatchSize: max(c.Group, 1000)},
	})
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(ackWait) {
		s.Shutdown()
		return nil, fmt.Errorf("the server is not ready after %v", ackWait)
	}
	j := &jetStream{server: s, batch: batch}
	if err := j.connect(c); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

func (j *jetStream) connect(c meter.Case) (err error) {
	if j.conn, err = nats.Connect("", nats.InProcessServer(j.server)); err != nil {
		return err
	}
	j.stream, err = jetstream.New(j.conn, jetstream.WithPublishAsyncMaxPending(max(c.Group, 1)))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), ackWait)
	defer cancel()
	_, err = j.stream.CreateStream(ctx, jetstream.StreamConfig{
		Name: subject, Subjects: []string{subject}, Storage: jetstream.FileStorage,
		AllowAtomicPublish: j.batch,
	})
	return err
}

func (j *jetStream) put(ids, bodies [][]byte) error {
	if j.batch && len(ids) > 1 {
		return j.putBatch(ids, bodies)
	}
	var acks []jetstream.PubAckFuture
	for i := range ids {
		m := nats.NewMsg(subject)
		m.Header.Set("Id", string(ids[i]))
		m.Data = bodies[i]
		ack, err := j.stream.PublishMsgAsync(m)
		if err != nil {
			return err
		}
		acks = append(acks, ack)
	}
	timeout := time.After(ackWait)
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return err
		case <-timeout:
			return fmt.Errorf("no acknowledgement after %v", ackWait)
		}
	}
	return nil
}

// putBatch publishes as the server's ADR-50 says (github.com/nats-io/nats-architecture-and-design):
// the headers number the messages of a batch, and the last one, a request, commits it.
func (j *jetStream) putBatch(ids, bodies [][]byte) error {
	j.batches++
	for i := range ids {
		m := nats.NewMsg(subject)
		m.Header.Set("Id", string(ids[i]))
		m.Header.Set(server.JSBatchId, strconv.Itoa(j.batches))
		m.Header.Set(server.JSBatchSeq, strconv.Itoa(i+1))
		m.Data = bodies[i]
		if i < len(ids)-1 {
			if err := j.conn.PublishMsg(m); err != nil {
				return err
			}
			continue
		}
		m.Header.Set(server.JSBatchCommit, "1")
		answer, err := j.conn.RequestMsg(m, ackWait)
		if err != nil {
			return err
		}
		var ack server.JSPubAckResponse
		if err := json.Unmarshal(answer.Data, &ack); err != nil {
			return fmt.Errorf("acknowledgement of a batch: %w", err)
		}
		if ack.Error != nil {
			return ack.Error
		}
		if ack.PubAck == nil || ack.BatchSize != uint64(len(ids)) {
			return fmt.Errorf("a batch of %d was acknowledged as %s", len(ids), answer.Data)
		}
	}
	return nil
}

func (j *jetStream) Close() error {
	if j.conn != nil {
		j.conn.Close()
	}
	j.server.Shutdown()
	j.server.WaitForShutdown()
	return nil
}
