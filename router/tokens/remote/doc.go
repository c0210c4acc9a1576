// Package remote asks engines for the tokens of a prompt: for models whose tokenizer the router does not have.
//
// The one invariant: an answer is an engine's own for exactly this prompt, or there is an error, at the latest when the
// deadline ends. Nothing is tried again here; who asked goes on without tokens.
//
// vLLM renders chats (/v1/chat/completions/render, or else /tokenize, which knows fewer members); SGLang tokenizes texts
// only. Answers are kept in a bounded cache, equal questions at one time are one question, an engine that has no such route
// is left alone for a while, and so is one that fails.
//
// Client is for any number of goroutines; a question is asked by one goroutine that lives as long as it.
package remote
