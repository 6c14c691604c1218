package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	pb "sluice/proto/sluice/v1"
)

const (
	// importLineMax bounds a line in bytes: the largest body in base64, and its headers.
	importLineMax = 1<<30/3*4 + 4<<20
	// importPiece is how much of a body one message has: the daemon takes 1 MiB with all else.
	importPiece = 512 << 10
	// progressEvery is how often a terminal is told how far an import is.
	progressEvery = time.Second
)

func eventsImportCommand() *cobra.Command {
	var where daemonFlags
	var inJSON bool
	cmd := &cobra.Command{
		Use:   "import [FILE]",
		Short: "take events over that another host exported",
		Long: `Reads what "sluice events export" wrote, from FILE or standard input, and takes the events
in: under their ids, with headers and body as they came, received when they were, delivered, dead
or still to be delivered as they were there. Their sources and destinations must be in the config
of this host.

An id that is known here is passed over: an import that broke off is simply made again. An event
that repeats one which this host took itself is kept as its duplicate and not delivered again.`,
		Example: `  ssh old sluice events export | sluice events import`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := cmd.InOrStdin()
			if len(args) == 1 && args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return usage(err)
				}
				defer func() { _ = file.Close() }() // it was only read
				in = file
			}
			return where.call(cmd, func(ctx context.Context, d *remote) error {
				sums, err := importEvents(ctx, d, in, cmd.ErrOrStderr())
				if err != nil {
					return err
				}
				return printImport(cmd.OutOrStdout(), sums, inJSON)
			})
		},
	}
	where.add(cmd.Flags())
	asJSON(cmd, &inJSON, false)
	return cmd
}

func printImport(w io.Writer, sums *pb.ImportProgress, inJSON bool) error {
	if inJSON {
		return jsonLine(w, struct {
			Imported   uint64 `json:"imported"`
			Known      uint64 `json:"known"`
			Duplicates uint64 `json:"duplicates"`
		}{sums.GetImported(), sums.GetKnown(), sums.GetDuplicates()})
	}
	_, err := fmt.Fprintf(w, "%s imported, %d known before, %s\n",
		plural(sums.GetImported(), "event", "events"), sums.GetKnown(),
		plural(sums.GetDuplicates(), "duplicate", "duplicates"))
	return err
}

// importEvents sends the lines and hears meanwhile how far the daemon is.
func importEvents(ctx context.Context, d *remote, in io.Reader, errs io.Writer) (*pb.ImportProgress,
	error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := d.ImportEvents(ctx)
	if err != nil {
		return nil, err
	}
	sent := make(chan error, 1)
	go func() {
		err := sendLines(stream, in)
		if err != nil && !errors.Is(err, io.EOF) { // EOF: the daemon ended it, and says why
			sent <- err
			cancel()
			return
		}
		sent <- stream.CloseSend()
	}()
	sums := &pb.ImportProgress{}
	shown := time.Now()
	for {
		next, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			select {
			case own := <-sent:
				if own != nil {
					return nil, afterImport(own, sums)
				}
			default:
			}
			return nil, afterImport(err, sums)
		}
		sums = next
		if isTerminal(errs) && time.Since(shown) > progressEvery {
			shown = time.Now()
			fmt.Fprintf(errs, "%d events so far\n", sums.GetImported()+sums.GetKnown())
		}
	}
	if err := <-sent; err != nil {
		return nil, afterImport(err, sums)
	}
	if !sums.GetDone() {
		return nil, afterImport(errors.New("the daemon ended the import"), sums)
	}
	return sums, nil
}

// afterImport adds to an error what was done before it.
func afterImport(err error, sums *pb.ImportProgress) error {
	if n := sums.GetImported(); n > 0 {
		return fmt.Errorf("%d events are imported; mend this and import the same again: %w", n, err)
	}
	return err
}

type importStream = grpc.BidiStreamingClient[pb.ExportedEvent, pb.ImportProgress]

func sendLines(stream importStream, in io.Reader) error {
	lines := bufio.NewReaderSize(in, 1<<20)
	for n := 1; ; n++ {
		line, err := readLine(lines)
		if err != nil && !errors.Is(err, io.EOF) {
			return usagef("line %d: %w", n, err)
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			event, err := parseExported(line)
			if err != nil {
				return usagef("line %d: %w", n, err)
			}
			if err := sendWhole(stream, event); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// readLine reads a line of any length up to importLineMax.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
		if len(line) > importLineMax {
			return nil, fmt.Errorf("it is longer than %d bytes", importLineMax)
		}
	}
}

// sendWhole sends an event in as many messages as its body takes.
func sendWhole(stream importStream, e *pb.ExportedEvent) error {
	rest := e.Detail.Body
	for message := e; ; {
		message.Detail.Body = rest[:min(len(rest), importPiece)]
		rest = rest[len(message.Detail.Body):]
		message.More = len(rest) > 0
		if err := stream.Send(message); err != nil || !message.More {
			return err
		}
		message = &pb.ExportedEvent{Detail: &pb.EventDetail{}}
	}
}

// parseExported reads a line of an export.
func parseExported(line []byte) (*pb.ExportedEvent, error) {
	var s struct {
		exportShape
		SpecVersion string `json:"specversion"`
	}
	if err := json.Unmarshal(line, &s); err != nil {
		return nil, fmt.Errorf("it is no JSON of an event: %w", err)
	}
	if s.SpecVersion != "" {
		return nil, errors.New("a CloudEvent does not say all that is needed; " +
			"export with --format ndjson")
	}
	at := moments{}
	out := &pb.ExportedEvent{
		DedupKey: s.DedupKey, DedupUntilNs: at.read(s.DedupUntil), OrderKey: s.OrderKey,
		Unverified: s.Unverified, Client: s.Client,
		Detail: &pb.EventDetail{
			Event: &pb.Event{
				Id: s.ID, Source: s.Source, ReceivedNs: at.read(s.ReceivedAt), State: s.State,
			},
			Method: s.Method, Target: s.Target, Peer: s.Peer, Body: s.Body,
			SecretIndex: s.SecretIndex,
		},
	}
	for _, h := range s.Headers {
		out.Detail.Headers = append(out.Detail.Headers,
			&pb.Header{Name: []byte(h[0]), Value: []byte(h[1])})
	}
	if s.HeadersRaw != nil {
		out.Detail.Headers = nil
		for _, h := range s.HeadersRaw {
			out.Detail.Headers = append(out.Detail.Headers, &pb.Header{Name: h[0], Value: h[1]})
		}
	}
	for _, d := range s.Destinations {
		out.Detail.Event.Destinations = append(out.Detail.Event.Destinations, &pb.EventDestination{
			Name: d.Name, State: d.State, Attempts: d.Attempts,
			NextAttemptNs: at.read(d.NextAttemptAt), LastError: d.LastError,
		})
	}
	for _, a := range s.Attempts {
		out.Detail.Attempts = append(out.Detail.Attempts, &pb.Attempt{
			Destination: a.Destination, Outcome: a.Outcome, Attempt: a.Attempt, Code: a.Code,
			AtNs: at.read(a.At), NextNs: at.read(a.NextAttemptAt), Error: a.Error, By: a.By,
			Blocks: a.Blocks,
		})
	}
	return out, at.err
}

// moments reads times; the first fault sticks.
type moments struct{ err error }

func (m *moments) read(text *string) int64 {
	if text == nil {
		return 0
	}
	t, err := time.Parse(time.RFC3339Nano, *text)
	if err != nil {
		m.err = errors.Join(m.err, err)
		return 0
	}
	return t.UnixNano()
}
