// Package vectors holds conformance vectors as bytes, for tests only. NOTICE
// says where they come from.
package vectors

import _ "embed"

// BlockHashes maps tokens to block hashes: member "sglang" lists cases of
// SGLang's SHA-256 page chain, "vllm_sha256_cbor" of vLLM's.
//
//go:embed block_hashes.json
var BlockHashes []byte
