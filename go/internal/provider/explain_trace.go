package provider

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Local times are whole half hours from UTC, but for three small zones; a request is delivered
// within zoneSlack.
const (
	zoneStep  = 30 * time.Minute
	zoneMax   = 14 * time.Hour
	zoneSlack = 20 * time.Second
)

// timeFindings say why a time is too far away although the signature holds.
func (e *Explanation) timeFindings(r *Request) []Finding {
	way := &e.Ways[e.Best]
	t := way.Time
	if t == nil || t.Sent.IsZero() {
		return []Finding{{Name: "signature-old", Proven: true, Secret: -1, Fault: faultSender,
			Says: "the signature holds, but by its own time it is over",
			Mend: "judge it at the time of receipt with --at, or let the sender sign anew"}}
	}
	received := time.Unix(0, r.ReceivedNS)
	near := func(sent time.Time) bool { return received.Sub(sent).Abs() <= t.Tolerance }
	f := Finding{Proven: true, Secret: -1, Fault: faultSender}
	number, _ := strconv.ParseInt(t.Text, 10, 64)
	zone := t.Skew.Round(zoneStep)
	switch {
	case number > 0 && near(time.Unix(number, 0)):
		f.Name, f.Says = "time-unit", "the time is in seconds where this sender has milliseconds"
		f.Mend = "send milliseconds, or write a scheme with format: unix-s"
	case number > 0 && near(time.UnixMilli(number)):
		f.Name, f.Says = "time-unit", "the time is in milliseconds where this sender has seconds"
		f.Mend = "send seconds, or write a scheme with format: unix-ms"
	case zone != 0 && zone.Abs() <= zoneMax && (t.Skew-zone).Abs() <= zoneSlack:
		f.Name = "time-zone"
		f.Says = fmt.Sprintf("the time is off by %s, as a local time that is taken for UTC is", zone)
		f.Mend = "let the sender take the time in UTC; is it a repeat instead, it is too old"
	case t.Skew < 0:
		f.Name, f.Says = "time-ahead", "the sender's clock is ahead of the one of receipt"
		f.Mend = "set the clocks by NTP; with --at it is the given time that is too early"
	default:
		f.Name, f.Says = "time-old", "the request is old: it waited, was replayed, or a clock is wrong"
		f.Fault = faultReceiver
		f.Mend = "judge it at the time of receipt with --at UNIX; if that is now, set the clocks by NTP"
	}
	return []Finding{f}
}

// traces are what mistakes leave behind that cannot be undone.
func traces(a attempt, e *Explanation) []Finding {
	var list []Finding
	add := func(name, fault, says, mend string) {
		list = append(list, Finding{Name: name, Fault: fault, Says: says, Mend: mend, Secret: -1})
	}
	r := &a.request
	field := func(name string) []byte {
		for i := range r.Headers {
			if equalFold(r.Headers[i].Name, name) {
				return trimBlank(r.Headers[i].Value)
			}
		}
		return nil
	}
	length, err := strconv.Atoi(string(field("content-length")))
	differs := err == nil && length != len(r.Body)
	usable := func(s SecretUse) bool { return s.Fault == "" }
	switch e.Verdict.Outcome {
	case MissingHeader:
		add("header-lost", faultSender, e.Verdict.Detail+", and nothing like it is there",
			"see that a secret is set at the sender, and that no proxy drops unknown fields")
		return list
	case Malformed:
		if len(r.URL) == 0 && a.signsURL() {
			add("url-unknown", faultSource, "the sender signs its URL, and none is given",
				"set url of the source, or here --url, to the URL as it is entered at the sender")
		}
	}
	if !slices.ContainsFunc(e.Secrets, usable) {
		add("no-secret", faultSecret, "no secret is given that could match",
			"give the one that the sender shows")
	}
	switch {
	case len(r.Body) == 0 && (length > 0 || len(field("content-type")) > 0 && err != nil):
		add("body-empty", faultReceiver, "the body is empty, and it was not when it was sent",
			keepBytes+"; a parser that ran before has read it away")
	case differs && field("transfer-encoding") == nil:
		add("body-length", faultReceiver, fmt.Sprintf(
			"Content-Length is %d and the body has %d bytes, so it is not the one that was sent",
			length, len(r.Body)), keepBytes)
	}
	if coding := field("content-encoding"); len(coding) > 0 && !bytes.EqualFold(coding,
		[]byte("identity")) && !bytes.HasPrefix(r.Body, []byte{0x1f, 0x8b}) {
		add("body-unpacked", faultProxy, "Content-Encoding is there and the body is not packed: "+
			"something unpacked it, and packing it again gives other bytes",
			"verify before anything unpacks the body")
	}
	if bytes.Contains(r.Body, []byte("\uFFFD")) {
		add("body-replaced", faultReceiver, "the body has replacement characters (U+FFFD): "+
			"bytes that were no text were lost", keepBytes)
	}
	return list
}
