package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	pb "sluice/proto/sluice/v1"
)

const breakersHelp = `Shows the breakers of all destinations and groups, and the signals that they
follow.

  closed      all is delivered
  open        nothing is: events are stored, senders get 202, and nobody waits for the destination
  half_open   it comes back: one probe, then a ramp of so many deliveries a second, then a drain
              without a bound until nothing waits any more

A breaker that is HELD stays where an operator put it. A signal is well, sick or between the two; a
STALE one could not be read, and its last value stands for as long as it may. Of a breaker that is
shared, ALONE tells that the other hosts are not heard now.`

func breakersCommand() *cobra.Command {
	return group("breaker", "breakers of destinations and groups: see them, hold them, let them go",
		breakerListCommand(),
		breakerSetCommand("open", "open", "hold a breaker open: store, and deliver nothing",
			`Keeps all deliveries back, until --for is over or "breaker auto". Events are stored as
ever, and senders get 202.`),
		breakerSetCommand("close", "closed", "hold a breaker closed: deliver whatever happens",
			`Delivers all, whatever fails and whatever its signals say, until --for is over or
"breaker auto". It goes on measuring.`),
		breakerSetCommand("auto", "auto", "let a breaker go",
			"Ends what \"breaker open\" or \"breaker close\" began: the breaker decides by itself again."),
		breakerWatchCommand())
}

func breakerListCommand() *cobra.Command {
	var where daemonFlags
	var inJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "show all breakers and their signals", Long: breakersHelp,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return where.call(cmd, func(ctx context.Context, d *remote) error {
				ctx, cancel := short(ctx)
				defer cancel()
				r, err := d.ListBreakers(ctx, &pb.ListBreakersRequest{})
				if err != nil {
					return err
				}
				return printBreakers(cmd.OutOrStdout(), r.GetBreakers(), inJSON)
			})
		},
	}
	where.add(cmd.Flags())
	asJSON(cmd, &inJSON, true)
	return cmd
}

func breakerSetCommand(verb, state, what, long string) *cobra.Command {
	var where daemonFlags
	var inJSON bool
	var held time.Duration
	cmd := &cobra.Command{
		Use: verb + " NAME", Short: what, Long: long, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if held <= 0 && cmd.Flags().Changed("for") {
				return usagef("--for: a breaker is held for longer than 0s")
			}
			return where.call(cmd, func(ctx context.Context, d *remote) error {
				ctx, cancel := short(ctx)
				defer cancel()
				b, err := d.SetBreaker(ctx, &pb.SetBreakerRequest{
					Name: args[0], State: state, ForNs: held.Nanoseconds(),
				})
				if err != nil {
					return err
				}
				return printBreakers(cmd.OutOrStdout(), []*pb.Breaker{b}, inJSON)
			})
		},
	}
	where.add(cmd.Flags())
	if state != "auto" {
		cmd.Flags().DurationVar(&held, "for", 0, "how long; without it until \"breaker auto\"")
	}
	asJSON(cmd, &inJSON, false)
	return cmd
}

func breakerWatchCommand() *cobra.Command {
	var where daemonFlags
	var inJSON bool
	var count uint64
	cmd := &cobra.Command{
		Use: "watch", Short: "print each transition as it happens", Args: cobra.NoArgs,
		Long: "Prints all breakers as they are, then a line for each transition. Ctrl-C ends it.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return where.call(cmd, func(ctx context.Context, d *remote) error {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				stream, err := d.WatchBreakers(ctx, &pb.WatchBreakersRequest{})
				if err != nil {
					return err
				}
				return first(stream, count, func(c *pb.BreakerChange) error {
					return printChange(cmd.OutOrStdout(), c, inJSON)
				})
			})
		},
	}
	where.add(cmd.Flags())
	cmd.Flags().Uint64Var(&count, "count", 0, "end after so many lines; 0 goes on")
	asJSON(cmd, &inJSON, true)
	return cmd
}

func printChange(w io.Writer, c *pb.BreakerChange, inJSON bool) error {
	b := c.GetBreaker()
	if inJSON {
		return jsonLine(w, changedShape{newBreakerShape(b), c.GetFrom()})
	}
	was := ""
	if c.GetFrom() != "" {
		was = " (was " + c.GetFrom() + ")"
	}
	_, err := fmt.Fprintln(w, strings.TrimRight(printable(fmt.Sprintf("%s  %s  %s%s  %s",
		when(b.GetSinceNs()), b.GetName(), stands(b), was, b.GetReason())), " "))
	return err
}

