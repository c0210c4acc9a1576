package policy

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/router/index"
)

func TestTheTableOfADecision(t *testing.T) {
	r := newRig(t, 3, func(k *Knobs) { k.DecodeWeightPercent = 10 })
	keys := chain(1, 10)
	r.hold(0, keys, 8, index.Host)
	r.hold(1, keys, 4, index.Device)
	r.stand(1).trust = Untrusted
	r.set(2, func(h *Holding) { h.Catalog = nil })
	lease(40)(r.ranks[0])
	decoding(33)(r.ranks[1])
	bytes, err := json.Marshal(r.policy.Explain(request(keys), r.ranks))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.ReplaceAll(string(bytes), `{"worker"`, "\n"+`{"worker"`); got != wantTable {
		t.Errorf("got\n%s\nwant\n%s", got, wantTable)
	}
}

// 163 tokens; w00 holds 8 blocks of 16 at 75 %, w01 4 at 50 %.
const wantTable = `{"policy":"cache_aware","model":"m","promptTokens":163,"reason":"cache_overridden","total":3,"candidates":[
{"worker":"w02","dpRank":0,"chosen":true,"tied":true,"matchedBlocks":0,"tierPercent":0,"trustPercent":0,"creditTokens":0,"load":{"activeRequests":0,"queuedPrefillTokens":0,"prefilledTokens":0,"decodeTokens":0},"cost":{"prefill":163,"decode":0,"requests":0,"total":163}},
{"worker":"w00","dpRank":0,"chosen":false,"tied":false,"space":{"scheme":"sglang","blockSize":16,"keys":10},"matchedBlocks":8,"tierPercent":75,"trust":"trusted","trustPercent":100,"creditTokens":96,"load":{"activeRequests":1,"queuedPrefillTokens":40,"prefilledTokens":0,"decodeTokens":0},"cost":{"prefill":107,"decode":0,"requests":512,"total":619}},
{"worker":"w01","dpRank":0,"chosen":false,"tied":false,"space":{"scheme":"sglang","blockSize":16,"keys":10},"matchedBlocks":4,"tierPercent":100,"trust":"untrusted","trustPercent":50,"creditTokens":32,"load":{"activeRequests":1,"queuedPrefillTokens":0,"prefilledTokens":0,"decodeTokens":33},"cost":{"prefill":131,"decode":3.3,"requests":512,"total":646.3}}]}`

func TestTheTableSaysWhatADecisionDoes(t *testing.T) {
	for seed := range uint64(200) {
		x, q := arrange(t, rand.New(rand.NewPCG(seed, 13)))
		d, table := x.decide(q), x.policy.Explain(q, x.ranks)
		first := table.Candidates[0]
		if !first.Chosen || !first.Tied || first.Worker != d.Rank.Worker().Name() || table.Reason != d.Reason.String() || first.CreditTokens != int64(d.CreditTokens) {
			t.Fatalf("seed %d: decided %+v, the table begins with %+v for %s", seed, d, first, table.Reason)
		}
		guarded, last := false, first.Cost.Total-1
		for _, row := range table.Candidates[1:] {
			if row.Chosen || guarded && row.Guard == "" {
				t.Fatalf("seed %d: %+v is out of order", seed, row)
			}
			if !guarded && row.Guard != "" {
				guarded, last = true, row.Cost.Total
			}
			if row.Cost.Total < last {
				t.Fatalf("seed %d: %s at %v comes after %v", seed, row.Worker, row.Cost.Total, last)
			}
			last = row.Cost.Total
			if sum := row.Cost.Prefill + row.Cost.Decode + row.Cost.Requests; sum < row.Cost.Total-0.01 || sum > row.Cost.Total+0.01 {
				t.Fatalf("seed %d: the terms of %+v do not sum up", seed, row.Cost)
			}
		}
	}
}

func TestALongTableListsTheCheapest(t *testing.T) {
	r := newRig(t, 1)
	pool := manyRanks(t, maxExplained+50)
	for i, rank := range pool {
		if i%7 != 0 {
			lease(10)(rank)
		}
	}
	table := r.policy.Explain(Request{Model: "m"}, pool)
	if table.Total != len(pool) || len(table.Candidates) != maxExplained {
		t.Fatalf("%d of %d candidates are listed, want %d", len(table.Candidates), table.Total, maxExplained)
	}
	for i, row := range table.Candidates {
		if idle := row.Load.ActiveRequests == 0; idle != (i < (len(pool)+6)/7) {
			t.Fatalf("row %d has %d requests", i, row.Load.ActiveRequests)
		}
	}
	if empty := r.policy.Explain(Request{}, nil); empty.Total != 0 || empty.Candidates == nil {
		t.Errorf("the table of nothing is %+v", empty)
	}
}
