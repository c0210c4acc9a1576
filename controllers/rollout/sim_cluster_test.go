package rollout_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/routerfleet/routerfleet/controllers/rollout"
	"github.com/routerfleet/routerfleet/router/bootstrap/status"
)

// epoch is tick 0 of every simulation. One tick is one second.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	minReadyTicks = 3
	drainTicks    = 6
	deadlineTicks = 60
)

// fault is what a revision's pods suffer from.
type fault string

const (
	healthy       fault = ""
	badImage      fault = "image"
	unschedulable fault = "unschedulable"
	overQuota     fault = "quota"
	crashing      fault = "crash"
	neverReady    fault = "never-ready" // runs and answers, but stays unready
	silent        fault = "silent"      // runs, unready, admin port dead
)

// set and pod are what etcd holds; cluster plays API server, controller manager, kubelets and routers.
type set struct {
	name, uid, revision string
	slot, retry         int32
	replicas            int32
	rv                  int
	refused             string
	edited              bool // somebody changed its template
}

type pod struct {
	uid, set, revision string
	slot               int32
	born, start        int // tick of creation, of the container's start
	life               int // number of the container
	node               int
	ready              bool
	readySince         int
	terminating        int // tick of deletion, -1 while it lives
	crashedAt          int
	flap               int // ticks it stays unready
}

type spec struct {
	generation, replicas int
	surge, unavailable   int
	unproven             int
	paused               bool
	target               string
}

type view struct {
	spec   spec
	stable string
	sets   []rollout.ReplicaSet
	pods   []rollout.Pod
}

type cluster struct {
	rnd    *rand.Rand
	now    int
	serial int
	spec   spec
	stable string
	sets   map[string]*set
	pods   map[string]*pod
	faults map[string]fault
	dead   map[int][2]int // node: since, until
	nodes  int
	past   []view
	// noEngines keeps every router unready, as an outage of all engines does.
	noEngines bool
}

func newCluster(seed uint64, s spec) *cluster {
	return &cluster{
		rnd: rand.New(rand.NewPCG(seed, 7)), spec: s, nodes: 4,
		sets: map[string]*set{}, pods: map[string]*pod{}, faults: map[string]fault{}, dead: map[int][2]int{},
	}
}

func (c *cluster) id(kind string) string {
	c.serial++
	return fmt.Sprintf("%s%05d", kind, c.serial)
}

func setName(slot int32, revision string, retry int32) string {
	name := fmt.Sprintf("f-%d-%s", slot, revision)
	if retry > 0 {
		name += fmt.Sprintf("-%d", retry)
	}
	return name
}

// create answers false when the name is taken, as a POST would.
func (c *cluster) create(slot int32, revision string, retry int32) bool {
	name := setName(slot, revision, retry)
	for _, s := range c.sets {
		if s.name == name {
			return false
		}
	}
	u := c.id("rs")
	c.sets[u] = &set{name: name, uid: u, slot: slot, revision: revision, retry: retry, replicas: 1, rv: 1}
	return true
}

// scaleToZero answers false on a conflict: another uid, or another resourceVersion.
func (c *cluster) scaleToZero(uid, rv string) bool {
	s := c.sets[uid]
	if s == nil || fmt.Sprint(s.rv) != rv {
		return false
	}
	s.replicas = 0
	s.rv++
	return true
}

func (c *cluster) deleteSet(uid string) { delete(c.sets, uid) }

func (c *cluster) kill(p *pod) {
	if p.terminating < 0 {
		p.terminating = c.now
	}
}

func (c *cluster) restart(p *pod) {
	p.life++
	p.start = c.now + 1 + c.rnd.IntN(3)
	c.setReady(p, false)
}

