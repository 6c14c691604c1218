package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	pb "sluice/proto/sluice/v1"
)

func statusCommand() *cobra.Command {
	var where daemonFlags
	var inJSON bool
	cmd := &cobra.Command{
		Use: "status", Short: "one look at the daemon", Args: cobra.NoArgs,
		Long: `Shows the daemon as it is now.

A class of requests is OVERLOADED while some of it always wait: those that waited too long are
turned away to be sent again. Classes are served in the order high, never_retries, default, low,
never_retries_over_share, default_over_share, repeat, low_over_share. A source's requests in a row
that were turned away are counted until one is taken; near the number at which its provider would
stop sending it is GUARDED, and is served first.

A destination's BREAKER is open or half_open while it is left alone ("sluice breaker list" says
why), and IN FLIGHT are the attempts under way, of how many that may be.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return where.call(cmd, func(ctx context.Context, d *remote) error {
				ctx, cancel := short(ctx)
				defer cancel()
				s, err := d.GetStatus(ctx, &pb.GetStatusRequest{})
				if err != nil {
					return err
				}
				if inJSON {
					return jsonLine(cmd.OutOrStdout(), newStatusShape(s))
				}
				return printStatus(cmd.OutOrStdout(), s, nil)
			})
		},
	}
	where.add(cmd.Flags())
	asJSON(cmd, &inJSON, false)
	return cmd
}

// printStatus writes a status for people; rates, where there are any, go beside the totals.
func printStatus(w io.Writer, s *pb.Status, rates *rates) error {
	a, j, p := s.GetAdmission(), s.GetJournal(), s.GetDataplane()
	state := "ready"
	if !s.GetReady() {
		state = "NOT READY"
	}
	admission := fmt.Sprintf("%d of %d in flight, %d held",
		a.GetInflight(), a.GetLimit(), a.GetHeld())
	if a.GetOverloaded() {
		admission += ", OVERLOADED: " + strings.Join(a.GetOverloadedClasses(), ", ")
	}
	var addresses []string
	for _, l := range s.GetListeners() {
		addresses = append(addresses, l.GetAddress())
	}
	writable := "writable"
	if !j.GetWritable() {
		writable = "NOT WRITABLE"
	}
	t := table(w, state, fmt.Sprintf("version %s, up %s, config %d",
		s.GetVersion(), span(s.GetUptimeS()), s.GetConfigVersion()))
	row(t, "listeners", strings.Join(addresses, ", "))
	plane := fmt.Sprintf("generation %d, pid %d, %s, %s", s.GetGeneration(), p.GetPid(),
		p.GetDriver(), plural(p.GetRestarts(), "restart", "restarts"))
	if p.GetRetiring() > 0 {
		plane += fmt.Sprintf(", %d older still finishing", p.GetRetiring())
	}
	row(t, "data plane", plane)
	sandbox := strings.Join(p.GetSandbox(), ", ")
	if sandbox == "" {
		sandbox = "none"
	}
	row(t, "sandbox", sandbox)
	if why := p.GetDriverReason(); why != "" {
		row(t, "NO IO_URING", why)
	}
	if what := p.GetSandboxReason(); what != "" {
		row(t, "SANDBOX LACKS", what)
	}
	row(t, "admission", admission)
	row(t, "journal", fmt.Sprintf("%s, %s, oldest %s, %s", plural(j.GetEvents(), "event", "events"),
		bytesText(j.GetBytes()), span(j.GetOldestS()), writable))
	for _, problem := range s.GetProblems() {
		row(t, "PROBLEM", problem)
	}
	for _, damage := range j.GetDamage() {
		row(t, "DAMAGE", damage)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := printSources(w, s, rates); err != nil {
		return err
	}
	if err := printSecrets(w, s); err != nil {
		return err
	}
	return printDestinations(w, s)
}

func printSources(w io.Writer, s *pb.Status, rates *rates) error {
	if len(s.GetSources()) == 0 {
		return nil
	}
	heads := []string{"SOURCE", "ACCEPTED", "DUPLICATES", "UNAUTHORIZED", "REFUSED", "IN A ROW"}
	if rates != nil {
		heads = append(heads, "ACCEPTED/S", "REFUSED/S")
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	t := table(w, heads...)
	for _, source := range s.GetSources() {
		cells := []string{source.GetName(), number(source.GetAccepted()),
			number(source.GetDuplicates()), number(source.GetUnauthorized()),
			number(source.GetRefused()), inRow(source)}
		if rates != nil {
			cells = append(cells, rates.accepted(source), rates.refused(source))
		}
		row(t, cells...)
	}
	return t.Flush()
}

// inRow is how many requests of a source were turned away since its last success.
func inRow(s *pb.SourceStatus) string {
	if s.GetGuarded() {
		return number(s.GetRefusedInRow()) + " GUARDED"
	}
	return number(s.GetRefusedInRow())
}

func printDestinations(w io.Writer, s *pb.Status) error {
	if len(s.GetDestinations()) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	t := table(w, "DESTINATION", "BREAKER", "IN FLIGHT", "BACKLOG", "OLDEST", "DEAD")
	for _, d := range s.GetDestinations() {
		oldest := ""
		if d.GetBacklog() > 0 {
			oldest = span(d.GetOldestS())
		}
		row(t, d.GetName(), d.GetBreaker(), inflight(d), number(d.GetBacklog()), oldest,
			number(d.GetDead()))
	}
	return t.Flush()
}

// inflight is how many attempts are under way, and how many may be where that is known.
func inflight(d *pb.DestinationStatus) string {
	if d.GetLimit() == 0 {
		return number(d.GetInflight())
	}
	return fmt.Sprintf("%d of %d", d.GetInflight(), d.GetLimit())
}

func number(n uint64) string { return fmt.Sprint(n) }
