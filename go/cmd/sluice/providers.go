package main

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
)

func providersCommand() *cobra.Command {
	return group("providers", "what the catalogue knows about each sender",
		providersListCommand(), providersShowCommand())
}

func providersListCommand() *cobra.Command {
	var inJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "all senders, in a line each", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t := table(cmd.OutOrStdout(), "NAME", "SENDER", "PROOF", "DEADLINE", "RETRIES")
			for _, name := range catalogue.Names() {
				p := newProviderPage(name)
				if inJSON {
					if err := jsonLine(cmd.OutOrStdout(), p); err != nil {
						return err
					}
					continue
				}
				row(t, p.Name, p.Title, p.proof(), p.fact("deadline"), p.retries())
			}
			if inJSON {
				return nil
			}
			return t.Flush()
		},
	}
	asJSON(cmd, &inJSON, true)
	return cmd
}

func providersShowCommand() *cobra.Command {
	var inJSON bool
	cmd := &cobra.Command{
		Use: "show NAME", Short: "how a sender signs, asks and retries, and what to configure",
		Args: cobra.ExactArgs(1),
		Long: `Shows how a sender proves its requests, what it asks before it sends events, where its ids
are, how it delivers and retries, with the page on which that stands and the day on which it was
read there, and a source for the config to paste.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := lookupScheme(args[0]); err != nil {
				return err
			}
			p := newProviderPage(args[0])
			if inJSON {
				return jsonLine(cmd.OutOrStdout(), p)
			}
			return p.print(cmd.OutOrStdout())
		},
	}
	asJSON(cmd, &inJSON, false)
	return cmd
}

// providerPage is all that is told about one sender.
type providerPage struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Setup is where at the sender the secret is.
	Setup      string           `json:"setup,omitempty"`
	Proofs     []providerProof  `json:"proofs"`
	Handshakes []handshakeTold  `json:"handshakes"`
	ID         []string         `json:"id"`
	Type       []string         `json:"type"`
	Batch      string           `json:"batch,omitempty"`
	Methods    []string         `json:"methods"`
	Contract   []contractFact   `json:"contract"`
	Config     string           `json:"config"` // of a source, to paste
	scheme     *provider.Scheme `json:"-"`
}

type providerProof struct {
	Proof     []string `json:"proof"`
	Signs     []string `json:"signs"`
	Secret    []string `json:"secret"`
	Tolerance *float64 `json:"tolerance_seconds"`
	Legacy    bool     `json:"legacy"`
}

type handshakeTold struct {
	Name    string `json:"name"`
	Method  string `json:"method,omitempty"`
	Signed  bool   `json:"signed"`
	Status  int    `json:"status"`
	Learns  string `json:"learns,omitempty"` // the role of the secret that it brings
	Secrets bool   `json:"needs_secret"`
}

type contractFact struct {
	Fact     string `json:"fact"`
	Value    any    `json:"value"`
	Verified bool   `json:"verified"`
	Checked  string `json:"checked,omitempty"`
	Source   string `json:"source"`
}

func newProviderPage(name string) *providerPage {
	s, _ := catalogue.Lookup(name)
	p := &providerPage{
		Name: s.Name, Title: s.Title, Setup: s.Setup, Proofs: []providerProof{},
		Handshakes: []handshakeTold{}, ID: sourceTexts(provider.IDFrom{}.Places(s)),
		Type: sourceTexts(s.Type), Methods: s.Methods(), Contract: contractFacts(&s.Contract),
		Config: providerConfig(s), scheme: s,
	}
	for i := range s.AnyOf {
		p.Proofs = append(p.Proofs, newProviderProof(&s.AnyOf[i]))
	}
	for _, h := range s.Handshakes {
		told := handshakeTold{Name: h.Name, Method: h.Method, Signed: h.Signed, Status: h.Status}
		if h.Store != nil {
			told.Learns = h.Store.Role
		}
		told.Secrets = slices.ContainsFunc(h.Match, func(m provider.Match) bool {
			return m.Secret != ""
		})
		p.Handshakes = append(p.Handshakes, told)
	}
	if s.Batch != nil {
		p.Batch = s.Batch.Items.String()
	}
	return p
}

func newProviderProof(v *provider.Variant) providerProof {
	p := providerProof{Proof: v.Proves(), Signs: v.Signs(), Secret: []string{}, Legacy: v.Legacy}
	for i := range v.Proofs {
		if text := v.Proofs[i].Describe(); text != "" && !slices.Contains(p.Secret, text) {
			p.Secret = append(p.Secret, text)
		}
	}
	if p.Signs == nil {
		p.Signs = []string{}
	}
	if t := max(v.Timestamp.Tolerance, v.MaxAge); t > 0 {
		seconds := t.Seconds()
		p.Tolerance = &seconds
	}
	return p
}

func sourceTexts(sources []provider.Source) []string {
	texts := make([]string, len(sources))
	for i, source := range sources {
		texts[i] = source.String()
	}
	return texts
}

// contractFacts are the known facts of a contract by their names in a profile, which are those of
// the fields in another spelling.
func contractFacts(c *provider.Contract) []contractFact {
	list := []contractFact{}
	fields := reflect.ValueOf(c).Elem()
	for i := range fields.NumField() {
		known, isFact := fields.Field(i).Interface().(interface{ Known() bool })
		if !isFact || !known.Known() {
			continue
		}
		of := fields.Field(i).FieldByName
		value := of("Value").Interface()
		if d, isDuration := value.(time.Duration); isDuration {
			value = spanText(d)
		}
		list = append(list, contractFact{
			Fact: snakeCase(fields.Type().Field(i).Name), Value: value,
			Verified: of("Verified").Bool(), Checked: of("Checked").String(),
			Source: of("Source").String(),
		})
	}
	return list
}

// spanText is a duration without its empty units.
func spanText(d time.Duration) string {
	text := d.String()
	for _, empty := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, empty) {
			text = text[:len(text)-2]
		}
	}
	return text
}

func snakeCase(name string) string {
	var out strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return out.String()
}

func (p *providerPage) fact(name string) string {
	for _, f := range p.Contract {
		if f.Fact == name {
			return f.text()
		}
	}
	return ""
}

// text is the value, with a mark on those that were not read in the sender's own text.
func (f *contractFact) text() string {
	text := strings.Trim(fmt.Sprint(f.Value), "[]")
	if !f.Verified {
		text += " ?"
	}
	return text
}

func (p *providerPage) proof() string {
	var words []string
	for i := range p.scheme.AnyOf {
		for _, one := range p.scheme.AnyOf[i].Proofs {
			if word := one.Algorithm.String(); !slices.Contains(words, word) {
				words = append(words, word)
			}
		}
	}
	return strings.Join(words, ", ")
}

func (p *providerPage) retries() string {
	if p.scheme.Contract.NeverRetries.Or(false) {
		return "never"
	}
	times, window := p.fact("retries"), p.fact("retry_window")
	if times != "" && window != "" {
		return times + " in " + window
	}
	return times + window
}

func (p *providerPage) print(w io.Writer) error {
	t := table(w, "name", p.Name)
	row(t, "sender", p.Title)
	for _, proof := range p.Proofs {
		for _, text := range proof.Proof {
			if proof.Legacy {
				text += " (broken in a known way: only with allow_legacy)"
			}
			row(t, "proof", text)
		}
		if len(proof.Signs) > 0 {
			row(t, "  signs", strings.Join(proof.Signs, " "))
		}
		for _, text := range proof.Secret {
			row(t, "  secret", text)
		}
		if proof.Tolerance != nil {
			row(t, "  time", "at most "+
				spanText(time.Duration(*proof.Tolerance*float64(time.Second)))+" off")
		}
	}
	for _, h := range p.Handshakes {
		row(t, "asks", h.text())
	}
	for _, one := range []struct {
		label string
		texts []string
	}{{"event id", p.ID}, {"event type", p.Type}} {
		if len(one.texts) > 0 {
			row(t, one.label, strings.Join(one.texts, ", else "))
		}
	}
	if p.Batch != "" {
		row(t, "batch", "many events in "+p.Batch)
	}
	row(t, "methods", strings.Join(p.Methods, ", "))
	if p.Setup != "" {
		row(t, "set up", p.Setup)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(p.Contract) > 0 {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		facts := table(w, "DELIVERS", "VALUE", "READ", "SOURCE")
		for _, f := range p.Contract {
			read := f.Checked
			switch {
			case !f.Verified:
				read = "not in the sender's own text"
			case read == "":
				read = "yes"
			}
			row(facts, f.Fact, strings.Trim(fmt.Sprint(f.Value), "[]"), read, f.Source)
		}
		if err := facts.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%s", p.Config)
	return err
}

func (h *handshakeTold) text() string {
	text := h.Name
	if h.Method != "" {
		text += " by " + h.Method
	}
	text += fmt.Sprintf(": answered with %d", h.Status)
	if h.Signed {
		text += ", after the proof held"
	}
	if h.Secrets {
		text += ", if a secret of its own is right"
	}
	if h.Learns != "" {
		text += ", brings the secret"
	}
	return text
}
