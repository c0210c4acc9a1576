package proxy

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/routerfleet/routerfleet/router/policy"
)

// Access is what a token opens.
type Access uint8

const (
	// AccessNone says: there are no tokens.
	AccessNone Access = iota
	// AccessUnknown says: the token is none of the fleet's.
	AccessUnknown
	// AccessOther says: it is a token of the fleet, but not the admin's.
	AccessOther
	// AccessAdmin says: it is the admin's.
	AccessAdmin
)

// explanation is the answer to X-RouterFleet-Explain: the decision that would be taken now. The request is not forwarded.
type explanation struct {
	policy.Table
	// KeyMiss says why the prompt has no block keys; absent when it has, or when no index could use them.
	KeyMiss string `json:"keyMiss,omitempty"`
	// Tokenization is what knew the prompt's tokens; absent when no index could use them.
	Tokenization string `json:"tokenization,omitempty"`
}

func asksToExplain(r *http.Request) bool { return r.Header.Get(headerExplain) == "1" }

// mayExplain lets the admin through: the table names workers and what others asked for lately. The error says what to do.
func (h *Handler) mayExplain(r *http.Request) *Error {
	token := r.Header.Get(headerToken)
	access := AccessNone
	if h.opts.Access != nil {
		access = h.opts.Access(token)
	}
	switch {
	case access == AccessAdmin:
		return nil
	case access == AccessOther:
		return &Error{Code: CodeForbidden, Message: "a decision table needs the fleet's admin token; the one in X-RouterFleet-Token is another of the fleet's"}
	case access == AccessNone:
		return &Error{Code: CodeUnauthorized, Message: "a decision table needs the fleet's admin token, and this router knows none: start it with --token-dir"}
	case token == "":
		return &Error{Code: CodeUnauthorized, Message: "a decision table needs the fleet's admin token in the header X-RouterFleet-Token"}
	}
	return &Error{Code: CodeUnauthorized, Message: "the token in X-RouterFleet-Token is none of the fleet's"}
}

// explain answers with the decision table in place of an engine's answer. It changes no metric and no state of the policy.
func (x *exchange) explain() {
	defer x.cancel(nil)
	defer x.keys.release()
	snapshot := x.h.opts.Workers.Snapshot()
	ranks, known := snapshot.Pool(x.request.Model)
	if !known {
		unknownModel(snapshot, x.request.Model).write(x.w)
		return
	}
	x.keys.quiet = true
	x.tokenize()
	table := explanation{Table: x.h.policy.Explain(x.request, x.h.pressure.spare(ranks)), Tokenization: x.keys.path}
	if x.keys.miss != missNone {
		table.KeyMiss = x.keys.miss.String()
	}
	body, err := json.Marshal(table)
	if err != nil {
		panic(err) // Strings and finite numbers always marshal.
	}
	header := x.w.Header()
	header["Content-Type"] = []string{"application/json"}
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	x.w.WriteHeader(http.StatusOK)
	_, _ = x.w.Write(body) // A client that is gone needs no answer.
}
