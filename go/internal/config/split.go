package config

import "net/url"

// proofOptions reads what of the proof is the operator's to say beside the scheme.
func (r *reader) proofOptions(t *table, s *Source, facts Provider) {
	s.AllowLegacy = value(t, "allow_legacy", false, parseBool)
	s.URL = value(t, "url", "", parseText, checkPublicURL)
	if facts.SignsURL && !t.has("url") {
		r.fault(t.path, "write url: https://… as its sender was given it",
			"the sender of source %s signs the URL that it calls, which nothing here says", s.Name)
	}
}

// checkPublicURL takes a URL as a sender was given it.
func checkPublicURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "" {
		return wrong("write it as https://hooks.example.com/hooks/shop",
			"%q is no URL that a sender calls", text)
	}
	return nil
}

// split reads whether the items of a body become events of their own.
func (r *reader) split(t *table, s *Source, facts Provider) {
	if s.Split = value(t, "split", false, parseBool); !s.Split {
		return
	}
	path := t.join("split")
	if !facts.Batches {
		r.fault(path, "take it out, or name the list under batch: in a scheme of your own",
			"the provider of source %s sends one event in a body, as far as is known", s.Name)
	}
	if s.Acknowledge == "delivered" {
		r.fault(path, "write acknowledge: durable",
			"the items of a body are delivered one by one, and nobody can wait for all of them")
	}
}
