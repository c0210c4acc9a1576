package rollout_test

import (
	"fmt"
	"testing"

	"github.com/routerfleet/routerfleet/controllers/rollout"
)

func one(s *spec) { s.replicas = 1 }

// TestStories are the situations of the state table that need no warmth. Each is a promise and a golden log.
func TestStories(t *testing.T) {
	tell(t, "boot", nil, func(st *story) {
		st.cold()
		st.complete()
		st.promise("all replicas are created at once", st.mostLive == 3)
		st.promise("the revision became stable", st.x.c.stable == "r0")
	})
	tell(t, "boot_of_a_bad_image_then_fix", nil, func(st *story) {
		st.cold()
		st.x.c.faults["r0"] = badImage
		st.run(20)
		st.image("r1", healthy)
		st.complete()
	})
	tell(t, "roll", nil, func(st *story) {
		st.image("r1", healthy)
		st.complete()
		st.promise("never fewer than 3 ready", st.fewestReady >= 3)
		st.promise("never more than 4 live", st.mostLive == 4)
	})
	tell(t, "bad_image_then_fix", nil, func(st *story) {
		st.image("r1", badImage)
		st.run(100)
		st.promise("one bad pod, the old fleet intact", st.revisions() == "r0 r0 r0 r1" && st.fewestReady >= 3)
		st.promise("held", st.x.o.last.Reason == rollout.Held)
		st.promise("the deadline was exceeded", st.x.o.late)
		st.image("r2", healthy)
		st.complete()
		st.promise("never fewer than 3 ready", st.fewestReady >= 3)
	})
	tell(t, "undo_mid_roll", nil, func(st *story) {
		st.image("r1", healthy)
		st.until("one slot rolled", func() bool { return st.revisions() == "r0 r0 r1" })
		st.run(2)
		st.edit("undo: wants r0", func(s *spec) { s.target = "r0" })
		st.complete()
		st.promise("never fewer than 3 ready", st.fewestReady >= 3)
		st.promise("never more than 4 live", st.mostLive <= 4)
	})
	tell(t, "scale_out_and_in", nil, func(st *story) {
		st.edit("replicas 5", func(s *spec) { s.replicas = 5 })
		st.complete()
		st.edit("replicas 2", func(s *spec) { s.replicas = 2 })
		st.complete()
		st.promise("the highest slots went", st.x.c.String() == "0-r0=proven 1-r0=proven")
	})
	tell(t, "scale_mid_roll", nil, func(st *story) {
		st.image("r1", healthy)
		st.until("a successor boots", func() bool { return len(st.x.c.live()) == 4 })
		st.edit("replicas 5", func(s *spec) { s.replicas = 5 })
		st.run(12)
		st.edit("replicas 2", func(s *spec) { s.replicas = 2 })
		st.mark()
		st.complete()
		st.promise("never fewer than 2 ready", st.fewestReady >= 2)
	})
	tell(t, "pause_and_scale", nil, func(st *story) {
		st.edit("wants r1, paused, replicas 5", func(s *spec) { s.target, s.paused, s.replicas = "r1", true, 5 })
		st.run(30)
		st.promise("scaled on the stable revision", st.revisions() == "r0 r0 r0 r0 r0")
		st.x.c.kill(st.x.c.podOf(st.x.c.live()[0]))
		st.run(10)
		st.promise("healed while paused", st.x.c.readyCount() == 5)
		st.edit("resume", func(s *spec) { s.paused = false })
		st.complete()
	})
	tell(t, "node_off_mid_roll", func(s *spec) { s.replicas = 4 }, func(st *story) {
		st.image("r1", healthy)
		st.run(6)
		st.say("node 0 loses power for 90 s")
		st.x.c.dead[0] = [2]int{st.x.c.now, st.x.c.now + 90}
		st.run(100)
		st.complete()
	})
	tell(t, "zero_and_back", nil, func(st *story) {
		st.edit("replicas 0", func(s *spec) { s.replicas = 0 })
		st.complete()
		st.promise("nothing left", len(st.x.c.sets) == 0 && len(st.x.c.pods) == 0)
		st.edit("wants r1, replicas 3", func(s *spec) { s.target, s.replicas = "r1", 3 })
		st.complete()
	})
	tell(t, "one_replica", one, func(st *story) {
		st.image("r1", healthy)
		st.complete()
		st.promise("never without a ready replica", st.fewestReady >= 1)
	})
	tell(t, "one_replica_without_surge", func(s *spec) { s.replicas, s.surge, s.unavailable = 1, 0, 1 }, func(st *story) {
		st.image("r1", healthy)
		st.complete()
	})
}

