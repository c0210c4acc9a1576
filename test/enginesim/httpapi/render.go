package httpapi

import (
	"fmt"
)

// head is what every OpenAI response and chunk begins with.
type head struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	// Fingerprint names the engine that answered, so that a client behind a
	// router can tell where its request went.
	Fingerprint string `json:"system_fingerprint"`
}

// renderer is the dialect of one route. Each method returns a JSON value; nil
// means that the dialect sends nothing there.
type renderer interface {
	open(h head, index int) any                   // before a choice's first text
	delta(h head, a *answer, from, to int) any    // text[from:to] is new
	close(h head, a *answer) any                  // a choice has ended
	usage(h head, u usage) any                    // all choices have ended
	whole(h head, answers []*answer, u usage) any // the plain body
	idPrefix() string
}

var (
	_ renderer = chatFormat{}
	_ renderer = completionFormat{}
	_ renderer = generateFormat{}
)

func (s *Server) head(format renderer, id int64) head {
	return head{
		ID:          fmt.Sprintf("%s%s-%d", format.idPrefix(), s.opts.Name, id),
		Created:     s.opts.Now().Unix(),
		Model:       s.opts.Model,
		Fingerprint: s.opts.Name,
	}
}
