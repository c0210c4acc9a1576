package index

import "sync/atomic"

// audit repeats one jump in auditEvery as a walk, in the writer's time: between two writes both see one state.
type audit struct {
	state          atomic.Uint32 // of keys: whose turn it is
	keys           []Key
	jump, walk     Result
	done, differed uint64
}

// Whose turn it is with audit.keys.
const (
	auditFree = iota
	auditFilling
	auditReady
)

// sample hands the keys of one query in auditEvery to the writer, unless it still has the last.
func (x *Index) sample(keys []Key, r *Result) {
	if r.jumps++; r.jumps%auditEvery != 0 || !x.audit.state.CompareAndSwap(auditFree, auditFilling) {
		return
	}
	x.audit.keys = append(x.audit.keys[:0], keys...)
	x.audit.state.Store(auditReady)
}

// runAudit answers a sampled query both ways and counts a difference.
func (x *Index) runAudit() {
	a := &x.audit
	if a.state.Load() != auditReady {
		return
	}
	defer a.state.Store(auditFree)
	v := x.view.Load()
	a.jump.begin(v, DefaultWeights)
	if !x.jump(a.keys, &a.jump) {
		return // the writer has moved on: this would be walked now
	}
	a.walk.begin(v, DefaultWeights)
	x.walk(a.keys, Deepest, &a.walk)
	a.done++
	for at, live := range v.live {
		for id := at * 64; live != 0; id, live = id+1, live>>1 {
			if live&1 != 0 && a.jump.depth[id] != a.walk.depth[id] {
				a.differed++
				return
			}
		}
	}
}
