package index

import "errors"

const (
	// maxRanks bounds the ranks known at one time, retired ones included. Ids are 16 bits in a carrier list.
	maxRanks = 1 << 16

	// listMembers is the largest carrier set kept as a sorted list; larger ones are bitsets. 12 entries of 4 bytes are
	// one cache line with their header.
	listMembers = 12

	// privateMembers is the size from which a set may stay on its node, not interned, when sets are over budget.
	privateMembers = 64

	// nodesPerSet is the budget of interned sets: one for so many nodes.
	nodesPerSet = 8

	// minBudgetSets is the budget of small indexes.
	minBudgetSets = 1024

	// walkKeys is how many levels a walk probes one by one; beyond, every walkStride-th from the end.
	walkKeys   = 4096
	walkStride = 16

	// unrootedPerMille: above this share of unrooted nodes (in 1/1,000 of all) the holdings along a query are not
	// taken for a prefix.
	unrootedPerMille = 1

	// tailProbes are the levels probed beyond a jump's depth.
	tailProbes = 8

	// auditEvery jumps, one is repeated as a walk by the writer.
	auditEvery = 256
)

// ErrTooManyRanks says that no rank id is free: forget ranks, or let Work sweep those that were forgotten.
var ErrTooManyRanks = errors.New("index: 65,536 ranks are known or being forgotten, the limit")
