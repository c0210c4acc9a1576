package enginesim

import (
	"time"

	"github.com/routerfleet/routerfleet/test/enginesim/cache"
)

// message is what a rank can be told; the set is closed.
type message interface{ message() }

type (
	// tick carries nothing: time has passed.
	tick struct{}
	// submit hands over a new sequence.
	submit struct{ seq *sequence }
	// cancel ends a sequence whose caller has gone. Unknown ids have ended.
	cancel struct{ id uint64 }
	// clearCache empties the cache if nothing runs.
	clearCache struct{ reply chan<- bool }
	// restart ends everything alive and empties the cache, as a new process would.
	restart struct{ reply chan<- struct{} }
	// enumerate asks for the keys of the cached blocks.
	enumerate struct{ reply chan<- []cache.Key }
	// setPace makes tokens, due from now on, take factor times their interval.
	setPace struct{ factor float64 }
	// inspect asks for the state.
	inspect struct{ reply chan<- RankState }
)

func (tick) message()       {}
func (submit) message()     {}
func (cancel) message()     {}
func (clearCache) message() {}
func (restart) message()    {}
func (enumerate) message()  {}
func (setPace) message()    {}
func (inspect) message()    {}

// effect is what a step wants done; the loop does it, in order.
type effect interface{ effect() }

type (
	// progressed publishes a sequence's counts to its stream.
	progressed struct {
		seq              *sequence
		at               time.Time
		cached, produced int
	}
	// ended closes a sequence's stream; nil err means answered whole.
	ended struct {
		seq *sequence
		at  time.Time
		err error
	}
	// changed tells the observer.
	changed struct{ step Step }
	// cleared, restarted, enumerated and inspected answer their messages.
	cleared struct {
		reply chan<- bool
		done  bool
	}
	restarted  struct{ reply chan<- struct{} }
	enumerated struct {
		reply chan<- []cache.Key
		keys  []cache.Key
	}
	inspected struct {
		reply chan<- RankState
		state RankState
	}
)

func (progressed) effect() {}
func (ended) effect()      {}
func (changed) effect()    {}
func (cleared) effect()    {}
func (restarted) effect()  {}
func (enumerated) effect() {}
func (inspected) effect()  {}
