package policy

import (
	"sync"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
)

// predictions is predicted credit: what ranks will hold once they have computed the prompts they were sent. A burst that
// shares a cold prefix would otherwise scatter, because the engines announce blocks only after the first prefill.
//
// A record says that a rank was sent a prompt with this block. Keys are chained, so it stands for the whole prefix.
// Only what the index did not credit to the rank at that time is recorded: for one prompt, a rank's records are a
// stretch of levels from its depth in the index on. A query therefore begins at the rank's present depth and follows
// the stretch. Blocks the engine has announced meanwhile lie before it.
//
// A record is of one life of its rank (Standing): an engine that restarted or cleared its cache meanwhile will not have
// what it was sent before. What was sent to a rank before it told anything at all (life 0) ends with its first word too.
//
// Records lie in shards by the first key of their group of levels: prompts that share a prefix agree on the shard, and
// one lock covers a group. A shard is a ring in order of insertion, and a table from keys into it; a record that is made
// again only lives longer. When the ring is full the oldest record goes.
type predictions struct {
	ttl    int64 // nanoseconds
	start  time.Time
	shards [predictShards]predictShard
}

const (
	predictShards = 64
	// predictGroup is how many levels share a shard, a power of two.
	predictGroup = 16
	// perShard bounds one shard's ring.
	perShard = maxPredictions / predictShards
	// ringTries is how many live records at the hand are passed over in search of one that has expired, before the ring
	// grows: records that were made again do not keep the ring from being reused.
	ringTries = 4
)

type predictShard struct {
	mu    sync.Mutex // guards all below; held for the levels of one group
	heads map[index.Key]int32
	ring  []prediction
	hand  int // the oldest, once the ring is full or reused
}

type prediction struct {
	key     index.Key
	rank    uint64 // hash of its identity: a collision is a wrong hint that lives for the TTL
	expires int64  // nanoseconds after start
	next    int32  // the next record of the key, or none
	life    uint32 // low bits of the rank's life
}

const none = -1

func newPredictions(ttl time.Duration, start time.Time) *predictions {
	p := &predictions{ttl: int64(ttl), start: start}
	for i := range p.shards {
		p.shards[i].heads = map[index.Key]int32{}
	}
	return p
}

func (p *predictions) clock(t time.Time) int64 { return int64(t.Sub(p.start)) }

func (p *predictions) shard(keys []index.Key, level int) *predictShard {
	first := uint64(keys[level&^(predictGroup-1)])
	return &p.shards[first*0x9e3779b97f4a7c15>>58]
}

// tenant is a rank in one life.
type tenant struct {
	rank uint64 // hash of its identity
	life uint32 // low bits of the life
}

// sent records that a rank was sent keys of which its index holds the first depth.
func (p *predictions) sent(keys []index.Key, depth int, to tenant, at time.Time) {
	if p.ttl == 0 {
		return
	}
	now := p.clock(at)
	for depth < len(keys) {
		end := groupEnd(keys, depth)
		p.shard(keys, depth).putAll(keys[depth:end], to, now, now+p.ttl)
		depth = end
	}
}

// unsent takes that back. Records that another prompt of the prefix made as well are lost with it: better cold than wrong.
func (p *predictions) unsent(keys []index.Key, depth int, to tenant) {
	for depth < len(keys) {
		end := groupEnd(keys, depth)
		p.shard(keys, depth).expireAll(keys[depth:end], to)
		depth = end
	}
}

// groupEnd is where the levels end that share a shard with this one.
func groupEnd(keys []index.Key, level int) int { return min(len(keys), (level|(predictGroup-1))+1) }

// at tells which ranks have a record of one level, by calling f for each, with the life it is of.
func (p *predictions) at(keys []index.Key, level int, now int64, f func(tenant)) {
	s := p.shard(keys, level)
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.heads[keys[level]]
	if !ok {
		return
	}
	for ; at != none; at = s.ring[at].next {
		if s.ring[at].expires > now {
			f(tenant{s.ring[at].rank, s.ring[at].life})
		}
	}
}

func (p *predictions) has(keys []index.Key, level int, now int64, of tenant) bool {
	s := p.shard(keys, level)
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.find(keys[level], of.rank)
	return at != none && s.ring[at].expires > now && s.ring[at].life == of.life
}

// depth follows a rank's records from a level that has one, and gives how many levels it will hold: the stretch has no
// holes, so its end is found by doubling steps and then by halves. A prompt that was taken back may leave one behind that
// a longer prompt of the rank's had filled: to pass over it is right.
func (p *predictions) depth(keys []index.Key, level int, now int64, of tenant) int {
	held, absent := level, len(keys)
	for step := 1; held+step < absent; step *= 2 {
		if !p.has(keys, held+step, now, of) {
			absent = held + step
			break
		}
		held += step
	}
	for held+1 < absent {
		if mid := held + (absent-held)/2; p.has(keys, mid, now, of) {
			held = mid
		} else {
			absent = mid
		}
	}
	return held + 1
}

func (s *predictShard) find(k index.Key, rank uint64) int32 {
	at, ok := s.heads[k]
	if !ok {
		return none
	}
	for at != none && s.ring[at].rank != rank {
		at = s.ring[at].next
	}
	return at
}

func (s *predictShard) putAll(keys []index.Key, to tenant, now, expires int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		s.put(k, to, now, expires)
	}
}

func (s *predictShard) expireAll(keys []index.Key, of tenant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		if at := s.find(k, of.rank); at != none && s.ring[at].life == of.life {
			s.ring[at].expires = 0
		}
	}
}

// put makes a record, or makes the rank's last one of the key new: a rank has one life at a time.
func (s *predictShard) put(k index.Key, to tenant, now, expires int64) {
	if at := s.find(k, to.rank); at != none {
		s.ring[at].expires, s.ring[at].life = expires, to.life
		return
	}
	at := s.room(now)
	next, ok := s.heads[k]
	if !ok {
		next = none
	}
	s.ring[at] = prediction{k, to.rank, expires, next, to.life}
	s.heads[k] = at
}

// room gives a free place of the ring.
func (s *predictShard) room(now int64) int32 {
	for range min(ringTries, len(s.ring)) {
		if s.ring[s.hand].expires <= now {
			break
		}
		if len(s.ring) == perShard { // full: the oldest goes, live or not
			break
		}
		s.hand = (s.hand + 1) % len(s.ring)
	}
	if len(s.ring) < perShard && (len(s.ring) == 0 || s.ring[s.hand].expires > now) {
		s.ring = append(s.ring, prediction{})
		return int32(len(s.ring) - 1)
	}
	at := int32(s.hand)
	s.hand = (s.hand + 1) % len(s.ring)
	s.unlink(at)
	return at
}

func (s *predictShard) unlink(at int32) {
	k, next := s.ring[at].key, s.ring[at].next
	head := s.heads[k]
	switch {
	case head == at && next == none:
		delete(s.heads, k)
	case head == at:
		s.heads[k] = next
	default:
		prev := head
		for s.ring[prev].next != at {
			prev = s.ring[prev].next
		}
		s.ring[prev].next = next
	}
}

// records counts what is kept, expired records included.
func (p *predictions) records() (n int) {
	for i := range p.shards {
		s := &p.shards[i]
		s.mu.Lock()
		n += len(s.ring)
		s.mu.Unlock()
	}
	return n
}
