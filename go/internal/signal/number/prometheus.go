package number

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Prometheus measures the present result of a PromQL query at the server whose address, with its
// path prefix if it has one, is the URL. Of a vector the largest value counts; an empty one, and
// NaN, say nothing. The format is that of the HTTP API's instant queries:
// https://prometheus.io/docs/prometheus/latest/querying/api/
func Prometheus(o Options, query string) (*Source, error) {
	if query == "" {
		return nil, errors.New("signal: there is no Prometheus query")
	}
	s, err := newSource(o)
	if err != nil {
		return nil, err
	}
	s.url = s.url.JoinPath("api/v1/query")
	// What the operator wrote into the URL, such as a tenant, stays.
	parameters := s.url.Query()
	parameters.Set("query", query)
	parameters.Set("timeout", s.o.Timeout.String())
	s.url.RawQuery = parameters.Encode()
	s.parse = parsePrometheus
	return s, nil
}

// answer is what Prometheus says, also with a status of 400, 422 or 503.
type answer struct {
	Status    string `json:"status"`
	ErrorType string `json:"errorType"`
	Error     string `json:"error"`
	Data      struct {
		Type   string          `json:"resultType"`
		Result json.RawMessage `json:"result"`
	} `json:"data"`
}

// sample is a time in seconds and a number as a string.
type sample [2]any

func (s sample) number() (float64, bool, error) {
	text, ok := s[1].(string)
	if !ok {
		return 0, false, errors.New("a sample of Prometheus without a value")
	}
	return parseNumber(text)
}

func parsePrometheus(status int, body []byte) (float64, bool, error) {
	var a answer
	err := json.Unmarshal(body, &a)
	if err == nil && a.Status == "error" {
		return 0, false, fmt.Errorf("status %d: %s: %s", status, quoted(a.ErrorType), quoted(a.Error))
	}
	if status < 200 || status > 299 {
		return 0, false, fmt.Errorf("status %d", status)
	}
	if err != nil || a.Status != "success" {
		return 0, false, errors.New("the answer is not that of a Prometheus query")
	}
	switch a.Data.Type {
	case "scalar":
		var one sample
		if err := json.Unmarshal(a.Data.Result, &one); err != nil {
			return 0, false, fmt.Errorf("read the scalar: %w", err)
		}
		return one.number()
	case "vector":
		return largest(a.Data.Result)
	}
	return 0, false, fmt.Errorf("the query gives a %s; write one that gives numbers of one time",
		quoted(a.Data.Type))
}

// largest is the largest finite number of a vector; false: there is none.
func largest(result []byte) (float64, bool, error) {
	var vector []struct {
		Value *sample `json:"value"`
	}
	if err := json.Unmarshal(result, &vector); err != nil {
		return 0, false, fmt.Errorf("read the vector: %w", err)
	}
	var most float64
	var found bool
	for _, element := range vector {
		if element.Value == nil {
			return 0, false, errors.New("the query gives histograms; write one that gives numbers")
		}
		value, ok, err := element.Value.number()
		if err != nil {
			return 0, false, err
		}
		// A division by zero is no measurement, and must not hide one.
		if ok && value-value == 0 && (!found || value > most) {
			most, found = value, true
		}
	}
	return most, found, nil
}