func printBreakers(w io.Writer, list []*pb.Breaker, inJSON bool) error {
	if inJSON {
		for _, b := range list {
			if err := jsonLine(w, newBreakerShape(b)); err != nil {
				return err
			}
		}
		return nil
	}
	t := table(w, "BREAKER", "KIND", "WITH", "STATE", "SINCE", "OPENED", "HOSTS", "REASON")
	for _, b := range list {
		row(t, b.GetName(), b.GetKind(), strings.Join(b.GetMembers(), ", "), stands(b),
			when(b.GetSinceNs()), number(b.GetOpened()), hosts(b), b.GetReason())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return printSignals(w, list)
}

func printSignals(w io.Writer, list []*pb.Breaker) error {
	if !slices.ContainsFunc(list, func(b *pb.Breaker) bool { return len(b.GetSignals()) > 0 }) {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	t := table(w, "BREAKER", "SIGNAL", "VALUE", "TRIPS AT", "WELL BELOW", "VERDICT", "READ", "ERROR")
	for _, b := range list {
		for _, s := range b.GetSignals() {
			verdict := s.GetVerdict()
			if s.GetStale() {
				verdict = strings.TrimSpace(verdict + " STALE")
			}
			row(t, b.GetName(), s.GetName(), short3(s.GetValue()), short3(s.GetTrip()),
				short3(s.GetRecover()), verdict, when(s.GetAtNs()), s.GetError())
		}
	}
	return t.Flush()
}

// stands says where a breaker is, and what comes next.
func stands(b *pb.Breaker) string {
	text := b.GetState()
	switch {
	case b.GetProbeNs() != 0:
		text += ", probe at " + when(b.GetProbeNs())
	case b.GetPhase() != "" && b.GetRate() > 0:
		text += fmt.Sprintf(", %s %s/s", b.GetPhase(), short3(b.GetRate()))
	case b.GetPhase() != "":
		text += ", " + b.GetPhase()
	}
	switch {
	case b.GetHeldUntilNs() != 0:
		text += ", HELD until " + when(b.GetHeldUntilNs())
	case b.GetHeld():
		text += ", HELD"
	}
	return text
}

func hosts(b *pb.Breaker) string {
	if b.GetAlone() {
		return number(uint64(b.GetHosts())) + " ALONE"
	}
	if b.GetHosts() == 0 {
		return ""
	}
	return number(uint64(b.GetHosts()))
}

type breakerShape struct {
	Name      string               `json:"name"`
	Kind      string               `json:"kind"`
	State     string               `json:"state"`
	Members   []string             `json:"members"`
	Reason    string               `json:"reason"`
	Since     *string              `json:"since"`
	ProbeAt   *string              `json:"probe_at"`
	Phase     string               `json:"phase"`
	Rate      float64              `json:"rate"`
	Held      bool                 `json:"held"`
	HeldUntil *string              `json:"held_until"`
	Opened    uint64               `json:"opened"`
	Hosts     uint32               `json:"hosts"`
	Alone     bool                 `json:"alone"`
	Signals   []breakerSignalShape `json:"signals"`
}

type breakerSignalShape struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Trip    float64 `json:"trip"`
	Recover float64 `json:"recover"`
	Verdict string  `json:"verdict"`
	Stale   bool    `json:"stale"`
	Error   string  `json:"error"`
	At      *string `json:"at"`
}

// changedShape is a transition; from is empty for the breakers as they were at first.
type changedShape struct {
	breakerShape
	From string `json:"from"`
}

func newBreakerShape(b *pb.Breaker) breakerShape {
	out := breakerShape{
		Name: b.GetName(), Kind: b.GetKind(), State: b.GetState(), Members: list(b.GetMembers()),
		Reason: b.GetReason(), Since: moment(b.GetSinceNs()), ProbeAt: moment(b.GetProbeNs()),
		Phase: b.GetPhase(), Rate: b.GetRate(), Held: b.GetHeld(),
		HeldUntil: moment(b.GetHeldUntilNs()), Opened: b.GetOpened(), Hosts: b.GetHosts(),
		Alone: b.GetAlone(), Signals: []breakerSignalShape{},
	}
	for _, s := range b.GetSignals() {
		out.Signals = append(out.Signals, breakerSignalShape{s.GetName(), s.GetValue(), s.GetTrip(),
			s.GetRecover(), s.GetVerdict(), s.GetStale(), s.GetError(), moment(s.GetAtNs())})
	}
	return out
}
