package jinja

import "errors"

const (
	// maxSourceBytes bounds a template's source. The longest of known models has 30 kB.
	maxSourceBytes = 256 << 10
	// maxNesting bounds how deep blocks and expressions of a source nest: the parser is recursive. Known templates
	// stay under 20.
	maxNesting = 200
	// maxCalls bounds macros that call each other, which follow the nesting of tool schemas.
	maxCalls = 64
	// maxSteps bounds the work of one run, so that a template that does not end takes some tenths of a second. A chat
	// of 1,000 messages takes some 50,000.
	maxSteps = 2 << 20
	// bytesPerStep is how much text counts as one step of work.
	bytesPerStep = 256
	// MaxTextBytes bounds the text of one run and each string on the way: twice the largest body a router is likely
	// to take, with its template's own words.
	MaxTextBytes = 32 << 20
	// maxItems bounds lists that a template makes.
	maxItems = 1 << 17
	// maxReprDepth bounds the nesting of values written as Python or JSON would.
	maxReprDepth = 1024
)

// ErrLimit says that a run was ended because it took too much: steps, calls or text.
var ErrLimit = errors.New("jinja: the template does more than a chat template may")
