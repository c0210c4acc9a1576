package app

import (
	"slices"
	"strings"

	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/router/kvevents"
)

// maxExampleBytes bounds the example of a problem; messages hold names that come from outside.
const maxExampleBytes = 512

// problems lists what is wrong with workers and their events now.
func (a *App) problems() []kvevents.Problem {
	list := unselected(a.workers.Snapshot())
	if a.events != nil {
		list = append(append(list, a.events.feed.Problems()...), a.tokenProblems()...)
	}
	return list
}

// summarize counts what is wrong by code, in the order of codes: workers, or ranks where the problem is a rank's own.
func summarize(list []kvevents.Problem) []status.Problem {
	var out []status.Problem
	counted := map[[2]string]bool{}
	for _, p := range list {
		code := status.Code(p.Code)
		at := slices.IndexFunc(out, func(s status.Problem) bool { return s.Code == code })
		if at < 0 {
			if len(out) == status.MaxProblems {
				continue
			}
			at = len(out)
			out = append(out, status.Problem{Code: code, Example: example(p)})
		}
		if id := [2]string{p.Code, p.Worker}; code == status.CodeKVStreamUntrusted || !counted[id] {
			counted[id] = true
			out[at].Count++
		}
	}
	slices.SortFunc(out, func(a, b status.Problem) int { return strings.Compare(string(a.Code), string(b.Code)) })
	return out
}

func example(p kvevents.Problem) string {
	return clip(p.Worker + ": " + p.Message)
}

// clip bounds an example.
func clip(text string) string {
	if len(text) > maxExampleBytes {
		text = strings.ToValidUTF8(text[:maxExampleBytes], "") + "..."
	}
	return text
}
