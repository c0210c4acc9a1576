package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ErrNoResult says that the load generator ended without telling how it went.
var ErrNoResult = errors.New("the load generator ended without a result line")

// LoadEvent is one line of the load generator's output; the field that is not nil is what it holds.
type LoadEvent struct {
	Progress *LoadProgress
	Result   *LoadResult
}

// LoadProgress is printed once a second.
type LoadProgress struct {
	Done   int     `json:"done"`
	Total  int     `json:"total"`
	Failed int     `json:"failed"`
	RPS    float64 `json:"rps"`
}

// LoadResult is printed at the end.
type LoadResult struct {
	Requests int            `json:"requests"`
	OK       int            `json:"ok"`
	Failed   int            `json:"failed"`
	Errors   map[string]int `json:"errors"`
	Failures []string       `json:"failures"`
}

// ParseLoad reads a line of the load generator.
func ParseLoad(line []byte) (event LoadEvent, err error) {
	var kind struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(line, &kind); err != nil {
		return event, fmt.Errorf("read a line of the load generator: %w: %.200q", err, line)
	}
	switch kind.Type {
	case "progress":
		event.Progress = &LoadProgress{}
		err = json.Unmarshal(line, event.Progress)
	case "result":
		event.Result = &LoadResult{}
		err = json.Unmarshal(line, event.Result)
	}
	if err != nil {
		return event, fmt.Errorf("read a %s of the load generator: %w: %.200q", kind.Type, err, line)
	}
	return event, nil
}

// Lines tells the result to a person.
func (r *LoadResult) Lines() []string {
	lines := []string{fmt.Sprintf("%d requests, %d failed", r.Requests, r.Failed)}
	for _, code := range slices.Sorted(maps.Keys(r.Errors)) {
		lines = append(lines, fmt.Sprintf("  %s: %d", code, r.Errors[code]))
	}
	return lines
}
