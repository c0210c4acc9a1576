// Package parity judges whether the router's tokens are those of its engines.
//
// The one invariant: while some engine is known to make other tokens of a model's prompts than the router, the router does
// not use its own for that kind of prompt.
//
// There is a verdict for each subject: a model, a kind of prompt (text, chat, chat with tools) and an engine. What speaks
// for it or against it:
//
//	tokens  the engine's own tokens of a prompt, asked for (/tokenize) or in an answer (prompt_token_ids)
//	count   how many tokens an answer says its prompt had, which every answer tells; a single one may have reasons of its own
//
//	state    evidence        next
//	any      tokens, equal   equal: counts begin anew
//	any      tokens, other   differs, by its tokens
//	unknown  count, equal    equal
//	unknown  count, other    unknown; differs, by counts, at the third in a row
//	equal    count, other    equal; differs, by counts, at the 32nd in a row
//	differs  count, equal    by tokens: differs. By counts: equal at the eighth in a row
//
// Book is that machine: no clock, no I/O; one mutex guards it. Watch feeds it: it asks each engine about a fixed set of
// prompts when it appears and every half minute, and about prompts that were sampled.
package parity
