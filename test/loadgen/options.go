package loadgen

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"time"
)

// Mode is what a run sends.
type Mode string

// The modes; the package doc describes them.
const (
	Trace  Mode = "trace"
	Steady Mode = "steady"
)

// Options configure a run. Zero values mean the documented defaults.
type Options struct {
	// Target is the base URL that load goes to. Required.
	Target string
	// Direct is the base URL of an engine; when set, the run ends with a probe
	// that compares the two. Default "": no probe.
	Direct string
	// Model is sent with every request. Default "": the target's first model.
	Model string
	// Mode is Trace or Steady. Default Trace.
	Mode Mode
	// Requests ends the run after so many. Default 0: the whole trace, or until
	// Duration is over.
	Requests int
	// Duration ends the sending; what is on its way is still waited for. Default
	// 0: no end in Trace mode; Steady needs this or Requests.
	Duration time.Duration
	// Connections is how many requests are on their way at once, each on a
	// connection of its own that is kept. Default 8.
	Connections int
	// NewConnections opens a connection for every request instead.
	NewConnections bool
	// Speed divides the trace's times: 2 is twice as fast. Default 0: as fast as
	// the connections allow.
	Speed float64
	// MaxOutput caps the tokens of an answer. Default 0: as the trace says, and 8
	// in Steady mode.
	MaxOutput int
	// Timeout ends one request. Default 10 minutes.
	Timeout time.Duration
	// WaitForModel is how long the target may take to name its first model.
	// Default 30 s. Used when Model is empty.
	WaitForModel time.Duration
	// ProbePairs is how many pairs the probe measures. Default 200.
	ProbePairs int

	// Output receives JSON lines. Default: nothing is written.
	Output io.Writer
}

func (o Options) withDefaults() Options {
	setDefault(&o.Mode, Trace)
	setDefault(&o.Connections, 8)
	setDefault(&o.Timeout, 10*time.Minute)
	setDefault(&o.WaitForModel, 30*time.Second)
	setDefault(&o.ProbePairs, 200)
	if o.Mode == Steady {
		setDefault(&o.MaxOutput, 8)
	}
	if o.Output == nil {
		o.Output = io.Discard
	}
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports everything wrong at once.
func (o Options) Validate() error {
	o = o.withDefaults()
	errs := []error{checkURL("Target", o.Target)}
	if o.Direct != "" {
		errs = append(errs, checkURL("Direct", o.Direct))
	}
	if o.Mode != Trace && o.Mode != Steady {
		errs = append(errs, fmt.Errorf("Mode: %q, want %s or %s", o.Mode, Trace, Steady))
	}
	if o.Mode == Steady && o.Requests == 0 && o.Duration == 0 {
		errs = append(errs, errors.New("Duration: steady mode needs an end; set it, or Requests"))
	}
	if o.Speed < 0 || math.IsNaN(o.Speed) || math.IsInf(o.Speed, 0) {
		errs = append(errs, fmt.Errorf("Speed: %v, want a number of at least 0 (0: as fast as possible)", o.Speed))
	}
	errs = append(errs,
		between("Connections", o.Connections, 1, maxConnections),
		between("Requests", o.Requests, 0, maxRequests),
		between("MaxOutput", o.MaxOutput, 0, maxRequests),
		between("ProbePairs", o.ProbePairs, 1, maxProbePairs),
		between("Duration", o.Duration, 0, maxDuration),
		between("Timeout", o.Timeout, time.Millisecond, maxDuration),
		between("WaitForModel", o.WaitForModel, 0, maxDuration),
	)
	return errors.Join(errs...)
}

func checkURL(field, value string) error {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("%s: %q, want a base URL such as http://router:30000", field, value)
	}
	return nil
}

func between[T int | time.Duration](field string, got, low, high T) error {
	if got < low || got > high {
		return fmt.Errorf("%s: %v, want %v to %v", field, got, low, high)
	}
	return nil
}
