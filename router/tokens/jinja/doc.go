// Package jinja renders chat templates: the part of Jinja 2 that they are written in, with the meaning Python gives it.
//
// The one invariant: text equals that of the reference (Jinja 2 in the sandbox, trim_blocks and lstrip_blocks on, the
// additions of Hugging Face's transformers), or there is an error. A template that asks for more is refused by Parse; what
// only shows when it runs ends the run. Neither is a guess: a chat whose text is unknown scores no cache.
//
// A template is code from outside, so it runs in a box: it can reach nothing but the values it is given, and changes none
// of them; there is no way to a file or another template; source, nesting, steps, calls and text are bounded (limits.go).
//
//	lexer.go    source ──> tokens, white space control included
//	parse*.go   tokens ──> a tree of expr and stmt
//	eval*.go    the tree with variables ──> text
//
// Values are Undefined, nil (None), bool, int64, float64, Big, string, *List, *Dict and what a template makes of its own
// (functions, namespaces). A Template is immutable and for any number of goroutines; a run is for one.
package jinja