// TestStoriesOfFaultsElsewhere are rows of the list of faults that public operators have had.
func TestStoriesOfFaultsElsewhere(t *testing.T) {
	tell(t, "row01_unschedulable_then_revert", nil, func(st *story) {
		st.image("r1", unschedulable)
		st.run(30)
		st.edit("reverts to r0", func(s *spec) { s.target = "r0" })
		st.complete()
		st.promise("never fewer than 3 ready", st.fewestReady >= 3)
	})
	tell(t, "row03_the_dead_old_one_goes_first", func(s *spec) { s.replicas, s.surge, s.unavailable = 2, 0, 1 }, func(st *story) {
		dead := st.x.c.podOf(st.x.c.live()[0])
		dead.flap = 1 << 20
		st.x.c.setReady(dead, false)
		dead.life, dead.crashedAt = 3, 0
		st.image("r1", healthy)
		st.until("a replica retired", func() bool { return len(st.x.c.live()) == 1 })
		st.promise("the ready one was kept", st.x.c.live()[0].slot == 1)
		st.complete()
		st.promise("never without a ready replica", st.fewestReady >= 1)
	})
	tell(t, "row05_a_replica_that_restarted_once_counts", nil, func(st *story) {
		p := st.x.c.podOf(st.x.c.live()[0])
		p.life, p.crashedAt = 1, -1000
		st.image("r1", healthy)
		st.complete()
		st.promise("never fewer than 3 ready", st.fewestReady >= 3)
	})
	tell(t, "row07_ten_broken_specs_in_a_row", nil, func(st *story) {
		faults := []fault{badImage, crashing, unschedulable, neverReady, overQuota}
		for i := range 10 {
			st.image(fmt.Sprintf("r%d", i+1), faults[i%len(faults)])
			st.run(12)
		}
		st.promise("the old fleet is intact", st.fewestReady >= 3 && st.mostLive <= 4)
		st.image("r11", healthy)
		st.complete()
	})
	tell(t, "row09_pods_die_at_rest", nil, func(st *story) {
		for range 8 {
			st.x.c.kill(st.x.c.podOf(st.x.c.live()[1]))
			st.run(deadlineTicks / 4)
			st.promise("no deadline counts at rest", !st.x.o.late && !st.x.o.last.Active)
		}
		st.complete()
	})
	tell(t, "row11_a_restart_during_a_rollout", nil, func(st *story) {
		st.image("r1", healthy)
		st.run(7)
		st.image("r2", healthy)
		st.complete()
		st.promise("never fewer than 3 ready, never more than 4 live", st.fewestReady >= 3 && st.mostLive <= 4)
	})
	tell(t, "row13_a_broken_stable_revision", nil, func(st *story) {
		st.x.c.faults["r0"] = crashing
		for _, s := range st.x.c.live() {
			st.x.c.restart(st.x.c.podOf(s))
		}
		st.run(30)
		st.image("r1", healthy)
		st.complete()
	})
	tell(t, "row16_replicas_and_revision_while_paused", nil, func(st *story) {
		st.edit("wants r1, replicas 5, paused", func(s *spec) { s.target, s.replicas, s.paused = "r1", 5, true })
		st.run(20)
		st.promise("scaled", st.x.c.readyCount() == 5)
		st.edit("resume", func(s *spec) { s.paused = false })
		st.complete()
	})
	tell(t, "somebody_edits_a_replicaset", nil, func(st *story) {
		st.say("kubectl set image rs f-1-r0")
		st.x.c.live()[1].edited = true
		st.complete()
		st.promise("replaced under another name", st.x.c.live()[1].name == "f-1-r0-1" && st.fewestReady >= 3)
	})
	tell(t, "engines_gone_mid_roll", nil, func(st *story) {
		st.image("r1", healthy)
		st.run(6)
		st.say("every engine goes")
		st.x.c.noEngines = true
		st.run(60)
		st.promise("no old replica was spent", st.revisions() == "r0 r0 r0 r1")
		st.say("the engines are back")
		st.x.c.noEngines = false
		st.complete()
	})
	tell(t, "undo_while_the_retired_name_still_drains", one, func(st *story) {
		node := st.x.c.podOf(st.x.c.live()[0]).node
		st.image("r1", healthy)
		st.until("the old one retired", func() bool { return st.revisions() == "r1" })
		st.say("its node dies with the pod still draining")
		st.x.c.dead[node] = [2]int{st.x.c.now - 2, 1 << 20}
		st.run(20)
		st.edit("undo: wants r0", func(s *spec) { s.target = "r0" })
		st.until("r0 serves again under another name", func() bool {
			live := st.x.c.live()
			return len(live) == 1 && live[0].name == "f-0-r0-1" && st.x.c.proven(live[0])
		})
	})
}

// TestAnOperatorThatDiesAfterAnySingleWriteEndsTheSame is I7: for every write of a roll with a fix and a scale, die
// right after it.
func TestAnOperatorThatDiesAfterAnySingleWriteEndsTheSame(t *testing.T) {
	script := func(dieAt int) (*story, int) {
		st := newStory(t, spec{generation: 1, replicas: 3, surge: 1, target: "r0", unproven: 1}, 42)
		st.x.o.dieAt = dieAt
		st.image("r1", badImage)
		st.run(15)
		st.image("r2", healthy)
		st.run(10)
		st.edit("replicas 4", func(s *spec) { s.replicas = 4 })
		st.complete()
		return st, st.x.o.writes
	}
	calm, writes := script(0)
	for i := 1; i <= writes; i++ {
		st, _ := script(i)
		if bad := st.x.o.check.bad; len(bad) > 0 {
			t.Fatalf("dead after write %d: %s", i, bad[0])
		}
		if st.fewestReady < 3 || st.mostLive > 5 || st.x.c.String() != calm.x.c.String() {
			t.Fatalf("dead after write %d: fewest ready %d, most live %d, end %s\n%s", i, st.fewestReady, st.mostLive, st.x.c, st.log.String())
		}
	}
	t.Logf("%d writes", writes)
}
