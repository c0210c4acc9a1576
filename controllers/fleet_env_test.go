//go:build envtest

package controllers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
)

// TestCreationWritesEachChildOnceAndASettledFleetSendsNothing is write accounting: rows 24, 25 of the list of faults
// elsewhere.
func TestCreationWritesEachChildOnceAndASettledFleetSendsNothing(t *testing.T) {
	b := newBench(t)
	b.player.net.setWorkers(2)
	b.fleet("demo", 3)
	b.complete("demo")
	b.has("demo", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonFleetReady)
	writes, _ := b.op.wire.take()
	count := map[string]int{}
	statuses := 0
	for _, w := range writes {
		if strings.HasSuffix(w, "/status") {
			statuses++
			continue
		}
		count[w]++
	}
	for line, n := range count {
		limit := 1
		if strings.HasSuffix(line, "/replicasets") {
			limit = 3
		}
		if strings.Contains(line, "/controllerrevisions/") {
			limit = 2 // created, then marked stable
		}
		if n != limit {
			t.Errorf("%d x %s, want %d", n, line, limit)
		}
	}
	if len(count) != 8 {
		t.Errorf("%d kinds of writes, want ServiceAccount, Role, RoleBinding, 2 Services, Secret, ControllerRevision, ReplicaSets: %v", len(count), sortedKeys(count))
	}
	if statuses > 12 {
		t.Errorf("%d status writes for one creation, want at most 12", statuses)
	}
	t.Logf("%d writes, %d of them status", len(writes), statuses)
	b.atRest(3)
	before := b.get("demo").ResourceVersion
	for range 20 {
		res, err := b.op.Reconcile(t.Context(), reconcile.Request{NamespacedName: keyOf(b.get("demo"))})
		if err != nil || res.RequeueAfter != 0 {
			t.Fatalf("reconcile of a settled fleet: %+v, %v", res, err)
		}
	}
	writes, reads := b.op.wire.take()
	if len(writes)+len(reads) > 0 {
		t.Errorf("20 reconciles of a settled fleet sent %v %v", writes, reads)
	}
	if after := b.get("demo").ResourceVersion; after != before {
		t.Errorf("the fleet moved at rest: %s to %s", before, after)
	}
}

// atRest waits until the operator has sent nothing for n polls in a row.
func (b *bench) atRest(n int) {
	b.Helper()
	quiet := 0
	b.eventually("the operator is at rest", func() error {
		if writes, reads := b.op.wire.take(); len(writes)+len(reads) > 0 {
			quiet = 0
			return fmt.Errorf("it sent %v %v", writes, reads)
		}
		if quiet++; quiet < n*20 {
			return fmt.Errorf("quiet for %d polls", quiet)
		}
		return nil
	})
}

func TestStatusTellsTheFleet(t *testing.T) {
	b := newBench(t)
	b.player.net.setWorkers(2)
	b.fleet("demo", 3)
	b.complete("demo")
	b.has("demo", v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonFleetReady)
	f := b.get("demo")
	s := f.Status
	for name, n := range map[string]*int32{"replicas": s.Replicas, "ready": s.ReadyReplicas, "available": s.AvailableReplicas, "updated": s.UpdatedReplicas} {
		if ptr.Deref(n, -1) != 3 {
			t.Errorf("%s is %v, want 3", name, n)
		}
	}
	if s.Selector != "routerfleet.io/fleet=demo" || s.StableRevision != s.UpdateRevision || s.StableRevision == "" || s.ObservedGeneration != f.Generation {
		t.Errorf("status %+v", s)
	}
	if len(s.ReplicasDetail) != 3 || s.ReplicasDetail[0].State != v1alpha1.ReplicaReady || *s.ReplicasDetail[2].Slot != 2 {
		t.Errorf("detail %+v", s.ReplicasDetail)
	}
	if s.Workers == nil || *s.Workers.Discovered != 2 {
		t.Errorf("workers %+v, want 2 discovered", s.Workers)
	}
	for _, c := range s.Conditions {
		if c.ObservedGeneration != f.Generation {
			t.Errorf("%s carries generation %d, want %d", c.Type, c.ObservedGeneration, f.Generation)
		}
	}
	for _, rs := range b.sets() {
		if !strings.HasPrefix(rs.Name, "demo-") || !metav1.IsControlledBy(&rs, f) {
			t.Errorf("ReplicaSet %s is not the fleet's", rs.Name)
		}
	}
	live := b.live()
	slices.Sort(live)
	if len(live) != 3 {
		t.Errorf("live %v", live)
	}
}
