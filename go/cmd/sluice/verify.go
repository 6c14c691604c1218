package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
)

// verifyFlags are one request to judge.
type verifyFlags struct {
	secrets, components        []string
	headers, body, method, url string
	scheme, signedTo           string
	at                         int64
	tolerance                  time.Duration
	explain, learn, json       bool
}

func verifyCommand() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify PROVIDER | verify --scheme FILE",
		Short: "say why a signature does or does not hold",
		Long: `Judges a request as the daemon would. --headers is a file of "Name: value" lines,
--body one of the body's bytes; - is standard input. Exit code 0: the signature holds.

--explain shows the exact signed bytes, what was trimmed or decoded before, each signature and each
secret (never its value), and how far the time is from the time of receipt. If nothing holds it
looks for the mistake by undoing it: JSON that was written anew, a lost line end, a secret in
another form, another URL, another encoding, another provider, and more. It never shows a signature
that the request did not bring, since whoever has one for other bytes could have them taken.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			scheme, err := f.lookup(args)
			if err != nil {
				return err
			}
			return f.run(cmd, scheme)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.secrets, "secret", nil,
		"literal, env:NAME, file:PATH or a JSON object of parts; repeats")
	flags.StringVar(&f.headers, "headers", "", "`FILE` of the headers")
	flags.StringVar(&f.body, "body", "", "`FILE` of the body")
	flags.Int64Var(&f.at, "at", 0, "judge as of this `UNIX` time, in seconds; now without it")
	flags.DurationVar(&f.tolerance, "tolerance", 0,
		"allowed distance of the signed time; the provider's own without it, below 0 none is judged")
	flags.StringVar(&f.method, "method", "POST", "the request's method")
	flags.StringVar(&f.url, "url", "", "the public URL that the sender called")
	flags.StringArrayVar(&f.components, "require", nil,
		"`COMPONENT` that an RFC 9421 signature must cover; repeats")
	flags.StringVar(&f.scheme, "scheme", "",
		"`FILE` of a scheme of your own, in the form of verify in a config")
	flags.BoolVar(&f.explain, "explain", false, "show what was signed, and look for the mistake")
	flags.BoolVar(&f.learn, "learn", false,
		"take a secret that a handshake brings, as while sluice secrets learn waits for it")
	flags.StringVar(&f.signedTo, "signed-to", "", "write the signed bytes whole into this `FILE`")
	asJSON(cmd, &f.json, false)
	return cmd
}

// lookup finds the scheme of the catalogue or reads the one of the operator's own.
func (f *verifyFlags) lookup(args []string) (*provider.Scheme, error) {
	switch {
	case (len(args) == 1) == (f.scheme != ""):
		return nil, usagef("say which: a PROVIDER, or --scheme FILE")
	case f.scheme == "":
		return lookupScheme(args[0])
	}
	text, err := os.ReadFile(f.scheme)
	if err != nil {
		return nil, usagef("--scheme: %w", err)
	}
	scheme, err := catalogue.Parse(text)
	if err != nil {
		faults := schemeFaults(err)
		lines := []string{f.scheme + " is refused: " +
			plural(uint64(len(faults)), "fault", "faults")}
		for _, fault := range faults {
			line := fmt.Sprintf("%s:%d: ", f.scheme, fault.Line)
			if fault.Path != "" {
				line += fault.Path + ": "
			}
			lines = append(lines, line+fault.Problem)
		}
		return nil, usagef("%s", strings.Join(lines, "\n"))
	}
	scheme.Name = filepath.Base(f.scheme)
	return scheme, nil
}

func (f *verifyFlags) run(cmd *cobra.Command, scheme *provider.Scheme) error {
	secrets, err := parseSecrets(f.secrets)
	if err != nil {
		return err
	}
	r, err := f.request(cmd)
	if err != nil {
		return err
	}
	o := provider.Options{Components: f.components, AllowLegacy: true, KeepUnusable: true,
		Learn: f.learn}
	if cmd.Flags().Changed("tolerance") {
		o.Tolerance = &f.tolerance
	}
	e, err := f.judge(scheme, secrets, r, o)
	if err != nil {
		return usage(err)
	}
	if err := f.writeSigned(e); err != nil {
		return err
	}
	if err := f.print(cmd.OutOrStdout(), e, secrets); err != nil {
		return err
	}
	if e.Verdict.Outcome != provider.OK {
		return silent{exitFailed}
	}
	return nil
}

// judge gives a verdict, and how it came about only if that is asked for.
func (f *verifyFlags) judge(
	s *provider.Scheme, secrets []provider.Secret, r *provider.Request, o provider.Options,
) (*provider.Explanation, error) {
	if f.explain || f.signedTo != "" {
		return provider.Explain(s, secrets, r, o, catalogueSchemes())
	}
	verifier, err := provider.Compile(s, secrets, o)
	if err != nil {
		return nil, err
	}
	return &provider.Explanation{Verdict: verifier.Verify(r)}, nil
}

func (f *verifyFlags) request(cmd *cobra.Command) (*provider.Request, error) {
	if f.headers == "" {
		return nil, usagef("say where the headers are with --headers FILE")
	}
	if f.headers == "-" && f.body == "-" {
		return nil, usagef("--headers and --body cannot both be standard input")
	}
	text, err := readInput(cmd, f.headers)
	if err != nil {
		return nil, usagef("--headers: %w", err)
	}
	fields, err := provider.ParseHeaders(text)
	if err != nil {
		return nil, usagef("--headers: %s: %w", f.headers, err)
	}
	var body []byte
	if f.body != "" {
		if body, err = readInput(cmd, f.body); err != nil {
			return nil, usagef("--body: %w", err)
		}
	}
	at := time.Now()
	if cmd.Flags().Changed("at") {
		at = time.Unix(f.at, 0)
	}
	return &provider.Request{
		Method: []byte(f.method), Target: []byte(targetOf(f.url)), URL: []byte(f.url), Body: body,
		Headers: fields, ReceivedNS: at.UnixNano(),
	}, nil
}

func readInput(cmd *cobra.Command, path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(cmd.InOrStdin())
	}
	return os.ReadFile(path)
}

// targetOf is the request target of a URL as it stands, without any normalisation.
func targetOf(url string) string {
	_, rest, found := strings.Cut(url, "://")
	if !found {
		rest = url
	}
	rest, _, _ = strings.Cut(rest, "#")
	switch i := strings.IndexAny(rest, "/?"); {
	case i < 0:
		return "/"
	case rest[i] == '?':
		return "/" + rest[i:]
	default:
		return rest[i:]
	}
}

func (f *verifyFlags) print(
	w io.Writer, e *provider.Explanation, secrets []provider.Secret,
) error {
	v := &e.Verdict
	if f.json {
		out := struct {
			Outcome   string       `json:"outcome"`
			Key       *int         `json:"key"` // which --secret, from 0
			KeyID     string       `json:"key_id,omitempty"`
			EventID   *string      `json:"event_id"`
			EventType *string      `json:"event_type"`
			Handshake bool         `json:"handshake"`
			Detail    string       `json:"detail"`
			Explain   *explanation `json:"explain,omitempty"`
		}{Outcome: v.Outcome.String(), Handshake: v.Response != nil, Detail: v.Detail,
			EventID: textOrNil(v.EventID), EventType: textOrNil(v.EventType)}
		if v.Secret >= 0 {
			out.Key, out.KeyID = &v.Secret, secrets[v.Secret].KeyID
		}
		if f.explain {
			out.Explain = f.explanation(e)
		}
		return jsonLine(w, out)
	}
	text := v.Outcome.String()
	if v.Detail != "" {
		text += ": " + v.Detail
	}
	t := table(w, "outcome", text)
	if v.Secret >= 0 {
		row(t, "secret", fmt.Sprintf("number %d of %d", v.Secret+1, len(secrets)))
	}
	if v.EventID != nil {
		row(t, "event id", string(v.EventID))
	}
	if v.EventType != nil {
		row(t, "event type", string(v.EventType))
	}
	if v.Response != nil {
		text := fmt.Sprintf("answered with %d, no event", v.Response.Status)
		if len(v.Response.Learned) > 0 {
			text += "; it brings the secret"
		}
		row(t, "handshake", text)
	}
	if f.explain {
		f.explanation(e).rows(t)
	}
	return t.Flush()
}

func textOrNil(b []byte) *string {
	if b == nil {
		return nil
	}
	text := string(b)
	return &text
}
