package controllers

import (
	"fmt"
	"strings"

	"github.com/routerfleet/routerfleet/router/bootstrap/status"
)

// eventProblems are the codes about engines' KV events, in the order messages name them.
var eventProblems = []status.Code{status.CodeForeignEventHost, status.CodeEventSettings, status.CodeKVStreamUntrusted}

// eventTrouble names the problems that routers have with engines' KV events, each with the most workers or ranks that any
// replica reports; empty without any. Like all that is said of events it comes from every answer that stands, for the
// reason subscribedOf gives.
func eventTrouble(f facts) string {
	var texts []string
	for _, code := range eventProblems {
		if most := mostOf(f, code); most > 0 {
			texts = append(texts, fmt.Sprintf("%s (%d)", code, most))
		}
	}
	return strings.Join(texts, ", ")
}

// mostOf is the most workers or ranks that any replica reports with a problem.
func mostOf(f facts, code status.Code) int {
	most := 0
	for _, a := range standingAnswers(f) {
		most = max(most, countOf(a.Status, code))
	}
	return most
}

// streamsUntrusted tells whether routers follow ranks, and none of them trusts any. Replicas that follow none have no
// say: their engines announce nothing to them.
func streamsUntrusted(f facts) bool {
	untrusted := false
	for _, a := range standingAnswers(f) {
		total := a.Status.Ranks.Total
		if total == 0 {
			continue
		}
		if countOf(a.Status, status.CodeKVStreamUntrusted) < total {
			return false
		}
		untrusted = true
	}
	return untrusted
}

func countOf(s *status.Status, code status.Code) int {
	n := 0
	for _, p := range s.Problems {
		if p.Code == code {
			n += p.Count
		}
	}
	return n
}
