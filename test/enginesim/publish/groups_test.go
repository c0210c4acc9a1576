package publish

import (
	"testing"

	"github.com/routerfleet/routerfleet/router/kvevents"
	"github.com/routerfleet/routerfleet/test/enginesim"
)

func TestAHybridModelPublishesTwoGroups(t *testing.T) {
	for _, d := range []Dialect{VLLMMap, VLLMArray, VLLMMapBatch, VLLMInt, VLLMIntMap} {
		testGroups(t, newScript(t, Options{Dialect: d, Hybrid: true}), uint64(0))
	}
}

// testGroups stores three blocks and removes the last: the second group, a window
// of one block, keeps the last only, and loses it with the first group.
func testGroups(t *testing.T, s *script, full any) {
	t.Helper()
	c := chain(1, 3)
	s.change(c)
	s.change(enginesim.Removed{Keys: c.Keys[2:]}, enginesim.Removed{Keys: c.Keys[1:2]})
	type groups map[kvevents.GroupKind]int
	held, fullGroup := groups{}, kvevents.NoGroup
	if full != nil {
		fullGroup = 0
	}
	want := []groups{{kvevents.GroupFull: 3, kvevents.GroupWindow: 1}, {kvevents.GroupFull: 1, kvevents.GroupWindow: 0}}
	for i := range s.messages {
		for _, e := range read(s, i).Events {
			switch e := e.(type) {
			case *kvevents.Stored:
				if e.GroupKind == kvevents.GroupWindow {
					held[kvevents.GroupWindow] += len(e.Hashes)
				} else if e.Group == fullGroup {
					held[kvevents.GroupFull] += len(e.Hashes)
				}
			case *kvevents.Removed:
				if e.Group == fullGroup {
					held[kvevents.GroupFull] -= len(e.Hashes)
				} else {
					held[kvevents.GroupWindow] -= len(e.Hashes)
				}
			}
		}
		if held[kvevents.GroupFull] != want[i][kvevents.GroupFull] || held[kvevents.GroupWindow] != want[i][kvevents.GroupWindow] {
			t.Errorf("%s: after batch %d the groups hold %v, want %v", s.Options().Dialect, i, held, want[i])
		}
		wantTrusted(t, s, i)
	}
}
