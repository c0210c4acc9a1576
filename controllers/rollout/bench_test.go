package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/routerfleet/routerfleet/controllers/rollout"
)

// BenchmarkPlan plans fleets at rest and in the middle of a roll.
func BenchmarkPlan(b *testing.B) {
	for _, replicas := range []int{3, 100, 1000} {
		for _, target := range []string{"r0", "r1"} {
			b.Run(fmt.Sprintf("replicas=%d/target=%s", replicas, target), func(b *testing.B) {
				w := rollout.World{
					Spec:   rollout.Spec{Replicas: replicas, MaxSurge: 1, MaxUnproven: 1, MaxTerminating: replicas, MinReady: 10 * time.Second},
					Target: target, Stable: "r0",
				}
				for i := range replicas {
					uid := types.UID(fmt.Sprintf("rs%d", i))
					w.ReplicaSets = append(w.ReplicaSets, rollout.ReplicaSet{Name: setName(int32(i), "r0", 0), UID: uid, Slot: int32(i), Revision: "r0", Replicas: 1})
					w.Pods = append(w.Pods, rollout.Pod{UID: "p" + uid, ReplicaSet: uid, Ready: true, ReadySince: at(1)})
				}
				b.ReportAllocs()
				for b.Loop() {
					rollout.Plan(w, at(1000))
				}
			})
		}
	}
}
