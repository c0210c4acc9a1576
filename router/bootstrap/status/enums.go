package status

// State is how far the boot is.
type State string

// States.
const (
	StateUnknown       State = "unknown"
	StateStarting      State = "starting"
	StateBootstrapping State = "bootstrapping"
	StateSettled       State = "settled"
)

var states = set(StateUnknown, StateStarting, StateBootstrapping, StateSettled)

// String returns the wire value, "unknown" for anything outside the list.
func (s State) String() string { return string(s.orUnknown()) }

// MarshalText writes the wire value; the zero value is unknown.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a wire value; a value outside the list becomes StateUnknown.
func (s *State) UnmarshalText(b []byte) error {
	*s = State(b).orUnknown()
	return nil
}

func (s State) orUnknown() State { return known(states, s, StateUnknown) }

// Verdict is what the boot won.
type Verdict string

// Verdicts, in the words of the bootstrap protocol.
const (
	VerdictUnknown         Verdict = "unknown"
	VerdictDisabled        Verdict = "disabled"
	VerdictWarm            Verdict = "warm"
	VerdictWarmUnwitnessed Verdict = "warm_unwitnessed"
	VerdictColdNoPeers     Verdict = "cold_no_peers"
	VerdictColdFleet       Verdict = "cold_fleet"
	VerdictColdTimedOut    Verdict = "cold_timed_out"
	VerdictColdPartial     Verdict = "cold_partial"
)

var verdicts = set(VerdictUnknown, VerdictDisabled, VerdictWarm, VerdictWarmUnwitnessed, VerdictColdNoPeers,
	VerdictColdFleet, VerdictColdTimedOut, VerdictColdPartial)

// String returns the wire value, "unknown" for anything outside the list.
func (v Verdict) String() string { return string(v.orUnknown()) }

// MarshalText writes the wire value; the zero value is unknown.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads a wire value; a value outside the list becomes VerdictUnknown.
func (v *Verdict) UnmarshalText(b []byte) error {
	*v = Verdict(b).orUnknown()
	return nil
}

func (v Verdict) orUnknown() Verdict { return known(verdicts, v, VerdictUnknown) }

// Code names a kind of problem; the operator turns codes into condition reasons.
type Code string

// Codes, a closed list.
const (
	CodeUnknown           Code = "unknown"
	CodeForeignEventHost  Code = "foreign_event_host"
	CodeEventSettings     Code = "event_settings"
	CodeKVStreamUntrusted Code = "kv_stream_untrusted"
	CodeTokenParity       Code = "token_parity"
	CodeClockSkew         Code = "clock_skew"
	CodePeerRBAC          Code = "peer_rbac"
	CodeWorkersUnselected Code = "workers_unselected"
)

var codes = set(CodeUnknown, CodeForeignEventHost, CodeEventSettings, CodeKVStreamUntrusted, CodeTokenParity,
	CodeClockSkew, CodePeerRBAC, CodeWorkersUnselected)

// String returns the wire value, "unknown" for anything outside the list.
func (c Code) String() string { return string(c.orUnknown()) }

// MarshalText writes the wire value; the zero value is unknown.
func (c Code) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads a wire value; a value outside the list becomes CodeUnknown.
func (c *Code) UnmarshalText(b []byte) error {
	*c = Code(b).orUnknown()
	return nil
}

func (c Code) orUnknown() Code { return known(codes, c, CodeUnknown) }

func set[T comparable](values ...T) map[T]bool {
	m := make(map[T]bool, len(values))
	for _, v := range values {
		m[v] = true
	}
	return m
}

func known[T comparable](values map[T]bool, v, unknown T) T {
	if values[v] {
		return v
	}
	return unknown
}
