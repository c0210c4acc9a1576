package status

import (
	"encoding/json"
	"fmt"
	"io"
)

// Limits of a document.
const (
	// MaxBytes bounds the body of one answer. A full answer is below 4 kB; the rest is room for later fields.
	MaxBytes = 64 << 10
	// MaxProblems is the length of the closed list of problems (peer-bootstrap B8).
	MaxProblems = 16
	// MaxPeersAsked bounds the list of siblings asked.
	MaxPeersAsked = 16
	// MaxFormats bounds the list of snapshot formats.
	MaxFormats = 8
	// maxText bounds every string, so that a status built from an answer stays small.
	maxText = 1024
)

// LimitError says that a document exceeds a limit.
type LimitError struct {
	What     string
	Got, Max int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("bootstrap status: %s is %d, more than %d", e.What, e.Got, e.Max)
}

// Decode reads one document from r, at most MaxBytes. Unknown fields are ignored, unknown enum values become
// Unknown. Errors are *LimitError for a limit and wrapped otherwise.
func Decode(r io.Reader) (Status, error) {
	body, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return Status{}, fmt.Errorf("read bootstrap status: %w", err)
	}
	if len(body) > MaxBytes {
		return Status{}, &LimitError{"the body in bytes", len(body), MaxBytes}
	}
	s := Status{State: StateUnknown, Verdict: VerdictUnknown}
	if err := json.Unmarshal(body, &s); err != nil {
		return Status{}, fmt.Errorf("decode bootstrap status: %w", err)
	}
	if err := s.check(); err != nil {
		return Status{}, err
	}
	for i := range s.Problems { // a problem without a code is one we do not know
		s.Problems[i].Code = s.Problems[i].Code.orUnknown()
	}
	return s, nil
}

func (s *Status) check() error {
	if n := len(s.Problems); n > MaxProblems {
		return &LimitError{"the number of problems", n, MaxProblems}
	}
	if n := len(s.PeersAsked); n > MaxPeersAsked {
		return &LimitError{"the number of peers asked", n, MaxPeersAsked}
	}
	if n := len(s.SnapshotFormats); n > MaxFormats {
		return &LimitError{"the number of snapshot formats", n, MaxFormats}
	}
	texts := map[string]string{
		"seededFrom": s.SeededFrom,
		"podUID":     s.PodUID, "boot": s.Boot, "revision": s.Revision, "tokenGeneration": s.TokenGeneration, "error": s.Error,
	}
	for _, p := range s.Problems {
		if len(p.Example) > maxText {
			return &LimitError{"a problem's example in bytes", len(p.Example), maxText}
		}
		if p.Count < 0 {
			return fmt.Errorf("bootstrap status: problem %s has count %d", p.Code, p.Count)
		}
	}
	for name, text := range texts {
		if len(text) > maxText {
			return &LimitError{name + " in bytes", len(text), maxText}
		}
	}
	if err := s.Coverage.check(); err != nil {
		return err
	}
	for name, n := range map[string]int{
		"ranks.warm": s.Ranks.Warm, "ranks.pending": s.Ranks.Pending, "ranks.cold": s.Ranks.Cold,
		"workers.discovered": s.Workers.Discovered, "workers.usable": s.Workers.Usable,
		"workers.subscribed": s.Workers.Subscribed, "ranks.total": s.Ranks.Total,
	} {
		if n < 0 {
			return fmt.Errorf("bootstrap status: %s is %d", name, n)
		}
	}
	return nil
}

// check refuses a coverage that counts what cannot be.
func (c *Coverage) check() error {
	if c == nil {
		return nil
	}
	if c.Recoverable < 0 || c.Recovered < 0 || c.Recovered > c.Recoverable {
		return fmt.Errorf("bootstrap status: coverage is %d of %d", c.Recovered, c.Recoverable)
	}
	if c.Percent != nil && (*c.Percent < 0 || *c.Percent > 100) {
		return fmt.Errorf("bootstrap status: coverage is %d percent", *c.Percent)
	}
	return nil
}
