// Package tokens gives the block keys of a request's tokens, for each hash scheme an index may have.
//
// The one invariant: a key equals the engine's for the same block, or is equal to no engine's. It is never a guess: what
// an engine's hash contains and we do not know (images, an adapter in a scheme without adapters) gives no keys at all.
//
//	sglang            SGLang's page hash chain: SHA-256 over the pages, the short last page included
//	vllm-sha256-cbor  vLLM's sha256_cbor chain with a known seed: full blocks only
//	tokens            our own chain over tokens (package index), for engines whose hashes cannot be computed
//
// A Keyer computes one of them. It keeps buffers: use one a goroutine.
package tokens
