package workers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// chaos drives a machine with random lists, answers (right, wrong, late, doubled), health and time, and checks what
// must hold after every step whatever came before.
type chaos struct {
	*story
	r      *rand.Rand
	asked  []introspect // every question ever put, so that answers can come late or twice
	probes []probe
	log    []string
}

func (c *chaos) did(format string, args ...any) { c.log = append(c.log, fmt.Sprintf(format, args...)) }

func (c *chaos) note() {
	for _, e := range c.last {
		switch e := e.(type) {
		case introspect:
			c.asked = append(c.asked, e)
		case probe:
			c.probes = append(c.probes, e)
		}
	}
	for _, l := range c.snap.workers {
		e := c.m.entries[l.Worker.id]
		if e == nil || e.worker != l.Worker || e.state != l.State {
			c.fail("the snapshot shows %s as %v", l.Worker.id, l.State)
		}
	}
	pool, _ := c.snap.Pool("m")
	for _, r := range pool {
		e := c.m.entries[r.worker.id]
		if !e.present || e.ep.condition == conditionNotReady {
			c.fail("%s is offered and gone or unready", r.worker.id)
		}
	}
}

func (c *chaos) fail(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf("%s\nafter\n%s", fmt.Sprintf(format, args...), strings.Join(c.log, "\n"))
}

// world is a random set of pods at few addresses, so that addresses change hands.
func (c *chaos) world() []endpoint {
	owner := map[string]endpoint{}
	for uid := range 6 {
		if c.r.IntN(3) == 0 {
			continue
		}
		e := at(fmt.Sprint("u", uid), fmt.Sprintf("10.0.0.%d:8000", c.r.IntN(5)))
		e.condition = condition(c.r.IntN(3))
		owner[e.url.Host] = e
	}
	var set []endpoint
	for _, e := range owner {
		set = append(set, e)
	}
	return set
}

func (c *chaos) turn() {
	switch c.r.IntN(6) {
	case 0, 1:
		set := c.world()
		c.did("list %s", strings.ReplaceAll(render(set), "\n", "; "))
		c.list(set...)
	case 2, 3:
		if len(c.asked) == 0 {
			return
		}
		q := c.asked[c.r.IntN(len(c.asked))]
		msg := introspected{id: q.id, epoch: q.epoch}
		switch c.r.IntN(4) {
		case 0:
			msg.err = errors.New("refused")
		case 1: // answers and lists nothing
		default:
			msg.facts = facts{models: []Model{{ID: "m"}}, dpSize: 2}
			if e := c.m.entries[q.id]; e == nil || !e.asking || e.askEpoch != q.epoch {
				msg.facts = facts{models: []Model{{ID: "a late lie"}}, dpSize: 4} // must not be believed
			}
		}
		c.did("answer %+v", msg)
		c.step(msg)
	case 4:
		if len(c.probes) == 0 {
			return
		}
		q := c.probes[c.r.IntN(len(c.probes))]
		msg := probed{id: q.id, epoch: q.epoch}
		if c.r.IntN(2) == 0 {
			msg.err = errors.New("refused")
		}
		c.did("probe %+v", msg)
		c.step(msg)
	case 5:
		d := time.Duration(c.r.IntN(40)) * time.Second
		c.did("wait %v", d)
		c.wait(d)
	}
	c.note()
}

// settle brings a machine to rest in the given world: every question is answered, and everything absent forgotten.
func (c *chaos) settle(set []endpoint) string {
	c.list(set...)
	for range 200 {
		for id, e := range c.m.entries {
			if e.asking {
				c.step(introspected{id: id, epoch: e.askEpoch, facts: facts{models: []Model{{ID: "m"}}, dpSize: 2}})
			}
			if e.probing {
				c.heard(id, nil)
			}
		}
		c.wait(time.Second)
	}
	c.note()
	var out []string
	for _, l := range c.snap.Workers() {
		out = append(out, fmt.Sprintf("%s %s %v ranks %d models %v", l.Worker.id, l.Worker.url, l.State, len(l.Worker.ranks), l.Worker.models))
	}
	return strings.Join(out, "\n")
}

// Whatever happened before, a machine at rest equals one that saw only the last list.
func TestHistoryLeavesNoTraceOnceTheWorldIsAtRest(t *testing.T) {
	opts := Options{Static: static(t, "s=http://10.0.0.4:8000", "t=http://engine:8000"), Slices: &SliceSource{}}
	for seed := range uint64(150) {
		c := &chaos{story: newStory(t, opts), r: rand.New(rand.NewPCG(seed, 9))}
		c.did("seed %d", seed)
		c.note()
		for range 120 {
			c.turn()
		}
		final := c.world()
		fresh := &chaos{story: newStory(t, opts), r: rand.New(rand.NewPCG(seed, 10))}
		got, want := c.settle(final), fresh.settle(final)
		// A pod that is unready was never asked by the fresh machine; the old one may remember.
		got, want = knownOnly(got), knownOnly(want)
		if got != want {
			c.fail("got\n%s\nwant\n%s", got, want)
		}
	}
}

// knownOnly cuts what a machine may remember of a worker that cannot be asked now.
func knownOnly(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if head, _, ok := strings.Cut(l, StateNotReady.String()); ok {
			lines[i] = head + StateNotReady.String()
		}
	}
	return strings.Join(lines, "\n")
}
