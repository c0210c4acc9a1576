// Package chat gives the text of a chat request as an engine renders it before it tokenizes.
//
// The one invariant: the text equals the engine's for this request, or there is an error that says why it is not known. A
// guess would be a prompt whose blocks no engine has, or worse, another prompt's.
//
//	body ──decode──> ordered values ──dialect──> the template's variables ──jinja──> text
//
// Engines share the template and differ in what they hand to it: how content parts become text, which members a tool has
// and in which order, what a kwarg is called. That is a Dialect. Members of a request that change the prompt in a way this
// package does not follow give ErrOptions, images and other media ErrMedia.
//
// A Template is immutable and for any number of goroutines.
package chat
