package bootstrap

import (
	"errors"
	"net/http"
	"time"

	"github.com/routerfleet/routerfleet/internal/signed"
	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/peers"
	"github.com/routerfleet/routerfleet/router/snapshot"
)

// Answer is how a peer answered last.
type Answer string

// The answers.
const (
	AnswerNone        Answer = ""
	AnswerWarm        Answer = "warm"
	AnswerCold        Answer = "cold"
	AnswerUnreachable Answer = "unreachable"
	AnswerRefused     Answer = "refused"
	AnswerUnreadable  Answer = "unreadable"
)

// memory is what is remembered of one peer.
type memory struct {
	peer   peers.Peer
	answer Answer
	detail string
	skewed bool // its clock and ours are too far apart
	// table is the last one it answered; a failure forgets it.
	table *table
	// rejected peers are asked no more in this sweep.
	rejected bool
	// coolingFor is how many passes it sits out; strikes how often it had to.
	coolingFor, strikes int
	// lastBody is when its last body arrived: an export that old would be the same again.
	lastBody time.Time
	// misses are the ranks its bodies did not give although its table names them.
	misses map[index.Rank]miss
	// said and saidTimes limit the log.
	said      string
	saidTimes int
}

type miss struct {
	times int
	until time.Time
}

// fail notes that the peer did not answer: what it testified before counts no more.
func (m *memory) fail(err error) {
	m.table = nil
	m.answer, m.detail, m.skewed = answerOf(err), err.Error(), skewed(err)
}

func skewed(err error) bool {
	var none *snapshot.NoBody
	return errors.As(err, &none) && none.Code == signed.CodeSkew
}

// cool has the peer sit out some passes, more with each time; at least as long as it asked for itself.
func (m *memory) cool(least time.Duration) {
	passes := min(coolingPasses<<min(m.strikes, 16), maxCooling)
	m.strikes++
	m.coolingFor = max(passes, int(min(least/passEvery, time.Duration(maxCooling))))
}

// missed has a rank not be asked of the peer for a while.
func (m *memory) missed(r index.Rank, now time.Time) {
	if m.misses == nil {
		m.misses = map[index.Rank]miss{}
	}
	before := m.misses[r]
	wait := min(time.Second<<min(before.times, 8), 30*time.Second)
	m.misses[r] = miss{before.times + 1, now.Add(wait)}
}

func (m *memory) misfit(r index.Rank, now time.Time) bool { return now.Before(m.misses[r].until) }

// answerOf classifies a failure.
func answerOf(err error) Answer {
	var rejection *snapshot.Rejection
	var none *snapshot.NoBody
	switch {
	case errors.As(err, &rejection) && rejection.Reason == snapshot.ProducerCold:
		return AnswerCold
	case errors.As(err, &rejection):
		return AnswerUnreadable
	case errors.As(err, &none) && (none.Status == http.StatusUnauthorized || none.Status == http.StatusForbidden):
		return AnswerRefused
	default:
		return AnswerUnreachable
	}
}

// FetchOutcome is what came of asking one peer for blocks, as metrics count it.
type FetchOutcome uint8

// The outcomes.
const (
	FetchAccepted FetchOutcome = iota
	FetchUnreachable
	FetchColdPeer
	FetchRejected
	fetchOutcomes
)

var fetchNames = [fetchOutcomes]string{"accepted", "unreachable", "cold_peer", "rejected"}

// String names the outcome as metrics do.
func (o FetchOutcome) String() string { return fetchNames[o] }

// fetchOutcomeOf classifies a fetch that gave no usable section.
func fetchOutcomeOf(err error) FetchOutcome {
	var rejection *snapshot.Rejection
	switch {
	case err == nil:
		return FetchAccepted
	case errors.As(err, &rejection) && rejection.Retriable():
		return FetchColdPeer
	case errors.As(err, &rejection):
		return FetchRejected
	default:
		return FetchUnreachable
	}
}

// retryAfter is how long a busy peer asked to be left alone.
func retryAfter(err error) time.Duration {
	var none *snapshot.NoBody
	if errors.As(err, &none) {
		return none.RetryAfter
	}
	return 0
}
