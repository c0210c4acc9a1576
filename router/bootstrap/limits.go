package bootstrap

import "time"

// Times of the protocol. Source: the reference's constants (peer bootstrap 4.2) where none is named.
const (
	// DefaultTimeout is the budget of a boot (B14).
	DefaultTimeout = 60 * time.Second
	// DefaultFetchCap bounds one fetch (B14).
	DefaultFetchCap = 120 * time.Second
	// MinFetchCap and MaxFetchCap bound the option.
	MinFetchCap = 30 * time.Second
	MaxFetchCap = 600 * time.Second
	// MaxTimeout bounds the option.
	MaxTimeout = 600 * time.Second

	// fetchFloor and fetchesPerDeadline shape the time of one fetch: see fetchTimeout.
	fetchFloor         = 30 * time.Second
	fetchesPerDeadline = 4
	// passEvery is the pause between two passes of a sweep.
	passEvery = 250 * time.Millisecond
	// idleEvery is how often the view is looked at when nothing is owed.
	idleEvery = time.Second
	// coolingPasses a peer sits out after a failure, doubling with each up to maxCooling (30 s).
	coolingPasses = 4
	maxCooling    = int(30 * time.Second / passEvery)

	// askTimeout bounds one question for cursors, surveyBudget all questions of one survey (B14: the probe's budget).
	askTimeout   = 5 * time.Second
	surveyBudget = 25 * time.Second
	// surveyEvery is the least time between the beginnings of two surveys.
	surveyEvery = 100 * time.Millisecond
	// surveyWidth bounds the peers of one survey, surveyAtOnce those asked at one time.
	surveyWidth  = 32
	surveyAtOnce = 8

	// firstProbe is the age of a graft at which its seam is asked about, probeEvery the time between two questions (B14).
	firstProbe = 3 * time.Second
	probeEvery = 30 * time.Second

	// auditEvery is the time between two audits, jittered by a quarter (B7).
	auditEvery = 60 * time.Second
	// maxAuditRepairs are begun in auditWindow (B7).
	maxAuditRepairs = 2
	auditWindow     = time.Minute

	// firstHeal is the pause before a failed rank is swept again; it doubles up to maxHeal (B16).
	firstHeal = 30 * time.Second
	maxHeal   = 10 * time.Minute
	// newPeerHeal is the pause after a new sibling appeared (B16).
	newPeerHeal = 5 * time.Second

	// repairEvery is the pause between two surveys for one repair, repairSurveys how many find nothing before it is given
	// up: batches are held meanwhile.
	repairEvery   = time.Second
	repairSurveys = 2

	// minGate is the least time the seed gate may hold.
	minGate = 60 * time.Second
	// gateFactor is how many timeouts readiness may be held at most (B14).
	gateFactor = 3

	// seqSlack is how far behind the best cursor a source may be and count as good: cursors are read at different moments,
	// and what a rank holds reaches so far (1,024 batches) anyhow.
	seqSlack = 64
	// ageMargin is how much older content must be to count as older (operator decision 4).
	ageMargin = 5 * time.Second
	// wholePercent is the coverage from which a boot is warm (B8).
	wholePercent = 95

	// logEvery is how often the attempts at one peer that end alike are logged.
	logEvery = 100
	// progressEvery is how often progress is logged (B9).
	progressEvery = 2 * time.Second
	// maxAsked bounds the list of peers asked in a status.
	maxAsked = 16
)

// fetchTimeout is the time one fetch may take of a boot of timeout: a quarter, so that several peers can be tried, but at
// least 30 s or half of it, and at most the cap.
func fetchTimeout(timeout, most time.Duration) time.Duration {
	if timeout <= 0 {
		return min(fetchFloor, most)
	}
	least := min(fetchFloor, timeout/2, most)
	return min(max(timeout/fetchesPerDeadline, least), most)
}
