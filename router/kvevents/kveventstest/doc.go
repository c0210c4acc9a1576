// Package kveventstest encodes KV events as engines do, for tests and for the engine double: SGLang's and vLLM's dialects,
// each with its shapes, hash forms and defaults. It is written from the engines' definitions, not from the decoder, and is
// checked against bytes they really sent.
package kveventstest
