package index

import "math/bits"

// Key identifies a block and, being chained, its whole prefix. Every value is legal, 0 included.
type Key uint64

// Tier is a set of memories that hold a block.
type Tier uint8

// The tiers, best first.
const (
	Device Tier = 1 << iota
	Host
	Disk
	External

	// AllTiers is what a removal without a known medium clears: store narrow, remove wide.
	AllTiers = Device | Host | Disk | External
	// closed are the tiers whose blocks prove their ancestors resident.
	closed = Device | Host
)

// tierCount is the number of tiers.
const tierCount = 4

// best gives the number of the best tier in t, tierCount if there is none.
func (t Tier) best() int {
	if t&AllTiers == 0 {
		return tierCount
	}
	return bits.TrailingZeros8(uint8(t))
}

// Weights is what a block is worth in each tier, in percent, best tier first.
type Weights [tierCount]int32

// DefaultWeights are those of the cost function: device 100, host 75, disk and external 25 (percent).
var DefaultWeights = Weights{100, 75, 25, 25}

// Rank is who holds blocks: one data-parallel rank of a worker. Worker is the pod UID, or the static id.
type Rank struct {
	Worker string
	DP     int32
}

// Parent is the parent a chain claims: a key, or none for a chain that starts at the root.
type Parent struct {
	Key   Key
	Known bool
}

// Root is the parent of a chain's first block.
var Root = Parent{}

// After gives the parent of a block that follows k.
func After(k Key) Parent { return Parent{Key: k, Known: true} }

// hasher spreads keys over segments and slots. It is seeded: keys come from engines, and one that chose them to collide
// would make every probe slow.
type hasher struct{ a, b uint64 }

func newHasher(random func() uint64) hasher { return hasher{random(), random() | 1} }

func (h hasher) sum(k Key) uint64 {
	hi, lo := bits.Mul64(uint64(k)^h.a, h.b)
	return hi ^ lo
}

// DigestVersion names the digest function below. Digests of different versions do not compare.
const DigestVersion = 1

// digestOf is a node's part in its rank's digest: an odd-multiplier fold of key and tiers, so that sums over the same
// holdings are equal on every replica, in whatever order the blocks came.
func digestOf(k Key, t Tier) uint64 {
	if t == 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(k)^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93+2*uint64(t))
	return hi ^ lo
}
