package rollout_test

import (
	"slices"
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/controllers/rollout"
)

// blind gives a mutant that plans on a changed world.
func blind(change func(*rollout.World, time.Time)) func(*operator) {
	return func(o *operator) {
		o.planner = func(w rollout.World, now time.Time) rollout.Decision {
			w.ReplicaSets, w.Pods = slices.Clone(w.ReplicaSets), slices.Clone(w.Pods)
			change(&w, now)
			return rollout.Plan(w, now)
		}
	}
}

// TestMutantsAreCaught breaks one rule at a time; the simulation must notice, or it proves nothing.
func TestMutantsAreCaught(t *testing.T) {
	mutants := map[string]func(*operator){
		"no fresh list before a write": func(o *operator) { o.noFreshList = true },
		"delete instead of replicas 0": func(o *operator) { o.deleteToRetire = true },
		"running is ready": blind(func(w *rollout.World, now time.Time) {
			for i := range w.Pods {
				if p := &w.Pods[i]; p.Running && !p.Ready {
					p.Ready, p.ReadySince = true, now.Add(-time.Hour)
				}
			}
		}),
		"no minReadySeconds": blind(func(w *rollout.World, _ time.Time) { w.Spec.MinReady = 0 }),
		"surge doubled":      blind(func(w *rollout.World, _ time.Time) { w.Spec.MaxSurge = 2*w.Spec.MaxSurge + 1 }),
		"one may be missing": blind(func(w *rollout.World, _ time.Time) { w.Spec.MaxUnavailable++ }),
		"any number unproven": blind(func(w *rollout.World, _ time.Time) {
			w.Spec.MaxUnproven, w.Spec.MaxSurge = 9, w.Spec.MaxSurge+1
		}),
		"pause ignored": blind(func(w *rollout.World, _ time.Time) { w.Spec.Paused = false }),
		"stable unknown": blind(func(w *rollout.World, _ time.Time) {
			if w.Stable != w.Target {
				w.Stable = ""
			}
		}),
		"terminating pods forgotten": blind(func(w *rollout.World, _ time.Time) {
			w.Pods = slices.DeleteFunc(w.Pods, func(p rollout.Pod) bool { return p.Terminating })
		}),
		"retired names used again": func(o *operator) {
			o.planner = func(w rollout.World, now time.Time) rollout.Decision {
				d := rollout.Plan(w, now)
				for i := range d.Create {
					d.Create[i].Retry = 0
				}
				return d
			}
		},
		"stuck pods count as draining": blind(func(w *rollout.World, now time.Time) {
			for i := range w.Pods {
				w.Pods[i].GraceEnd = now.Add(time.Hour)
			}
		}),
	}
	for name, mutate := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= 1000; seed++ {
				x := newScenario(seed)
				mutate(x.o)
				if bad := x.run(false); len(bad) > 0 {
					t.Logf("caught by seed %d: %s", seed, bad[0])
					return
				}
			}
			t.Error("1000 runs did not notice")
		})
	}
}
