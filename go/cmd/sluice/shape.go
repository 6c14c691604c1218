package main

import (
	"unicode/utf8"

	pb "sluice/proto/sluice/v1"
)

// The shapes that scripts read. A field that is here stays; more may come.

type statusShape struct {
	Ready         bool               `json:"ready"`
	Generation    uint32             `json:"generation"`
	ConfigVersion uint32             `json:"config_version"`
	UptimeS       float64            `json:"uptime_s"`
	Listeners     []listenerShape    `json:"listeners"`
	Admission     admissionShape     `json:"admission"`
	Journal       journalShape       `json:"journal"`
	Sources       []sourceShape      `json:"sources"`
	Destinations  []destinationShape `json:"destinations"`
	DataPlane     dataPlaneShape     `json:"dataplane"`
	Problems      []string           `json:"problems"`
	Version       string             `json:"version"`
}

type listenerShape struct {
	Address string `json:"address"`
}

type admissionShape struct {
	Limit      uint64 `json:"limit"`
	Inflight   uint64 `json:"inflight"`
	Held       uint64 `json:"held"`
	Overloaded bool   `json:"overloaded"`

	OverloadedClasses []string `json:"overloaded_classes"`
}

type journalShape struct {
	Bytes        uint64   `json:"bytes"`
	Events       uint64   `json:"events"`
	OldestS      float64  `json:"oldest_s"`
	Writable     bool     `json:"writable"`
	ID           string   `json:"id"`
	DurableGroup uint64   `json:"durable_group"`
	AppliedGroup uint64   `json:"applied_group"`
	Damage       []string `json:"damage"`
}

type sourceShape struct {
	Name         string  `json:"name"`
	Accepted     uint64  `json:"accepted"`
	Duplicates   uint64  `json:"duplicates"`
	Unauthorized uint64  `json:"unauthorized"`
	Refused      uint64  `json:"refused"`
	RefusedInRow uint64  `json:"refused_in_row"`
	Guarded      bool    `json:"guarded"`
	Provider     string  `json:"provider"`
	Enforce      bool    `json:"enforce"`
	Unverified   uint64  `json:"unverified"`
	LastEventAt  *string `json:"last_event_at"`

	Secrets []secretShape `json:"secrets"`

	Silent     bool            `json:"silent"`
	Reconciled *reconcileShape `json:"reconciled"`
}

type destinationShape struct {
	Name    string  `json:"name"`
	Breaker string  `json:"breaker"`
	Backlog uint64  `json:"backlog"`
	Dead    uint64  `json:"dead"`
	OldestS float64 `json:"oldest_s"`

	Inflight uint64 `json:"inflight"`
	Limit    uint64 `json:"limit"`
}

type dataPlaneShape struct {
	Pid      uint32 `json:"pid"`
	Driver   string `json:"driver"`
	Restarts uint64 `json:"restarts"`
	// Why it is not io_uring; what the process gave up, and what the host does not give of that.
	DriverReason  string   `json:"driver_reason"`
	Sandbox       []string `json:"sandbox"`
	SandboxReason string   `json:"sandbox_reason"`
	Retiring      uint32   `json:"retiring"`
}

