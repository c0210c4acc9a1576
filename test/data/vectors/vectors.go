// Package vectors holds conformance vectors as bytes, for tests only. NOTICE
// says where they come from.
package vectors

import _ "embed"

// BlockHashes maps tokens to block hashes: member "sglang" lists cases of
// SGLang's SHA-256 page chain, "vllm_sha256_cbor" of vLLM's.
//
//go:embed block_hashes.json
var BlockHashes []byte

// SGLangEventBatches are MessagePack bytes of SGLang's publisher with what they
// decode to.
//
//go:embed sglang_event_batches.json
var SGLangEventBatches []byte

// VLLMBlockStored is one BlockStored event of a running vLLM, as JSON: the
// prompt, its 400 tokens and 25 block hashes of 16 tokens, hash seed "42".
//
//go:embed vllm_blockstored_capture.json
var VLLMBlockStored []byte
