// Package peers knows the siblings of a replica: who they are, where their admin listeners are, and whether that is all
// of them.
//
// Its one invariant: an empty set is told apart from a set nobody has told us. Only the first may make a replica conclude
// that it is alone, for what it then decides (it boots cold) nobody corrects. So a set is published when it is complete
// and never by half, an error of the watch leaves it as it is, and a replica never finds itself among its siblings.
//
// The writer of a Registry is whoever watches (Watch, or nobody for peers named on the command line); everyone else reads
// a Set.
package peers
