package rollout_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/controllers/rollout"
)

var update = flag.Bool("update", false, "write the golden stories anew; the review reads them")

// story is one scripted run whose log is compared with a golden file.
type story struct {
	t    *testing.T
	x    *scenario
	log  strings.Builder
	seen string

	fewestReady, mostLive int
}

// tell runs a script on a fleet of three settled replicas (or as shaped) and compares its log.
func tell(t *testing.T, name string, shape func(*spec), script func(*story)) {
	t.Run(name, func(t *testing.T) {
		s := spec{generation: 1, replicas: 3, surge: 1, target: "r0", unproven: 1}
		if shape != nil {
			shape(&s)
		}
		st := newStory(t, s, 42)
		script(st)
		if bad := st.x.o.check.bad; len(bad) > 0 {
			t.Errorf("breaches: %s", strings.Join(bad, "\n"))
		}
		path := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(path, []byte(st.log.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("%v; write it with go test -run %s -update", err, t.Name())
		}
		if got := st.log.String(); got != string(want) {
			t.Errorf("the story changed (go test -update, then read the diff): %s", firstDifference(got, string(want)))
		}
	})
}

// firstDifference shows the first lines that differ.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			line := func(lines []string) string {
				if i < len(lines) {
					return lines[i]
				}
				return "the end"
			}
			return fmt.Sprintf("line %d\ngot  %s\nwant %s", i+1, line(g), line(w))
		}
	}
	return "nothing"
}

func newStory(t *testing.T, s spec, seed uint64) *story {
	c := newCluster(seed, s)
	x := &scenario{seed: seed, rnd: c.rnd, c: c, o: newOperator(c, seed)}
	x.startOld()
	st := &story{t: t, x: x}
	st.mark()
	st.say("%s", c)
	return st
}

// cold forgets the settled fleet: nothing exists yet.
func (st *story) cold() {
	st.x.c.sets, st.x.c.pods, st.x.c.stable = map[string]*set{}, map[string]*pod{}, ""
	st.mark()
	st.say("nothing exists yet")
}

// mark starts the counts of fewest ready and most live anew.
func (st *story) mark() { st.fewestReady, st.mostLive = 1<<20, 0 }

func (st *story) say(format string, args ...any) {
	fmt.Fprintf(&st.log, "%4ds %s\n", st.x.c.now, fmt.Sprintf(format, args...))
}

func (st *story) edit(what string, change func(*spec)) {
	st.say("user: %s", what)
	st.x.edit(change)
}

func (st *story) image(revision string, f fault) {
	st.x.c.faults[revision] = f
	word := revision
	if f != healthy {
		word += " (" + string(f) + ")"
	}
	st.edit("wants "+word, func(s *spec) { s.target = revision })
}

// run lets seconds pass; the log gets a line whenever the operator decides or the fleet looks different.
func (st *story) run(seconds int) {
	for range seconds {
		st.tick()
	}
}

// until lets time pass until a promise holds, at most 200 seconds.
func (st *story) until(what string, ok func() bool) {
	st.t.Helper()
	for range 200 {
		if ok() {
			st.say("%s", what)
			return
		}
		st.tick()
	}
	st.t.Fatalf("never: %s\n%s", what, st.log.String())
}

func (st *story) complete() {
	st.t.Helper()
	c := st.x.c
	st.until("complete", func() bool {
		o := st.x.o
		return o.down == 0 && o.last.Reason == rollout.Complete && o.lastGen == c.spec.generation && len(c.sets) == c.spec.replicas
	})
}

func (st *story) tick() {
	st.x.c.tick()
	writes := st.x.o.writes
	st.x.o.reconcile()
	st.x.o.check.tick()
	c, d := st.x.c, st.x.o.last
	st.fewestReady = min(st.fewestReady, c.readyCount())
	st.mostLive = max(st.mostLive, len(c.live()))
	look := fmt.Sprintf("%s | %s: %s", c, d.Reason, d.Note)
	if st.x.o.down > 0 {
		look = fmt.Sprintf("%s | operator down", c)
	}
	if st.x.o.late {
		look += " | deadline exceeded"
	}
	if st.x.o.writes > writes {
		st.actions(d)
	}
	if look != st.seen {
		st.say("%s", look)
		st.seen = look
	}
}

func (st *story) actions(d rollout.Decision) {
	for _, x := range d.Create {
		st.say("  create %s: %s", setName(x.Slot, x.Revision, x.Retry), x.Note)
	}
	for _, x := range d.Retire {
		st.say("  retire %s: %s", x.Name, x.Note)
	}
	for _, x := range d.Delete {
		st.say("  delete %s: %s", x.Name, x.Note)
	}
}

// promise fails the story when a claim does not hold.
func (st *story) promise(what string, ok bool) {
	st.t.Helper()
	if !ok {
		st.t.Errorf("not so: %s\n%s", what, st.log.String())
	}
}

// revisions are the live sets' revisions by slot, as "r0 r0 r1".
func (st *story) revisions() string {
	var out []string
	for _, s := range st.x.c.live() {
		out = append(out, s.revision)
	}
	return strings.Join(out, " ")
}
