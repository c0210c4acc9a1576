package policy

import (
	"bytes"
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/routerfleet/routerfleet/router/index"
)

// identityOf is a rank's name in bytes for the rendezvous: the worker, a zero byte (no id holds one) and the
// data-parallel rank as LE32. It is equal on every replica.
func identityOf(r index.Rank) []byte {
	b := make([]byte, 0, len(r.Worker)+5)
	b = append(b, r.Worker...)
	return binary.LittleEndian.AppendUint32(append(b, 0), uint32(r.DP))
}

// rendezvous finds the rank with the highest XXH3(request key as LE64 || identity) of those it is shown: the same one
// in whatever order they come, and on every replica. Ranks of equal hashes are told apart by their identities.
type rendezvous struct {
	buf   []byte // request key, then room for an identity; kept between requests
	best  uint64
	owner []byte
	at    int // the position of the best, -1 when there is none
}

func (r *rendezvous) begin(key uint64) {
	r.buf = binary.LittleEndian.AppendUint64(r.buf[:0], key)
	r.at, r.owner = -1, nil
}

func (r *rendezvous) offer(at int, identity []byte) {
	r.buf = append(r.buf[:8], identity...)
	h := xxh3.Hash(r.buf)
	if r.at < 0 || h > r.best || h == r.best && bytes.Compare(identity, r.owner) > 0 {
		r.best, r.owner, r.at = h, identity, at
	}
}
