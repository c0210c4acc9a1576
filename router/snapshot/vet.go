package snapshot

import (
	"slices"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
)

// locals finds the reader's ranks by how a peer names them.
type locals struct {
	list  []local
	byUID map[rankName]int
	byURL map[rankName]int // -1 where several ranks have the URL: an old pod's and its successor's
}

type local struct {
	key  SectionKey
	rank LocalRank
}

type rankName struct {
	worker string
	dp     int32
}

// newLocals takes what is wanted.
func newLocals(w Want) *locals {
	l := &locals{byUID: map[rankName]int{}, byURL: map[rankName]int{}}
	only := map[index.Rank]bool{}
	for _, r := range w.Ranks {
		only[r] = true
	}
	for _, s := range w.Local {
		for _, r := range s.Ranks {
			if w.Ranks != nil && !only[r.Rank] {
				continue
			}
			i := len(l.list)
			l.list = append(l.list, local{s.Key, r})
			if r.Worker.PodUID != "" {
				l.byUID[rankName{r.Worker.PodUID, r.Rank.DP}] = i
			}
			if name := (rankName{r.Worker.URL, r.Rank.DP}); r.Worker.URL != "" {
				if _, taken := l.byURL[name]; taken {
					i = -1
				}
				l.byURL[name] = i
			}
		}
	}
	return l
}

// find gives the rank a peer names (B6): by UID if the peer gives one, and by URL only where one side has none.
func (l *locals) find(w Worker, dp int32) (*local, bool) {
	if w.PodUID != "" {
		if i, ok := l.byUID[rankName{w.PodUID, dp}]; ok {
			return &l.list[i], true
		}
	}
	i, ok := l.byURL[rankName{w.URL, dp}]
	if !ok || i < 0 || !l.list[i].rank.Worker.Same(w) {
		return nil, false
	}
	return &l.list[i], true
}

// vetting turns a peer's table into the reader's terms.
type vetting struct {
	ready  bool
	peer   string
	locals *locals
	left   map[index.Rank]Reason
}

// reason says why a row is not taken: empty if it is, or if there is nothing to take. The order is that of Reasons.
func (v *vetting) reason(s *wireSection, w *wireRow, l *local) (why Reason, take bool) {
	switch {
	case s.key.Model != l.key.Model || s.key.Scheme != l.key.Scheme || s.key.Bigram != l.key.Bigram:
		return SchemeMismatch, false
	case s.key.SeedID != l.key.SeedID:
		return SeedMismatch, false
	case s.key.Scheme == index.SchemeTokens && !s.maps:
		return MapMissing, false
	case s.key.BlockSize != l.key.BlockSize && l.key.BlockSize != 0:
		return BlockSizeMismatch, false
	case !w.begun():
		return "", false
	case otherLife(l.rank.Cursor, w.Cursor):
		return OtherIncarnation, false
	case w.Cursor.Proof == cursor.Untrusted:
		return Untrusted, false
	case !v.ready:
		return ProducerCold, false
	case w.exported:
		return "", true
	case w.Blocks == 0:
		return "", false
	default:
		return NotExported, false
	}
}

// otherLife tells whether a peer's cursor is known to be of another life than ours. Ours may have nothing but a start.
func otherLife(ours, theirs cursor.Cursor) bool {
	theirs.Incarnation.Worker = ours.Incarnation.Worker
	if ours.Proof == cursor.ProofUnknown {
		a, b := ours.Incarnation.Start, theirs.Incarnation.Start
		return a.Known && b.Known && a != b
	}
	return cursor.Relate(ours, theirs) == cursor.OtherLife
}

// section gives the vetted form of a section, nil if nothing of it is taken.
func (v *vetting) section(s *wireSection) (*Vetted, error) {
	out := &Vetted{places: slices.Repeat([]int{-1}, len(s.rows))}
	seen := map[index.Rank]bool{}
	for i := range s.rows {
		w := &s.rows[i]
		l, ok := v.locals.find(w.Worker, w.DP)
		if !ok {
			continue
		}
		why, take := v.reason(s, w, l)
		if why != "" {
			v.left[l.rank.Rank] = why
		}
		if !take {
			continue
		}
		if seen[l.rank.Rank] {
			return nil, reject(DuplicateWorker, "section %s names %s/%d twice", s.key, w.Worker.Name(), w.DP)
		}
		seen[l.rank.Rank] = true
		out.key = l.key
		out.key.BlockSize = s.key.BlockSize
		out.places[i] = len(out.ranks)
		out.ranks = append(out.ranks, v.rank(w, l))
	}
	if len(out.ranks) == 0 {
		return nil, nil
	}
	return out, nil
}

// rank gives a row in the reader's terms.
func (v *vetting) rank(w *wireRow, l *local) VettedRank {
	r := VettedRank{
		Rank: l.rank.Rank, Cursor: w.Cursor, WalkedTo: max(w.WalkedTo, w.Cursor.Seq), SeededFrom: v.peer, PeerSeededFrom: w.SeededFrom,
		Digest: w.Digest, DigestVersion: w.DigestVersion, Blocks: w.Blocks,
	}
	if r.Cursor.Incarnation.Worker = l.rank.Cursor.Incarnation.Worker; r.Cursor.Incarnation.Worker == "" {
		r.Cursor.Incarnation.Worker = l.rank.Worker.Name()
	}
	return r
}

// verdict is the rejection of a body of which nothing is taken: what may pass first, as the peer is asked again then.
func (v *vetting) verdict() *Rejection {
	var best Reason
	for _, retriable := range []bool{true, false} {
		for _, why := range Reasons {
			if best != "" || why.Retriable() != retriable {
				continue
			}
			for _, got := range v.left {
				if got == why {
					best = why
				}
			}
		}
	}
	switch {
	case best != "":
		return reject(best, "of %d ranks the peer names that are ours none can be taken", len(v.left))
	case !v.ready:
		return reject(ProducerCold, "the peer calls itself no source")
	default:
		return reject(NothingUsable, "the peer holds nothing of our ranks")
	}
}