func newStatusShape(s *pb.Status) statusShape {
	a, j, p := s.GetAdmission(), s.GetJournal(), s.GetDataplane()
	out := statusShape{
		Ready: s.GetReady(), Generation: s.GetGeneration(), ConfigVersion: s.GetConfigVersion(),
		UptimeS: s.GetUptimeS(), Version: s.GetVersion(), Problems: list(s.GetProblems()),
		Admission: admissionShape{a.GetLimit(), a.GetInflight(), a.GetHeld(), a.GetOverloaded(),
			list(a.GetOverloadedClasses())},
		Journal: journalShape{
			Bytes: j.GetBytes(), Events: j.GetEvents(), OldestS: j.GetOldestS(),
			Writable: j.GetWritable(), ID: j.GetId(), DurableGroup: j.GetDurableGroup(),
			AppliedGroup: j.GetAppliedGroup(), Damage: list(j.GetDamage()),
		},
		DataPlane: dataPlaneShape{
			p.GetPid(), p.GetDriver(), p.GetRestarts(), p.GetDriverReason(), list(p.GetSandbox()),
			p.GetSandboxReason(), p.GetRetiring(),
		},
		Listeners: []listenerShape{}, Sources: []sourceShape{}, Destinations: []destinationShape{},
	}
	for _, l := range s.GetListeners() {
		out.Listeners = append(out.Listeners, listenerShape{l.GetAddress()})
	}
	for _, n := range s.GetSources() {
		out.Sources = append(out.Sources, sourceShape{n.GetName(), n.GetAccepted(),
			n.GetDuplicates(), n.GetUnauthorized(), n.GetRefused(), n.GetRefusedInRow(), n.GetGuarded(),
			n.GetProvider(), n.GetEnforce(), n.GetUnverified(), moment(n.GetLastEventNs()),
			secretShapes(n.GetSecrets()),
			n.GetSilent(), newReconcileShape(n.GetReconciled())})
	}
	for _, d := range s.GetDestinations() {
		out.Destinations = append(out.Destinations, destinationShape{d.GetName(), d.GetBreaker(),
			d.GetBacklog(), d.GetDead(), d.GetOldestS(), d.GetInflight(), d.GetLimit()})
	}
	return out
}

// list makes an empty list of none, which scripts can go through.
func list(of []string) []string {
	if of == nil {
		return []string{}
	}
	return of
}

type eventShape struct {
	ID           string                  `json:"id"`
	Source       string                  `json:"source"`
	ProviderID   string                  `json:"provider_id"`
	Type         string                  `json:"type"`
	ReceivedAt   *string                 `json:"received_at"`
	Size         uint64                  `json:"size"`
	State        string                  `json:"state"`
	Destinations []eventDestinationShape `json:"destinations"`
}

type eventDestinationShape struct {
	Name          string  `json:"name"`
	State         string  `json:"state"`
	Attempts      uint32  `json:"attempts"`
	NextAttemptAt *string `json:"next_attempt_at"`
	LastError     string  `json:"last_error"`
}

func newEventShape(e *pb.Event) eventShape {
	out := eventShape{
		ID: e.GetId(), Source: e.GetSource(), ProviderID: e.GetProviderId(), Type: e.GetType(),
		ReceivedAt: moment(e.GetReceivedNs()), Size: e.GetSize(), State: e.GetState(),
		Destinations: []eventDestinationShape{},
	}
	for _, d := range e.GetDestinations() {
		out.Destinations = append(out.Destinations, eventDestinationShape{d.GetName(), d.GetState(),
			d.GetAttempts(), moment(d.GetNextAttemptNs()), d.GetLastError()})
	}
	return out
}

type detailShape struct {
	eventShape
	Method      string         `json:"method"`
	Target      string         `json:"target"`
	Peer        string         `json:"peer"`
	Acknowledge string         `json:"acknowledge"`
	SecretIndex uint32         `json:"secret_index"`
	Unverified  string         `json:"unverified,omitempty"`
	Batch       string         `json:"batch,omitempty"`
	Item        *uint32        `json:"item,omitempty"`
	Items       []string       `json:"items,omitempty"`
	Headers     [][2]string    `json:"headers"`
	Body        []byte         `json:"body"` // base64
	Attempts    []attemptShape `json:"attempts"`
}

type attemptShape struct {
	Destination   string  `json:"destination"`
	Outcome       string  `json:"outcome"`
	Attempt       uint32  `json:"attempt"`
	Code          uint32  `json:"code"`
	At            *string `json:"at"`
	NextAttemptAt *string `json:"next_attempt_at"`
	Error         string  `json:"error"`
	By            string  `json:"by"`
	Blocks        bool    `json:"blocks,omitempty"`
}

