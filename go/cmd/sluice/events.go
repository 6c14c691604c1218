package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	pb "sluice/proto/sluice/v1"
)

const (
	listedDefault = 50
	bodyShownMax  = 16 << 10
)

func eventsCommand() *cobra.Command {
	return group("events", "what was accepted, and what became of it",
		eventsListCommand(), eventsShowCommand(), eventsTailCommand(), eventsReplayCommand(),
		eventsGapsCommand(), eventsExportCommand(), eventsImportCommand())
}

func eventsListCommand() *cobra.Command {
	var where daemonFlags
	var filter filterFlags
	var limit uint32
	var inJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "list events, newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := filter.filter(args, time.Now())
			if err != nil {
				return err
			}
			return where.call(cmd, func(ctx context.Context, d *remote) error {
				stream, err := d.ListEvents(ctx, &pb.ListEventsRequest{Filter: f, Limit: limit})
				if err != nil {
					return err
				}
				if inJSON {
					return each(stream, func(e *pb.Event) error {
						return jsonLine(cmd.OutOrStdout(), newEventShape(e))
					})
				}
				t := table(cmd.OutOrStdout(), eventHeads...)
				if err := each(stream, func(e *pb.Event) error {
					row(t, eventCells(e)...)
					return nil
				}); err != nil {
					return err
				}
				return t.Flush()
			})
		},
	}
	where.add(cmd.Flags())
	filter.add(cmd.Flags(), true)
	cmd.Flags().Uint32Var(&limit, "limit", listedDefault, "at most so many; 0 is all")
	asJSON(cmd, &inJSON, true)
	return cmd
}

// each reads a stream to its end.
func each[T any](stream grpc.ServerStreamingClient[T], do func(*T) error) error {
	for {
		item, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := do(item); err != nil {
			return err
		}
	}
}

