package policy

import (
	"testing"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
)

// texts is a prompt without block keys: chunks of 100 tokens.
type texts []index.Key

func (texts) Keys(KeySpace) []index.Key         { return nil }
func (t texts) Approximate() ([]index.Key, int) { return t, 100 }

// both has block keys as well.
type both struct {
	texts
	blocks []index.Key
}

func (b both) Keys(KeySpace) []index.Key { return b.blocks }

func chunks(from, n int) (keys texts) {
	for i := range n {
		keys = append(keys, index.Key(from*1000+i))
	}
	return keys
}

// decide asks about a prompt of n chunks.
func (r *rig) decideText(source KeySource, n int) Decision {
	r.tb.Helper()
	d, ok := r.policy.Decide(Request{Key: uint64(n), PromptTokens: 100 * n, Keys: source}, r.ranks)
	if !ok {
		r.tb.Fatal("no decision")
	}
	return d
}

func TestATextWithoutKeysGoesWhereItsBeginningWentAtADiscount(t *testing.T) {
	r := newRig(t, 4)
	first := r.decideText(chunks(1, 20), 20)
	if first.Reason != NoKeys || first.CreditTokens != 0 {
		t.Fatalf("a text nobody was sent: %+v", first)
	}
	r.policy.Sent(first)
	// The next turn of the chat is longer, and another chat shares half of it.
	longer := append(chunks(1, 20), chunks(2, 10)...)
	for range 8 {
		d := r.decideText(longer, 30)
		if d.Rank != first.Rank || d.Reason != ApproximateHit || d.CreditTokens != 20*100*50/100 {
			t.Fatalf("the next turn went to %v by %s with credit %d", d.Rank, d.Reason, d.CreditTokens)
		}
	}
	half := append(chunks(1, 10), chunks(3, 10)...)
	if d := r.decideText(half, 20); d.Rank != first.Rank || d.CreditTokens != 10*100*50/100 {
		t.Errorf("a text that shares half: credit %d", d.CreditTokens)
	}
	if d := r.decideText(chunks(4, 20), 20); d.Reason != NoKeys || d.CreditTokens != 0 {
		t.Errorf("another text: %s, credit %d", d.Reason, d.CreditTokens)
	}
	table := r.policy.Explain(Request{Key: 1, PromptTokens: 3000, Keys: longer}, r.ranks)
	if row := table.Candidates[0]; row.ApproximateTokens != 2000 || !row.Chosen || table.Reason != "approximate_hit" {
		t.Errorf("%+v", row)
	}
}

func TestATextsCreditEndsWithItsTimeOrTheRanksLife(t *testing.T) {
	r := newRig(t, 2)
	d := r.decideText(chunks(1, 5), 5)
	r.policy.Sent(d)
	r.now = r.now.Add(approximateTTL - time.Second)
	if d := r.decideText(chunks(1, 5), 5); d.CreditTokens == 0 {
		t.Error("it ended early")
	}
	r.now = r.now.Add(time.Second)
	if d := r.decideText(chunks(1, 5), 5); d.CreditTokens != 0 {
		t.Error("it did not end")
	}
	d = r.decideText(chunks(1, 5), 5)
	r.policy.Sent(d)
	r.holdings[IndexRank(d.Rank)].Standing.(*standing).life++
	if d := r.decideText(chunks(1, 5), 5); d.CreditTokens != 0 {
		t.Error("an engine that began anew is credited with what it was sent before")
	}
}

func TestATextWithBlockKeysIsNotGuessedAt(t *testing.T) {
	r := newRig(t, 2)
	r.policy.Sent(r.decideText(chunks(1, 5), 5))
	d := r.decideText(both{chunks(1, 5), []index.Key{7, 8, 9}}, 5)
	if d.CreditTokens != 0 || len(d.texts) != 0 || d.Reason != CacheMiss {
		t.Errorf("%+v", d)
	}
}

// What others sent before stays: a prompt that was refused takes only its own end back.
func TestATextThatWasNotTakenIsNotCredited(t *testing.T) {
	r := newRig(t, 1)
	shared := chunks(1, 10)
	r.policy.Sent(r.decideText(shared, 10))
	longer := append(append(texts{}, shared...), chunks(2, 10)...)
	d := r.decideText(longer, 20)
	r.policy.Sent(d)
	if got := r.decideText(longer, 20).CreditTokens; got != 20*100*50/100 {
		t.Fatalf("sent: credit %d", got)
	}
	r.policy.Unsent(d)
	if got := r.decideText(longer, 20).CreditTokens; got != 10*100*50/100 {
		t.Errorf("taken back: credit %d, want that of the shared part", got)
	}
}

// What a guess was sent is never compared with what an engine reports.
func TestAGuessPromisesNothing(t *testing.T) {
	r := newRig(t, 1)
	r.policy.Sent(r.decideText(chunks(1, 5), 5))
	d := r.decideText(chunks(1, 5), 5)
	if d.PromisedTokens() != 0 {
		t.Errorf("promised %d tokens", d.PromisedTokens())
	}
	for range 64 {
		r.policy.Observe(d, 0)
	}
	if len(r.heard) != 0 {
		t.Errorf("heard %v", r.heard)
	}
}
