package proxy

import (
	"bytes"
	"encoding/json"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/zeebo/xxh3"

	"github.com/routerfleet/routerfleet/router/models"
	"github.com/routerfleet/routerfleet/router/workers"
)

// resolve turns the name a request gave into that of the model it goes to, by the models file. Where the two differ the
// body says the second afterwards, because the engine knows no other: the one change the router makes to a body. It is
// done once, before keys and attempts, so that a retry stays on its side of a split. quiet leaves it uncounted.
func (h *Handler) resolve(c *call, rt *route, quiet bool) {
	model, split := h.opts.Models.Lookup(c.model)
	if len(split) > 0 {
		name := model
		var by string
		if model, by = h.side(c, rt, name, split); !quiet {
			h.splits.WithLabelValues(name, model, by).Inc()
		}
	}
	if model != c.model {
		c.body, c.model = withModel(c.body, model), model
	}
}

// side chooses the target of a divided name: the one the request's key falls to, or, while no engine could take it there,
// the next one that has a weight and an engine. by says which.
func (h *Handler) side(c *call, rt *route, name string, split []models.Target) (model, by string) {
	chosen := models.Choose(split, splitKey(c.body, rt.prompt, name))
	snapshot := h.opts.Workers.Snapshot()
	for i := range split {
		t := split[(chosen+i)%len(split)]
		if ranks, _ := snapshot.Pool(t.Model); len(ranks) == 0 || t.Weight == 0 {
			continue
		}
		if i == 0 {
			return t.Model, byWeight
		}
		return t.Model, byFailover
	}
	return split[chosen].Model, byWeight
}

// Values of the label by of split_requests_total.
const (
	byWeight   = "weight"
	byFailover = "failover"
)

func newSplits(r prometheus.Registerer) (*prometheus.CounterVec, error) {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "routerfleet", Name: "split_requests_total",
		Help: "Requests for a divided name by the model they went to, and what sent them there: weight or failover."},
		[]string{"model", "target", "by"})
	return c, r.Register(c)
}

// splitKey is what a request for a divided name falls to a side by, the first of these that it has:
//
//  1. user: who asks is served by one model always
//  2. of chat messages those up to the first of the user: a conversation keeps its beginning, and with it its side and
//     what is cached there, while conversations differ even where they share a system prompt
//  3. of any other prompt its first leadBytes
//
// The name is in the key, so that two splits divide the same requests independently.
func splitKey(body []byte, promptMembers []string, name string) uint64 {
	var user, prompt []byte
	best := len(promptMembers)
	_, _ = members(body, func(key, value []byte) { // it was read before without an error
		if string(key) == "user" {
			user = value
			return
		}
		for at, member := range promptMembers {
			if at <= best && string(key) == member && !bytes.Equal(value, nullValue) {
				best, prompt = at, value
			}
		}
	})
	hash := xxh3.New()
	_, _ = hash.WriteString(name) // xxh3 documents that writes never fail
	_, _ = hash.Write([]byte{0})
	switch {
	case len(user) > 2 && user[0] == '"':
		_, _ = hash.Write(user)
	case len(prompt) > 0 && prompt[0] == '[':
		_, _ = hash.Write(opening(prompt))
	default:
		_, _ = hash.Write(prompt[:min(len(prompt), leadBytes)])
	}
	return hash.Sum64()
}

// opening is an array of chat messages up to the first of the user, or the first bytes of any other array. Like the rest of
// the key it is taken as it is written: a client writes the beginning of a conversation the same way each time.
func opening(array []byte) []byte {
	end, found := 0, false
	elements(array, func(element []byte) bool {
		end = offsetOf(array, element) + len(element)
		found = element[0] == '{' && roleOf(element) == "user"
		return !found && element[0] == '{'
	})
	if found {
		return array[:end]
	}
	return array[:min(len(array), leadBytes)]
}

// roleOf reads the role of a chat message.
func roleOf(message []byte) (role string) {
	_, _ = members(message, func(key, value []byte) { // it is part of a body that was read without an error
		if string(key) == "role" && value[0] == '"' {
			role = unquote(value)
		}
	})
	return role
}

// withModel is the body with another model in it, and otherwise the same bytes. A body that has no such member, because
// the router chose the only model, stays as it is.
func withModel(body []byte, model string) []byte {
	quoted, err := json.Marshal(model)
	if err != nil {
		panic(err) // Strings always marshal.
	}
	out := make([]byte, 0, len(body)+len(quoted))
	copied := 0
	_, _ = members(body, func(key, value []byte) { // it was read before without an error
		if string(key) == "model" { // each time it occurs: engines differ in which one counts
			at := offsetOf(body, value)
			out = append(append(out, body[copied:at]...), quoted...)
			copied = at + len(value)
		}
	})
	if copied == 0 {
		return body
	}
	return append(out, body[copied:]...)
}

// offsetOf is where part begins in whole, of which it was sliced without a capacity of its own.
func offsetOf(whole, part []byte) int { return cap(whole) - cap(part) }

// listedModel is a model as /v1/models lists it.
type listedModel struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	// Parent is the model an adapter adapts.
	Parent string `json:"parent,omitempty"`
}

// listModels lists what requests may name: models and adapters of present workers, then, with a models file, the aliases
// and the divided names that lead to one of them.
func (h *Handler) listModels() []listedModel {
	list := []listedModel{}
	at := map[string]listedModel{}
	add := func(id string, m listedModel) {
		if _, twice := at[id]; !twice {
			m.ID = id
			at[id] = m
			list = append(list, m)
		}
	}
	for _, m := range h.opts.Workers.Snapshot().Models() {
		add(m.ID, listed(m))
	}
	specs := h.opts.Models.Specs()
	for _, e := range specs {
		for _, t := range e.Split {
			if m, present := at[t.Model]; present && t.Weight > 0 {
				add(e.Name, m)
				break
			}
		}
	}
	for _, e := range specs {
		if m, present := at[e.Name]; present {
			for _, alias := range e.Aliases {
				add(alias, m)
			}
		}
	}
	return list
}

func listed(m workers.Model) listedModel {
	return listedModel{ID: m.ID, Object: "model", Created: m.Created, OwnedBy: m.OwnedBy, Parent: m.Parent}
}
