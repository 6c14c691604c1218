package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/go/internal/provider"
)

// verifyFlags are one request to judge.
type verifyFlags struct {
	secrets, components        []string
	headers, body, method, url string
	at                         int64
	tolerance                  time.Duration
	json                       bool
}

func verifyCommand() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify PROVIDER",
		Short: "say why a signature does or does not hold",
		Long: `Judges a request as the daemon would. --headers is a file of "Name: value" lines,
--body one of the body's bytes; - is standard input. Exit code 0: the signature holds.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
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
	asJSON(cmd, &f.json, false)
	return cmd
}

func (f *verifyFlags) run(cmd *cobra.Command, name string) error {
	scheme, err := lookupScheme(name)
	if err != nil {
		return err
	}
	secrets, err := parseSecrets(f.secrets)
	if err != nil {
		return err
	}
	r, err := f.request(cmd)
	if err != nil {
		return err
	}
	o := provider.Options{Components: f.components, AllowLegacy: true, KeepUnusable: true}
	if cmd.Flags().Changed("tolerance") {
		o.Tolerance = &f.tolerance
	}
	verifier, err := provider.Compile(scheme, secrets, o)
	if err != nil {
		return usage(err)
	}
	v := verifier.Verify(r)
	if err := f.print(cmd.OutOrStdout(), v, secrets); err != nil {
		return err
	}
	if v.Outcome != provider.OK {
		return silent{exitFailed}
	}
	return nil
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

func (f *verifyFlags) print(w io.Writer, v provider.Verdict, secrets []provider.Secret) error {
	if f.json {
		out := struct {
			Outcome   string  `json:"outcome"`
			Key       *int    `json:"key"` // which --secret, from 0
			KeyID     string  `json:"key_id,omitempty"`
			EventID   *string `json:"event_id"`
			EventType *string `json:"event_type"`
			Handshake bool    `json:"handshake"`
			Detail    string  `json:"detail"`
		}{Outcome: v.Outcome.String(), Handshake: v.Response != nil, Detail: v.Detail,
			EventID: textOrNil(v.EventID), EventType: textOrNil(v.EventType)}
		if v.Secret >= 0 {
			out.Key, out.KeyID = &v.Secret, secrets[v.Secret].KeyID
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
		row(t, "handshake", fmt.Sprintf("answered with %d, no event", v.Response.Status))
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
