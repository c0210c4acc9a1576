// Package enginesim is an engine double: an LLM engine with everything a router
// can see of one and no model. It keeps a paged prefix cache per data-parallel
// rank, takes the time an engine would take, and tells what it cached.
//
// This package is the engine itself, without sockets: Submit a prompt, read the
// events of its Stream. It uses the time package only, so it runs in virtual
// time inside a testing/synctest bubble. Package httpapi puts the OpenAI and
// SGLang surfaces and the faults in front of it.
//
// # State and its writer
//
// Each rank is a step function (rank.go) over plain state: messages and the time
// in, effects out. One goroutine a rank (loop.go) owns it. A sequence is one
// prompt being answered:
//
//	state      | message or time     | next       | effects
//	-----------+---------------------+------------+------------------------------
//	-          | submit              | queued     | refused when the queue is full
//	queued     | its turn, room      | prefilling | blocks removed to make room
//	queued     | cancel              | -          | aborted
//	prefilling | prefill time over   | decoding   | blocks stored, first token
//	prefilling | cancel              | -          | aborted; nothing is stored
//	decoding   | token due           | decoding   | token, block stored when full
//	decoding   | last token          | -          | done; blocks stay cached
//	decoding   | cancel              | -          | aborted; blocks stay cached
//
// # Timing model
//
// Prefill is first in, first out, one prompt at a time in a rank, and costs
// (prompt - cached) / PrefillTokensPerSecond; it ends with the first token.
// Decoding runs beside it, one token each TokenInterval for every sequence,
// whatever the batch. At most MaxRunning sequences prefill or decode at once. A
// sequence reserves the pages of its whole life when its prefill starts, so it
// is never preempted; one that does not fit waits at the head of the queue and
// holds back those behind it.
//
// # Cache model
//
// The prefix is matched when prefill starts. At least the prompt's last token is
// computed, so a prompt of n tokens hits at most (n-1)/PageSize blocks, as in
// SGLang and vLLM. Blocks are stored whole: the prompt's at the end of prefill,
// the answer's when a page has been computed (the newest token is not).
package enginesim
