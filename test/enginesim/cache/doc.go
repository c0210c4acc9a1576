// Package cache is the paged prefix cache of the engine double: which blocks of
// which prompts one rank holds, and which block leaves when room is needed.
//
// It is pure: no goroutine, clock, lock or I/O. One rank owns one Cache and is
// its only caller.
//
// A block is one page of tokens and is named by a Key that hashes the page and
// everything before it, so equal keys mean equal prefixes. A page of memory is
// in one of four uses, and their sum never exceeds the capacity:
//
//	use      | what it is                         | may be evicted
//	---------+------------------------------------+---------------------------
//	pinned   | a cached block of a live sequence  | no
//	cached   | a cached block nobody uses         | yes, once it is a leaf
//	private  | reserved by a live sequence        | no, freed by its Release
//	free     |                                    |
//
// Invariant: a cached block's parent is cached, and a pinned block's parent is
// pinned. Eviction therefore takes leaves only, the longest unused first, as
// SGLang's radix cache does: a prefix outlives everything that extends it.
package cache
