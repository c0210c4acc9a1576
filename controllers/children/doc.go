// Package children renders the objects a RouterFleet consists of.
//
// Its invariant: it is pure. A fleet goes in, apply configurations come out; no
// client, no clock, no randomness but the reader Tokens is given. The same fleet
// gives the same bytes on every operator and after every restart, because a
// template that differs by map order alone would roll every router.
//
// There is one file per child. Steady lists the children whose intent follows
// the spec at once, in the order they are applied. ReplicaSets follow the
// rollout instead: they are rendered from a Revision, the pinned and hashed
// subset of a spec that matters to pods, so that a slot of the stable revision
// can be filled again while the spec already asks for another one.
package children
