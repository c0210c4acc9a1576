package prober

import "time"

const (
	// readTimeout bounds one read: dial, headers and body.
	readTimeout = 2 * time.Second
	// maxConcurrent bounds the reads under way over all fleets.
	maxConcurrent = 64

	settlingInterval = time.Second
	scoutInterval    = 10 * time.Second
	settledInterval  = 5 * time.Minute

	// weary is after how much silence a container is asked less often, every scoutInterval.
	weary = time.Minute

	// Silence is after how long a router that stopped answering counts as unreachable in a fleet's conditions. It is read
	// every second by then: at least three reads in a row failed.
	Silence = 10 * time.Second

	// refusedInterval is how often at most a fleet's owner is woken because its token was refused.
	refusedInterval = time.Minute

	// jitter spreads reads by this share of their interval, so that fleets created together do not stay in step.
	jitter = 0.2
)
