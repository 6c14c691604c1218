package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	pb "sluice/proto/sluice/v1"
)

func eventsExportCommand() *cobra.Command {
	var where daemonFlags
	var filter filterFlags
	var limit uint64
	var format string
	cmd := &cobra.Command{
		Use:   "export [ID...]",
		Short: "write events whole, the oldest first",
		Long: `Writes the events that match, one JSON object a line, the oldest first.

ndjson has all that "sluice events import" needs to go on with them on another host. cloudevents
is CloudEvents 1.0 in structured mode, for other programs; it cannot be imported. An event whose
bytes the disk lost is named on standard error, and the exit code is 1 then.`,
		Example: `  sluice events export > events.ndjson
  sluice events export --source github --since 24h --format cloudevents`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "ndjson" && format != "cloudevents" {
				return usagef("--format: %q is none of ndjson, cloudevents", format)
			}
			f, err := filter.filter(args, time.Now())
			if err != nil {
				return err
			}
			return where.call(cmd, func(ctx context.Context, d *remote) error {
				return export(ctx, d, &pb.ExportEventsRequest{Filter: f, Limit: limit}, format,
					cmd.OutOrStdout(), cmd.ErrOrStderr())
			})
		},
	}
	where.add(cmd.Flags())
	filter.add(cmd.Flags(), true)
	cmd.Flags().Uint64Var(&limit, "limit", 0, "at most so many; 0 is all")
	cmd.Flags().StringVar(&format, "format", "ndjson", "`ndjson|cloudevents`")
	return cmd
}

func export(ctx context.Context, d *remote, r *pb.ExportEventsRequest, format string,
	out, errs io.Writer) error {
	stream, err := d.ExportEvents(ctx, r)
	if err != nil {
		return err
	}
	lines := bufio.NewWriter(out)
	var lost uint64
	var whole *pb.ExportedEvent
	err = each(stream, func(e *pb.ExportedEvent) error {
		if whole == nil {
			whole = e
		} else {
			whole.Detail.Body = append(whole.Detail.Body, e.GetDetail().GetBody()...)
		}
		if e.GetMore() {
			return nil
		}
		one := whole
		whole = nil
		if one.GetLost() != "" {
			lost++
			fmt.Fprintf(errs, "sluice: event %s is left out: %s\n",
				one.GetDetail().GetEvent().GetId(), one.GetLost())
			return nil
		}
		if format == "cloudevents" {
			return jsonLine(lines, newCloudEvent(one))
		}
		return jsonLine(lines, newExportShape(one))
	})
	if err := lines.Flush(); err != nil {
		return err
	}
	if err == nil && lost > 0 {
		return fmt.Errorf("%s lost; see `sluice fsck`", plural(lost, "event is", "events are"))
	}
	return err
}

// exportShape is an event as `events show --json` has it, and what another host needs beside that.
type exportShape struct {
	detailShape
	HeadersRaw [][2][]byte `json:"headers_raw,omitempty"` // base64, where headers cannot tell
	DedupKey   []byte      `json:"dedup_key,omitempty"`
	DedupUntil *string     `json:"dedup_until,omitempty"`
	OrderKey   uint64      `json:"order_key,string,omitempty"`
	Unverified bool        `json:"unverified,omitempty"`
	Client     []byte      `json:"client,omitempty"`
}

func newExportShape(e *pb.ExportedEvent) exportShape {
	out := exportShape{
		detailShape: newDetailShape(e.GetDetail()), DedupKey: e.GetDedupKey(),
		DedupUntil: moment(e.GetDedupUntilNs()), OrderKey: e.GetOrderKey(),
		Unverified: e.GetUnverified(), Client: e.GetClient(),
	}
	plain := true
	for _, h := range e.GetDetail().GetHeaders() {
		plain = plain && utf8.Valid(h.GetName()) && utf8.Valid(h.GetValue())
		out.HeadersRaw = append(out.HeadersRaw, [2][]byte{h.GetName(), h.GetValue()})
	}
	if plain {
		out.HeadersRaw = nil
	}
	return out
}

// cloudEvent is CloudEvents 1.0 in structured JSON. The names of extensions are of lower case and
// digits, as the specification wants them.
type cloudEvent struct {
	SpecVersion string          `json:"specversion"`
	ID          string          `json:"id"`
	Source      string          `json:"source"`
	Type        string          `json:"type"`
	Time        *string         `json:"time"`
	ContentType string          `json:"datacontenttype,omitempty"`
	Data        json.RawMessage `json:"data,omitempty"`
	DataBase64  []byte          `json:"data_base64,omitempty"`
	ProviderID  string          `json:"providerid,omitempty"`
	State       string          `json:"sluicestate"`
}

func newCloudEvent(e *pb.ExportedEvent) cloudEvent {
	d := e.GetDetail()
	out := cloudEvent{
		SpecVersion: "1.0", ID: d.GetEvent().GetId(), Source: "/sluice/" + d.GetEvent().GetSource(),
		Type: d.GetEvent().GetType(), Time: moment(d.GetEvent().GetReceivedNs()),
		ProviderID: d.GetEvent().GetProviderId(), State: d.GetEvent().GetState(),
	}
	if out.Type == "" { // the attribute is required
		out.Type = "sluice.webhook"
	}
	for _, h := range d.GetHeaders() {
		if strings.EqualFold(string(h.GetName()), "Content-Type") && utf8.Valid(h.GetValue()) {
			out.ContentType = string(h.GetValue())
			break
		}
	}
	// `data` would be read as JSON: it has the body where that is exactly what it is.
	kind, _, _ := strings.Cut(out.ContentType, ";")
	kind = strings.TrimSpace(kind)
	if (kind == jsonType || strings.HasSuffix(kind, "+json")) && json.Valid(d.GetBody()) {
		out.Data = d.GetBody()
	} else if len(d.GetBody()) > 0 {
		out.DataBase64 = d.GetBody()
	}
	return out
}
