package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/router/index"
)

// answers steps a tally through n equal answers.
func answers(t tally, n int, promised, delivered int64) tally {
	for range n {
		t, _ = t.step(promised, delivered)
	}
	return t
}

func TestARankIsSuspectByTheMeanOf32Answers(t *testing.T) {
	for _, c := range []struct {
		name                string
		promised, delivered int64
		suspect             bool
		ratio               int32
	}{
		{"what was promised came", 100, 100, false, 100},
		{"10 % less is within", 100, 90, false, 90},
		{"11 % less is not", 100, 89, true, 89},
		{"2 blocks less are within, whatever the share", 4, 2, false, 50},
		{"3 blocks less are not", 4, 1, true, 25},
		{"nothing came", 50, 0, true, 0},
		{"more than promised is no fault", 50, 90, false, 100},
	} {
		before := answers(tally{}, truthAnswers-1, c.promised, c.delivered)
		if before.measured || before.suspect {
			t.Errorf("%s: judged after 31 answers", c.name)
		}
		if got, want := answers(before, 1, c.promised, c.delivered), (tally{measured: true, suspect: c.suspect, ratio: c.ratio}); got != want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, want)
		}
	}
}

func TestMoreInOneAnswerDoesNotMakeUpForLessInAnother(t *testing.T) {
	v := tally{}
	for i := range int64(truthAnswers) {
		v, _ = v.step(100, i%2*200)
	}
	if want := (tally{measured: true, suspect: true, ratio: 50}); v != want {
		t.Errorf("got %+v, want %+v", v, want)
	}
}

func TestAnswersWithoutAPromiseSayNothing(t *testing.T) {
	v := answers(answers(tally{}, 31, 100, 0), 1000, 0, 0)
	if v.measured || v.answers != 31 {
		t.Errorf("got %+v", v)
	}
}

func TestA32GoodAnswersEndSuspicion(t *testing.T) {
	v := answers(tally{}, 32, 100, 40)
	if v = answers(v, 31, 100, 99); !v.suspect || v.ratio != 40 {
		t.Fatalf("after 31 good answers: %+v", v)
	}
	if v = answers(v, 1, 100, 99); v.suspect {
		t.Fatalf("after 32 good answers: %+v", v)
	}
}

func TestTrustAndMeasurementDiscountTogether(t *testing.T) {
	fresh, good, bad := tally{}, tally{measured: true, ratio: 95}, tally{measured: true, suspect: true, ratio: 30}
	for _, c := range []struct {
		trust            Trust
		fresh, good, bad int32
	}{
		{Trusted, 100, 100, 30},
		{UpperBound, 60, 95, 30},
		{Suspect, 60, 95, 30},
		{Untrusted, 60, 60, 30},
		{TrustUnknown, 60, 60, 30},
	} {
		got := []int32{fresh.discount(c.trust, 60), good.discount(c.trust, 60), bad.discount(c.trust, 60)}
		if want := []int32{c.fresh, c.good, c.bad}; !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", c.trust, got, want)
		}
	}
}

func TestAnEngineThatDeliversLessIsDiscountedUntilItDoesNot(t *testing.T) {
	r := newRig(t, 3)
	keys := chain(1, 100)
	r.hold(1, keys, 100, index.Device)
	for range truthAnswers {
		d := r.expect("believed", request(keys), 1, CacheHit, 100*blockSize)
		r.policy.Observe(d, 25*blockSize)
	}
	if want := []string{"w01 life 1 suspect true 25%"}; !slices.Equal(r.heard, want) {
		t.Fatalf("heard %q, want %q", r.heard, want)
	}
	if got := r.counted("routerfleet_policy_suspect_ranks", "worker", "w01"); got != 1 {
		t.Errorf("%v suspect ranks are shown", got)
	}
	for range truthAnswers {
		d := r.expect("suspect", request(keys), 1, CacheHit, 25*blockSize)
		if d.PromisedTokens() != 100*blockSize {
			t.Fatalf("promised %d tokens: a discount must not shrink what is compared", d.PromisedTokens())
		}
		r.policy.Observe(d, 100*blockSize)
	}
	r.expect("believed again", request(keys), 1, CacheHit, 100*blockSize)
	if got := r.heard[len(r.heard)-1]; got != "w01 life 1 suspect false 100%" {
		t.Errorf("heard %q at last", got)
	}
}

func TestANewLifeBeginsWithoutSuspicion(t *testing.T) {
	r := newRig(t, 2)
	keys := chain(1, 100)
	r.hold(1, keys, 100, index.Device)
	var stale Decision
	for range truthAnswers {
		stale = r.decide(request(keys))
		r.policy.Observe(stale, 0)
	}
	lease(3_000)(r.ranks[0])
	if d := r.decide(request(keys)); d.CreditTokens != 0 || d.Reason != CacheMiss {
		t.Fatalf("an engine that delivers nothing has %d tokens of credit, reason %s", d.CreditTokens, d.Reason)
	}
	r.stand(1).life = 2
	r.expect("restarted", request(keys), 1, CacheHit, 100*blockSize)
	for range truthAnswers { // answers of the life before come in late
		r.policy.Observe(stale, 0)
	}
	r.expect("late answers of another life", request(keys), 1, CacheHit, 100*blockSize)
	if got, want := r.counted("routerfleet_policy_observed_answers_total", "worker", "w01"), float64(2*truthAnswers); got != want {
		t.Errorf("%v answers are shown, want all %v", got, want)
	}
}

// An engine computes a prompt's last token always: a prompt of whole blocks cannot be found cached whole.
func TestThePromiseLeavesOutWhatNoEngineReuses(t *testing.T) {
	r := newRig(t, 1)
	keys := chain(1, 4)
	r.hold(0, keys, 4, index.Device)
	for tokens, want := range map[int]int{4 * blockSize: 3, 4*blockSize + 1: 4, 3*blockSize + 1: 3, 1: 0, 0: 0} {
		q := request(keys)
		q.PromptTokens = tokens
		if got := r.decide(q).PromisedTokens(); got != want*blockSize {
			t.Errorf("%d tokens: promised %d, want %d blocks", tokens, got, want)
		}
	}
}

func TestPredictedAndReportedTokensAreCountedPerWorkerWhileItLives(t *testing.T) {
	r := newRig(t, 2)
	keys := chain(1, 10)
	r.hold(1, keys, 10, index.Device)
	d := r.decide(request(keys))
	r.policy.Observe(d, 8*blockSize)
	r.policy.Observe(r.decide(Request{Model: "m"}), 64) // no keys: nothing to compare
	r.policy.Observe(d, -1)
	for name, want := range map[string]float64{"predicted_cached_tokens": 10 * blockSize, "reported_cached_tokens": 8 * blockSize, "observed_answers": 1} {
		if got := r.counted("routerfleet_policy_"+name+"_total", "worker", "w01"); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	delete(r.holdings, r.holders[1].Rank())
	r.publish()
	if got := r.counted("routerfleet_policy_observed_answers_total", "worker", "w01"); got != -1 {
		t.Errorf("a worker that left still shows %v answers", got)
	}
}

func TestTruthsOfRanksThatLeftAreForgotten(t *testing.T) {
	r := newRig(t, 3)
	r.decide(Request{Model: "m"})
	for i := range 2 {
		delete(r.holdings, r.holders[i].Rank())
	}
	r.publish()
	r.decide(Request{Model: "m"})
	var left []string
	r.policy.truths.each(func(t *truth) { left = append(left, t.worker) })
	if fmt.Sprint(left) != "[w02]" {
		t.Errorf("truths of %s are kept, want w02", strings.Join(left, " "))
	}
}
