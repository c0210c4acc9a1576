package proxy

import (
	"net/http"
	"strings"
)

// route is one entry of the route table. The table is small and closed: what is not in it never reaches an engine.
type route struct {
	name    string // the metric label
	path    string
	methods []string
	chat    bool // its prompt is chat messages
	// prompt lists the body members that hold the prompt, the most exact first; empty for routes answered here.
	prompt []string
	answer func(h *Handler, w *answer, r *http.Request)
}

var (
	readMethods = []string{http.MethodGet, http.MethodHead}
	routes      = []route{
		{name: "chat", chat: true, path: "/v1/chat/completions", methods: []string{http.MethodPost}, prompt: []string{"messages"}},
		{name: "completions", path: "/v1/completions", methods: []string{http.MethodPost}, prompt: []string{"prompt"}},
		{name: "generate", path: "/generate", methods: []string{http.MethodPost, http.MethodPut}, prompt: []string{"input_ids", "text"}},
		{name: "models", path: "/v1/models", methods: readMethods, answer: (*Handler).models},
		{name: "healthz", path: "/healthz", methods: readMethods, answer: (*Handler).healthz},
	}
	otherRoute = route{name: "other"}
)

// findRoute returns the route of a request, or the error to answer with and the route to count it under.
func findRoute(r *http.Request) (*route, *Error) {
	if what := suspicious(r.URL.EscapedPath()); what != "" {
		return &otherRoute, &Error{Code: CodeBadRequest, Message: "the path holds " + what + "; send it in its plain form"}
	}
	for i := range routes {
		if routes[i].path != r.URL.Path {
			continue
		}
		for _, method := range routes[i].methods {
			if method == r.Method {
				return &routes[i], nil
			}
		}
		return &routes[i], &Error{Code: CodeMethodNotAllowed,
			Message: "this route takes " + strings.Join(routes[i].methods, " or ") + " only"}
	}
	return &otherRoute, &Error{Code: CodeNotFound, Message: "the router has no such route"}
}

// suspicious names what a path must not hold: forms that an engine, or something before it, may read as another path
// than the router did.
func suspicious(escaped string) string {
	lower := strings.ToLower(escaped)
	switch {
	case strings.Contains(lower, "..") || strings.Contains(lower, "%2e"):
		return "'..' or an encoded dot"
	case strings.Contains(lower, "//"):
		return "'//'"
	case strings.Contains(lower, "%2f") || strings.Contains(lower, "%5c") || strings.Contains(lower, `\`):
		return "an encoded slash or a backslash"
	}
	return ""
}
