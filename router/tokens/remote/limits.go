package remote

import "time"

const (
	// maxQuestionBytes bounds what is sent: a prompt of some 250,000 tokens. The engine's front end tokenizes in the
	// process that also serves, so a question is no small favour.
	maxQuestionBytes = 1 << 20
	// maxAnswerBytes bounds an answer: 8 bytes and its text a token, for maxTokens.
	maxAnswerBytes = 16 << 20
	// answerBase and answerPerByte bound it by its question as well: a token takes at least a byte of the prompt and some ten
	// of the answer, and a template writes some of its own. So what many engines at once may send is in proportion to what
	// they were sent.
	answerBase    = 256 << 10
	answerPerByte = 32
	// maxTokens bounds the tokens of a prompt, as for token-id prompts.
	maxTokens = 1 << 20
	// maxAsked bounds the questions under way.
	maxAsked = 64
	// maxEngines bounds the engines of which it is known that they cannot answer, or failed.
	maxEngines = 4096
	// entryBytes is what a cached answer costs beside its tokens.
	entryBytes = 160

	// DefaultTimeout is how long a request waits for its tokens. A prefill of 1,000 tokens takes about as long.
	DefaultTimeout = 100 * time.Millisecond
	// DefaultCacheBytes bounds the cached answers: some 1,300 prompts of 12,000 tokens.
	DefaultCacheBytes = 64 << 20

	// unsupportedFor is how long an engine without the route is not asked: an upgraded engine is another process, but not
	// always another pod.
	unsupportedFor = time.Minute
	// excusedBytes is the longest question that says something of an engine when it fails: a longer one may take more than
	// DefaultTimeout where nothing is wrong.
	excusedBytes = 64 << 10
	// failures in a row pause an engine for pauseFor.
	failures = 3
	pauseFor = 10 * time.Second
	// differences in a row, as many as make parity doubt what agreed before, pause for doubtedFor an engine whose tokens are
	// not those it counts: a client could send a few requests that are counted in another way.
	differences = 32
	doubtedFor  = time.Minute
)
