package proxy

import "time"

// Limits on what comes from outside. Each is checked before memory is taken for what it bounds.
const (
	// DefaultMaxBodyBytes bounds a request body: 8 MiB holds a 1 M-token prompt as text and about 1.2 M token ids.
	DefaultMaxBodyBytes = 8 << 20
	// maxJSONDepth bounds nesting of a request body. Chat requests with tool schemas stay under 40; engines that
	// parse with recursion give up near 1,000.
	maxJSONDepth = 1024
	// maxEventBytes bounds what the stream reader keeps of one SSE event. A larger event is relayed like any other,
	// only its usage is not read.
	maxEventBytes = 1 << 20
	// maxUsageBodyBytes bounds the copy of an unstreamed answer that is kept to read its usage.
	maxUsageBodyBytes = 1 << 20
	// relayBufferBytes is one read from an engine. An unstreamed answer that fits is sent only once it is complete; an
	// error answer that does not fit is passed on instead of being kept while another engine is tried.
	relayBufferBytes = 32 << 10
	// maxKeyedTokens bounds the prompts block keys are made of; it is beyond every context of today's models. A longer one
	// is routed by load.
	maxKeyedTokens = 1 << 20
	// keptTokens and keptKeys bound what the buffers of one request may keep for another: a prompt of 128 k tokens.
	keptTokens = 128 << 10
	keptKeys   = 128 << 10
	// maxSaltBytes bounds a cache salt, as in events.
	maxSaltBytes = 1024
	// maxKeySpaces bounds the key spaces whose keyers are kept. There are some 16 at a time; beyond it all begin anew.
	maxKeySpaces = 64
	// leadBytes is how much of a prompt that is no chat decides its side of a split: about a thousand tokens. A prompt that
	// grows behind them keeps its side; below them little is lost by changing it.
	leadBytes = 4 << 10
	// eagerBodyBytes is the largest body whose announced length is allocated before its bytes have come.
	eagerBodyBytes = 1 << 20
)

const (
	// bodyReadTimeout bounds how long a client may take to send its body, so that slow senders cannot hold
	// admission slots for ever.
	bodyReadTimeout = 60 * time.Second
	// discardTimeout bounds the reading of a body that is not wanted any more, before the error is sent.
	discardTimeout = time.Second
	// maxAttempts is how many engines may be asked for one request (spec: 2 attempts).
	maxAttempts = 2
	// maxUnsent bounds the further tries that never reached an engine (refused connections, connections the engine
	// had already closed): nothing was generated, so they do not use up an attempt.
	maxUnsent = 3
	// maxClosed is how many closed connections count as unsent. An engine's closing of an idle connection cannot be
	// told from an engine that died of the request at once, and such a request must not be taken to every engine.
	maxClosed = 1
	// closedWindow is how soon a request on a kept connection meets the engine's closing of it: a round trip inside a
	// cluster, with room for a busy host. A failure later than that is the engine's.
	closedWindow = 250 * time.Millisecond
	// sentAtOnceBytes is the largest request the kernel surely takes in one go: the send buffer a Linux connection
	// starts with (net.ipv4.tcp_wmem). The writing of a larger one may end in the middle.
	sentAtOnceBytes = 16 << 10
	// retryShare is how much of a retry each request earns: 10 % of requests.
	retryShare = 0.1
	// retryFloorPerSecond is earned whatever the traffic, so that a quiet router can still retry; retryBurst is the
	// most that can be saved up. The floor is that of Finagle's RetryBudget (10 a second).
	retryFloorPerSecond = 10
	retryBurst          = 64
	// maxBackpressureJitter spreads the second try after a 429 or 503, so that the clients of a full engine do not
	// arrive at its neighbour in one wave.
	maxBackpressureJitter = 25 * time.Millisecond
)