func (c *cluster) setReady(p *pod, ready bool) {
	if ready == p.ready {
		return
	}
	p.ready = ready
	if ready {
		p.readySince = c.now
	}
	if s := c.sets[p.set]; s != nil {
		s.rv++
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// tick moves the cluster one second on and remembers what the API showed.
func (c *cluster) tick() {
	c.now++
	c.tickNodes()
	c.tickSets()
	for _, u := range sortedKeys(c.pods) {
		c.tickPod(c.pods[u])
	}
	c.past = append(c.past, c.view())
	if len(c.past) > 16 {
		c.past = c.past[1:]
	}
}

func (c *cluster) tickNodes() {
	for node := range c.nodes {
		d, dead := c.dead[node]
		if !dead {
			continue
		}
		if c.now >= d[1] {
			delete(c.dead, node)
		}
		for _, u := range sortedKeys(c.pods) {
			p := c.pods[u]
			switch {
			case p.node != node:
			case c.now >= d[1] && p.terminating < 0:
				c.restart(p)
			case c.now-d[0] == 3:
				c.setReady(p, false)
			case c.now-d[0] >= 12:
				c.kill(p)
			}
		}
	}
}

// tickSets is the ReplicaSet controller, with the delays and ghosts of the real one.
func (c *cluster) tickSets() {
	for _, u := range sortedKeys(c.sets) {
		s := c.sets[u]
		var mine []*pod
		for _, pu := range sortedKeys(c.pods) {
			if p := c.pods[pu]; p.set == u && p.terminating < 0 {
				mine = append(mine, p)
			}
		}
		switch {
		case s.replicas > 0 && len(mine) == 0 && c.rnd.Float64() < .8:
			c.newPod(s)
		case s.replicas == 0:
			for _, p := range mine {
				c.kill(p)
			}
			if len(mine) > 0 && c.rnd.Float64() < .05 {
				c.newPod(s) // a ghost: killed the next tick
			}
		}
	}
}

func (c *cluster) newPod(s *set) {
	if c.faults[s.revision] == overQuota {
		s.refused = `pods "` + s.name + `-*" is forbidden: exceeded quota: routers`
		return
	}
	s.refused = ""
	var alive []int
	for n := range c.nodes {
		if _, dead := c.dead[n]; !dead {
			alive = append(alive, n)
		}
	}
	if len(alive) == 0 {
		return
	}
	u := c.id("pod")
	c.pods[u] = &pod{uid: u, set: s.uid, revision: s.revision, slot: s.slot, born: c.now, terminating: -1, crashedAt: -1,
		node: alive[c.rnd.IntN(len(alive))], start: c.now + 1 + c.rnd.IntN(3)}
}

func (c *cluster) up(p *pod) bool {
	_, dead := c.dead[p.node]
	f := c.faults[p.revision]
	return !dead && c.now >= p.start && f != badImage && f != unschedulable
}

// tickPod is the kubelet and the router in the pod.
func (c *cluster) tickPod(p *pod) {
	if _, dead := c.dead[p.node]; dead {
		return
	}
	if p.terminating >= 0 {
		if c.now >= p.terminating+drainTicks {
			delete(c.pods, p.uid)
		}
		return
	}
	if p.flap > 0 {
		p.flap--
		c.setReady(p, false)
		return
	}
	switch f := c.faults[p.revision]; {
	case f == crashing && c.now >= p.start+2:
		p.crashedAt = c.now
		c.restart(p)
	case f == healthy && !c.noEngines:
		c.setReady(p, c.up(p) && c.now >= p.start+2)
	default:
		c.setReady(p, false)
	}
}

func at(tick int) time.Time { return epoch.Add(time.Duration(tick) * time.Second) }

func (c *cluster) container(p *pod) rollout.Container {
	return rollout.Container{Pod: types.UID(p.uid), ID: fmt.Sprintf("%s/%d", p.uid, p.life)}
}

func (c *cluster) podView(p *pod) rollout.Pod {
	out := rollout.Pod{
		UID: types.UID(p.uid), Name: p.uid, ReplicaSet: types.UID(p.set), Created: at(p.born),
		Terminating: p.terminating >= 0, Ready: p.ready, ReadySince: at(p.readySince),
		Container: c.container(p), Running: c.up(p), Restarts: int32(p.life),
	}
	if out.Terminating {
		out.GraceEnd = at(p.terminating + drainTicks + 2)
	}
	if p.crashedAt >= 0 {
		out.LastCrash = at(p.crashedAt)
	}
	switch c.faults[p.revision] {
	case badImage:
		if c.now >= p.start {
			out.Waiting = "ImagePullBackOff"
		}
	case unschedulable:
		out.Unschedulable = true
	}
	return out
}

func (c *cluster) view() view {
	v := view{spec: c.spec, stable: c.stable}
	for _, u := range sortedKeys(c.sets) {
		s := c.sets[u]
		v.sets = append(v.sets, rollout.ReplicaSet{Name: s.name, UID: types.UID(s.uid), ResourceVersion: fmt.Sprint(s.rv),
			Slot: s.slot, Revision: s.revision, Retry: s.retry, Replicas: s.replicas, CreateFailure: s.refused, Drifted: s.edited})
	}
	for _, u := range sortedKeys(c.pods) {
		v.pods = append(v.pods, c.podView(c.pods[u]))
	}
	return v
}

// read is one GET of a pod's /internal/bootstrap; nil when nobody answers.
func (c *cluster) read(p *pod) *status.Status {
	if p == nil || !c.up(p) || c.faults[p.revision] == silent {
		return nil
	}
	s := &status.Status{PodUID: p.uid, State: status.StateStarting}
	if c.now >= p.start+1 && c.faults[p.revision] != crashing {
		s.State = status.StateSettled
		if !c.noEngines {
			s.Workers = status.Workers{Discovered: 4, Usable: 4}
		}
	}
	return s
}

// live are the sets that occupy slots, by name.
func (c *cluster) live() []*set {
	var out []*set
	for _, s := range c.sets {
		if s.replicas > 0 {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *set) int {
		if a.slot != b.slot {
			return int(a.slot - b.slot)
		}
		return strings.Compare(a.name, b.name)
	})
	return out
}

// podOf is the pod that stands for a set, by the truth.
func (c *cluster) podOf(s *set) *pod {
	var best *pod
	for _, u := range sortedKeys(c.pods) {
		if p := c.pods[u]; p.set == s.uid && p.terminating < 0 {
			best = p
		}
	}
	return best
}

func (c *cluster) readyCount() int {
	n := 0
	for _, s := range c.live() {
		if p := c.podOf(s); p != nil && p.ready {
			n++
		}
	}
	return n
}

func (c *cluster) proven(s *set) bool {
	p := c.podOf(s)
	return p != nil && p.ready && c.now-p.readySince >= minReadyTicks
}

// String is the fleet on one line: slot, revision, state.
func (c *cluster) String() string {
	var out []string
	for _, s := range c.live() {
		state := "no pod"
		if p := c.podOf(s); p != nil {
			state = "boot"
			switch {
			case c.proven(s):
				state = "proven"
			case p.ready:
				state = "ready"
			}
		}
		out = append(out, fmt.Sprintf("%s=%s", s.name[2:], state))
	}
	draining := 0
	for _, p := range c.pods {
		if p.terminating >= 0 {
			draining++
		}
	}
	if draining > 0 {
		out = append(out, fmt.Sprintf("(%d draining)", draining))
	}
	if len(out) == 0 {
		return "empty"
	}
	return strings.Join(out, " ")
}
