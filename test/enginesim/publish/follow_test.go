package publish

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/test/enginesim"
)

func TestWhoFollowsFromTheStartHoldsExactlyWhatIsCached(t *testing.T) {
	setups := []Options{{Dialect: VLLMMap, HashScheme: SHA256CBOR, HashSeed: "0", LoRA: "tuned"}, {Dialect: VLLMArray, Hybrid: true}}
	for _, d := range Dialects() {
		setups = append(setups, Options{Dialect: d})
	}
	for i, opts := range setups {
		for round := range 4 {
			t.Run(fmt.Sprintf("%s/setup=%d/seed=%d", opts.Dialect, i, round), func(t *testing.T) {
				engine := enginesim.Options{DPSize: 2, PageSize: 2, Blocks: 24, MaxRunning: 4, TokenInterval: 7 * time.Millisecond}
				engine.Bigram = round == 3 && !opts.Dialect.IsVLLM()
				served(t, engine, opts, func(r *rig) { r.traffic(uint64(round)) })
			})
		}
	}
}

// traffic plays random prompts with shared prefixes under cache pressure, and
// compares at every rest.
func (r *rig) traffic(seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	followers := make([]*follower, 2)
	for rank := range followers {
		f, stop := r.follow(rank, index.SchemeTokens)
		defer stop()
		followers[rank] = f
	}
	removals := int64(0)
	for range 6 {
		for range 12 {
			prompt := make([]uint32, 1+random.IntN(20))
			for i := range prompt {
				prompt[i] = uint32(random.IntN(2))
			}
			salt := ""
			if random.IntN(4) == 0 {
				salt = "tenant"
			}
			ctx, cancel := context.WithTimeout(r.t.Context(), time.Duration(random.IntN(100))*time.Millisecond)
			defer cancel()
			_, err := r.engine.Submit(ctx, enginesim.Request{Prompt: prompt, Output: enginesim.Answer(prompt, 0, random.IntN(12)), Rank: random.IntN(2), CacheSalt: salt})
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				r.t.Fatal(err)
			}
			<-time.After(time.Duration(random.IntN(30)) * time.Millisecond)
		}
		r.settle()
		if random.IntN(4) == 0 {
			if _, err := r.engine.ClearCache(r.t.Context()); err != nil {
				r.t.Fatal(err)
			}
			synctest.Wait()
		}
		for rank, f := range followers {
			r.wantTruth(f, rank)
		}
	}
	states, err := r.engine.State(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, st := range states {
		removals += st.Totals.RemovedBlocks
	}
	for _, f := range followers {
		for i, seq := range f.seqs {
			if seq != int64(i) {
				r.t.Fatalf("message %d has seq %d", i, seq)
			}
		}
	}
	if removals == 0 {
		r.t.Error("nothing was ever evicted: the test proves too little")
	}
}

// The keys of the tokens scheme come from tokens, salt and adapter alone, so they
// are equal in every dialect of vLLM, whatever the hashes.
func TestEveryDialectOfVLLMGivesTheSameTokenChains(t *testing.T) {
	prompt := tokens(1, 9)
	for _, salt := range []string{"", "tenant"} {
		want, parent := map[index.Key]bool{}, seed.RootKey("m", salt)
		for i := range 4 {
			var block []byte
			for _, token := range prompt[2*i : 2*i+2] {
				block = index.AppendToken(block, token)
			}
			parent = parent.Next(seed.Chunk(index.AppendSuffix(block, "tuned", nil)))
			want[parent] = true
		}
		for _, d := range []Dialect{VLLMArray, VLLMMap, VLLMMapBatch, VLLMInt, VLLMIntMap} {
			served(t, enginesim.Options{DPSize: 1, PageSize: 2}, Options{Dialect: d, LoRA: "tuned"}, func(r *rig) {
				f, stop := r.follow(0, index.SchemeTokens)
				defer stop()
				r.ask(0, prompt, 0, salt)
				if len(f.keys) != len(want) {
					t.Errorf("%s: %d keys, want %d", d, len(f.keys), len(want))
				}
				for _, key := range f.keys {
					if !want[key] {
						t.Errorf("%s, salt %q: a key of no block", d, salt)
					}
				}
			})
		}
	}
}