func newDetailShape(e *pb.EventDetail) detailShape {
	out := detailShape{
		eventShape: newEventShape(e.GetEvent()), Method: e.GetMethod(), Target: e.GetTarget(),
		Peer: e.GetPeer(), Acknowledge: e.GetAcknowledge(), SecretIndex: e.GetSecretIndex(),
		Headers: [][2]string{}, Body: append([]byte{}, e.GetBody()...), Attempts: []attemptShape{},
		Unverified: e.GetUnverified(), Batch: e.GetBatch(), Items: e.GetItems(),
	}
	if out.Batch != "" {
		out.Item = &e.Item
	}
	for _, h := range e.GetHeaders() {
		out.Headers = append(out.Headers, [2]string{string(h.GetName()), fieldText(h.GetValue())})
	}
	for _, a := range e.GetAttempts() {
		out.Attempts = append(out.Attempts, attemptShape{a.GetDestination(), a.GetOutcome(),
			a.GetAttempt(), a.GetCode(), moment(a.GetAtNs()), moment(a.GetNextNs()), a.GetError(),
			a.GetBy(), a.GetBlocks()})
	}
	return out
}

// fieldText is a header's value as text: UTF-8 where it is that, otherwise a character for each
// byte (ISO 8859-1, RFC 9110 section 5.5), so that no byte is lost.
func fieldText(value []byte) string {
	if utf8.Valid(value) {
		return string(value)
	}
	runes := make([]rune, len(value))
	for i, b := range value {
		runes[i] = rune(b)
	}
	return string(runes)
}

type deadLetterShape struct {
	ID          string  `json:"id"`
	Source      string  `json:"source"`
	Destination string  `json:"destination"`
	Attempts    uint32  `json:"attempts"`
	LastError   string  `json:"last_error"`
	DeadAt      *string `json:"dead_at"`
}

func newDeadLetterShape(d *pb.DeadLetter) deadLetterShape {
	return deadLetterShape{d.GetId(), d.GetSource(), d.GetDestination(), d.GetAttempts(),
		d.GetLastError(), moment(d.GetDeadNs())}
}

type limitsShape struct {
	Algorithm   string  `json:"algorithm"`
	Limit       uint64  `json:"limit"`
	Min         uint64  `json:"min"`
	Max         uint64  `json:"max"`
	PinnedUntil *string `json:"pinned_until"`
	MaxHeld     uint64  `json:"max_held"`
	HoldBudgetS float64 `json:"hold_budget_s"`
	Inflight    uint64  `json:"inflight"`
	Held        uint64  `json:"held"`

	Base         float64       `json:"base"`
	ServiceTimeS float64       `json:"service_time_s"`
	Throughput   float64       `json:"throughput"`
	HoldBoundS   float64       `json:"hold_bound_s"`
	ShareRate    float64       `json:"share_rate"`
	Changes      []changeShape `json:"changes"`
}

type changeShape struct {
	At     *string `json:"at"`
	From   float64 `json:"from"`
	To     float64 `json:"to"`
	Reason string  `json:"reason"`
}

func newLimitsShape(l *pb.Limits) limitsShape {
	out := limitsShape{
		Algorithm: l.GetAlgorithm(), Limit: l.GetLimit(), Min: l.GetMin(), Max: l.GetMax(),
		PinnedUntil: moment(l.GetPinnedUntilNs()), MaxHeld: l.GetMaxHeld(),
		HoldBudgetS: float64(l.GetHoldBudgetNs()) / 1e9, Inflight: l.GetInflight(),
		Held: l.GetHeld(), Base: l.GetBase(), ServiceTimeS: float64(l.GetServiceTimeNs()) / 1e9,
		Throughput: l.GetThroughput(), HoldBoundS: float64(l.GetHoldBoundNs()) / 1e9,
		ShareRate: l.GetShareRate(), Changes: []changeShape{},
	}
	for _, c := range l.GetChanges() {
		out.Changes = append(out.Changes,
			changeShape{moment(c.GetAtNs()), c.GetFrom(), c.GetTo(), c.GetReason()})
	}
	return out
}