// first reads the first count of a stream, or all of it where that is 0. The caller ends the
// stream.
func first[T any](stream grpc.ServerStreamingClient[T], count uint64, do func(*T) error) error {
	seen := uint64(0)
	err := each(stream, func(item *T) error {
		if err := do(item); err != nil {
			return err
		}
		if seen++; seen == count {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

var errEnough = errors.New("that was the last one asked for")

var eventHeads = []string{"RECEIVED", "ID", "SOURCE", "STATE", "SIZE", "ATTEMPTS", "NEXT", "ERROR"}

// eventCells shows, of several destinations, the one that makes the event's state.
func eventCells(e *pb.Event) []string {
	cells := []string{when(e.GetReceivedNs()), e.GetId(), e.GetSource(), e.GetState(),
		bytesText(e.GetSize()), "", "", ""}
	for _, d := range e.GetDestinations() {
		if d.GetState() == e.GetState() {
			cells[5], cells[6] = number(uint64(d.GetAttempts())), when(d.GetNextAttemptNs())
			if d.GetLastError() != "" {
				cells[7] = d.GetName() + ": " + d.GetLastError()
			}
			break
		}
	}
	return cells
}

func eventsShowCommand() *cobra.Command {
	var where daemonFlags
	var inJSON, body bool
	cmd := &cobra.Command{
		Use: "show ID", Short: "all of one event", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if inJSON && body {
				return usagef("--json and --body exclude each other")
			}
			return where.call(cmd, func(ctx context.Context, d *remote) error {
				e, err := d.GetEvent(ctx, &pb.GetEventRequest{Id: args[0], Conceal: !inJSON})
				switch {
				case err != nil:
					return err
				case inJSON:
					return jsonLine(cmd.OutOrStdout(), newDetailShape(e))
				case body:
					_, err := cmd.OutOrStdout().Write(e.GetBody())
					return err
				}
				return printDetail(cmd.OutOrStdout(), e)
			})
		},
	}
	where.add(cmd.Flags())
	asJSON(cmd, &inJSON, false)
	cmd.Flags().BoolVar(&body, "body", false, "the body alone, byte for byte")
	return cmd
}

func printDetail(w io.Writer, d *pb.EventDetail) error {
	e := d.GetEvent()
	t := table(w, "id", e.GetId())
	row(t, "source", e.GetSource())
	row(t, "sender's id", e.GetProviderId())
	row(t, "type", e.GetType())
	row(t, "received", when(e.GetReceivedNs())+" from "+d.GetPeer())
	row(t, "state", e.GetState())
	row(t, "acknowledged", d.GetAcknowledge())
	if why := d.GetUnverified(); why != "" {
		row(t, "UNVERIFIED", why)
	}
	if d.GetBatch() != "" {
		row(t, "item", fmt.Sprintf("%d of %s", d.GetItem(), d.GetBatch()))
	}
	for i, id := range d.GetItems() {
		row(t, fmt.Sprint("item ", i), id)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := printDeliveries(w, d); err != nil {
		return err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "\n%s %s\n", printable(d.GetMethod()), printable(d.GetTarget()))
	for _, h := range d.GetHeaders() {
		fmt.Fprintf(&b, "%s: %s\n", printable(string(h.GetName())), printable(fieldText(h.GetValue())))
	}
	b.WriteString("\n" + bodyText(d.GetBody()) + "\n")
	_, err := w.Write(b.Bytes())
	return err
}

func printDeliveries(w io.Writer, d *pb.EventDetail) error {
	if len(d.GetEvent().GetDestinations()) > 0 {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		t := table(w, "DESTINATION", "STATE", "ATTEMPTS", "NEXT", "ERROR")
		for _, to := range d.GetEvent().GetDestinations() {
			row(t, to.GetName(), to.GetState(), number(uint64(to.GetAttempts())),
				when(to.GetNextAttemptNs()), to.GetLastError())
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if len(d.GetAttempts()) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	t := table(w, "AT", "DESTINATION", "OUTCOME", "ATTEMPT", "CODE", "BY", "ERROR")
	for _, a := range d.GetAttempts() {
		cells := []string{when(a.GetAtNs()), a.GetDestination(), a.GetOutcome(), "", "",
			a.GetBy(), a.GetError()}
		if a.GetAttempt() > 0 {
			cells[3] = number(uint64(a.GetAttempt()))
		}
		if a.GetCode() > 0 {
			cells[4] = number(uint64(a.GetCode()))
		}
		row(t, cells...)
	}
	return t.Flush()
}

// bodyText shows a body that a terminal can take, and otherwise how to get at it.
func bodyText(body []byte) string {
	bad := bytes.ContainsFunc(body, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\r' && r != '\t' || r >= 0x7f && r < 0xa0
	})
	if bad || !utf8.Valid(body) || len(body) > bodyShownMax {
		return fmt.Sprintf("(a body of %s that is not shown here; see --body)",
			bytesText(uint64(len(body))))
	}
	return string(body)
}

func eventsTailCommand() *cobra.Command {
	var where daemonFlags
	var source string
	var inJSON bool
	var count uint64
	cmd := &cobra.Command{
		Use: "tail", Short: "events as they are accepted", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return where.call(cmd, func(ctx context.Context, d *remote) error {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				stream, err := d.TailEvents(ctx, &pb.TailEventsRequest{Source: source})
				if err != nil {
					return err
				}
				return first(stream, count, func(e *pb.Event) error {
					return printTail(cmd.OutOrStdout(), e, inJSON)
				})
			})
		},
	}
	where.add(cmd.Flags())
	cmd.Flags().StringVar(&source, "source", "", "of this source")
	cmd.Flags().Uint64Var(&count, "count", 0, "end after so many; 0 goes on")
	asJSON(cmd, &inJSON, true)
	return cmd
}

func printTail(w io.Writer, e *pb.Event, inJSON bool) error {
	if inJSON {
		return jsonLine(w, newEventShape(e))
	}
	_, err := fmt.Fprintf(w, "%s  %s  %s  %s  %s\n", when(e.GetReceivedNs()), e.GetId(),
		printable(e.GetSource()), bytesText(e.GetSize()), printable(e.GetProviderId()))
	return err
}

func eventsReplayCommand() *cobra.Command {
	var where daemonFlags
	var filter filterFlags
	var replay replayFlags
	cmd := &cobra.Command{
		Use:   "replay [ID...]",
		Short: "deliver events again",
		Long: `Makes new deliveries of the events that match, the oldest first. A delivery that waits is
left as it is, one that is being retried is due at once. Destinations get the same Idempotency-Key
as before. A destination that an event never went to gets it by --to.`,
		Example: `  sluice events replay --source github --since 2h --to audit --rate 50/s --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := wantsSelection(&filter, args, replay.everything); err != nil {
				return err
			}
			rate, err := replay.perSecond()
			if err != nil {
				return err
			}
			f, err := filter.filter(args, time.Now())
			if err != nil {
				return err
			}
			return where.call(cmd, func(ctx context.Context, d *remote) error {
				r, err := d.ReplayEvents(ctx, &pb.ReplayEventsRequest{
					Filter: f, Destination: replay.to, Rate: rate, DryRun: replay.dry,
				})
				if err != nil {
					return err
				}
				return replay.print(cmd.OutOrStdout(), r, rate)
			})
		},
	}
	where.add(cmd.Flags())
	filter.add(cmd.Flags(), true)
	replay.add(cmd, "only to this `DESTINATION`, whether they went there or not",
		"all events, without any filter")
	return cmd
}
