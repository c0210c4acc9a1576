// Package bpe turns text into the token ids that a model's own tokenizer gives, from its Hugging Face tokenizer.json.
//
// The one invariant: ids equal the reference tokenizer's, or there is an error. What a file asks for and this package does
// not do exactly is refused by Load with its name; a text that it cannot encode exactly gives ErrTooLong or ErrNotUTF8.
// A request whose tokens are unknown scores no cache; one with wrong tokens would be sent to the wrong engine for good.
//
// Only byte-level BPE is read (Llama 3, Qwen, GPT-2 and their relatives). Encoding goes
//
//	text ──> added tokens cut out ──> NFC ──> normalized added tokens cut out ──> words ──> merges ──> ids
//	         (special ones too)       of the pieces between them          by the file's pattern
//
// No step looks across an added token, so a text may be cut at any of them and the parts encoded each for itself (Parts).
// Two caches use that: one keeps the ids of words, one those of the text between added tokens, which are a chat's messages.
// Both are bounded in bytes, compare the text itself and not only its hash, and change no result.
//
// A Tokenizer never changes after Load but for its caches; any number of goroutines may use it.
package bpe
