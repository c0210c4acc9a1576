package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"sync"
	"testing/synctest"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/policy"
	"github.com/routerfleet/routerfleet/router/tokens"
	"github.com/routerfleet/routerfleet/router/workers"
	"github.com/routerfleet/routerfleet/test/data/traces"
	"github.com/routerfleet/routerfleet/test/enginesim"
)

const (
	// model is what the doubles serve.
	model = "m"
	// seed is the fleet's secret of the tokens scheme.
	seed index.Seed = 0x0123456789abcdef
)

// Setup describes a run. Zero numbers are those of the shipped trace's reference: 8 engines of 8,000 blocks of 512
// tokens, 8,000 tokens of prefill a second, 20 ms a token.
type Setup struct {
	Engines                int
	Blocks                 int
	PrefillTokensPerSecond float64
	TokenInterval          time.Duration
	// Ties changes the requests' keys, and with them how ties are broken: runs that differ in nothing else tell how
	// much a figure varies by itself.
	Ties uint64
	// Wire feeds the index; one run uses it up. Default: Direct.
	Wire Wire
	// Policy makes the policy under test over the wire. Required.
	Policy func(policy.Directory) (policy.Policy, error)
}

func (s Setup) withDefaults() Setup {
	s.Engines = cmp.Or(s.Engines, 8)
	s.Blocks = cmp.Or(s.Blocks, 8_000)
	s.PrefillTokensPerSecond = cmp.Or(s.PrefillTokensPerSecond, 8_000)
	s.TokenInterval = cmp.Or(s.TokenInterval, 20*time.Millisecond)
	if s.Wire == nil {
		s.Wire = NewDirect(model, traces.BlockSize)
	}
	return s
}

// Result is what a run came to.
type Result struct {
	// Totals sums over the engines; Engines has each one's own at the end.
	Totals  enginesim.Totals
	Engines []enginesim.RankState
	// Requests counts the answered; TTFT sums the virtual time to their first tokens and LongestTTFT is the worst.
	Requests    int
	TTFT        time.Duration
	LongestTTFT time.Duration
	// Reasons counts the decisions by what decided them.
	Reasons map[policy.Reason]int
	// PromisedTokens were in the index at the decision, CreditTokens were counted on, ReportedTokens found by the
	// engines.
	PromisedTokens, CreditTokens, ReportedTokens int64
	// Took is virtual.
	Took time.Duration
}

// HitRatio is the share of the prompts' blocks that were found cached.
func (r Result) HitRatio() float64 {
	return float64(r.Totals.CachedBlocks) / float64(max(1, r.Totals.PromptBlocks))
}

// String is the run in one line.
func (r Result) String() string {
	n := time.Duration(max(1, r.Requests))
	return fmt.Sprintf("hit ratio %.2f %% of %d blocks, %d requests, ttft mean %v worst %v, promised %d credited %d reported %d tokens, reasons %v, virtual %v",
		100*r.HitRatio(), r.Totals.PromptBlocks, r.Requests, (r.TTFT / n).Round(time.Millisecond), r.LongestTTFT.Round(time.Millisecond),
		r.PromisedTokens, r.CreditTokens, r.ReportedTokens, r.Reasons, r.Took.Round(time.Second))
}

// run is a replay in progress.
type run struct {
	policy  policy.Decider
	ranks   []*workers.Rank
	engines map[workers.ID]*enginesim.Engine
	ties    uint64
	// heard is told of each answer whose tokens were counted; nil tells nobody.
	heard func(request traces.Request, cached int)

	open   sync.WaitGroup
	mu     sync.Mutex // guards result and faults
	result Result
	faults []error
}

// Replay sends each request at its time to the rank the policy chooses, and returns when all are answered. Call it in
// a synctest bubble.
func Replay(ctx context.Context, requests []traces.Request, s Setup) (Result, error) {
	s = s.withDefaults()
	ctx, stop := context.WithCancel(ctx)
	r := &run{ties: s.Ties, engines: map[workers.ID]*enginesim.Engine{}, result: Result{Reasons: map[policy.Reason]int{}}}
	var running sync.WaitGroup
	defer func() { stop(); running.Wait() }()
	if err := r.start(ctx, s, &running); err != nil {
		return Result{}, err
	}
	begin := time.Now()
	for i, request := range requests {
		<-time.After(time.Until(begin.Add(request.At)))
		if err := r.send(ctx, request); err != nil {
			r.fault(fmt.Errorf("request %d: %w", i, err))
			break
		}
	}
	r.open.Wait()
	r.result.Took = time.Since(begin)
	synctest.Wait() // what is on the wire arrives
	if err := r.sum(ctx); err != nil {
		return Result{}, err
	}
	return r.result, errors.Join(r.faults...)
}

// sum asks the engines, and sees that nobody is left on their ranks.
func (r *run) sum(ctx context.Context) error {
	for _, rank := range r.ranks {
		states, err := r.engines[rank.Worker().ID()].State(ctx)
		if err != nil {
			return err
		}
		r.result.Engines = append(r.result.Engines, states[0])
		r.result.Totals = r.result.Totals.Add(states[0].Totals)
		if left := rank.Load(); left != (workers.Load{}) {
			r.fault(fmt.Errorf("%s: %+v is left when all is answered", rank.Worker().Name(), left))
		}
	}
	return nil
}

// start makes the engines, their ranks and the policy.
func (r *run) start(ctx context.Context, s Setup, running *sync.WaitGroup) error {
	if err := s.Wire.Start(ctx, running); err != nil {
		return err
	}
	for _, id := range s.names() {
		ear, err := s.Wire.Observer(id)
		if err != nil {
			return err
		}
		if r.engines[workers.ID(id)], err = s.engine(ctx, ear, running); err != nil {
			return err
		}
	}
	return r.choose(s, s.Wire)
}

// names are the ids of the engines.
func (s Setup) names() []string {
	var ids []string
	for i := range s.Engines {
		ids = append(ids, fmt.Sprintf("engine-%03d", i))
	}
	return ids
}

// engine starts one, with somebody to hear it.
func (s Setup) engine(ctx context.Context, ear enginesim.Observer, running *sync.WaitGroup) (*enginesim.Engine, error) {
	e, err := enginesim.New(enginesim.Options{
		Blocks: s.Blocks, PageSize: traces.BlockSize, PrefillTokensPerSecond: s.PrefillTokensPerSecond,
		TokenInterval: s.TokenInterval, Observer: ear,
	})
	if err != nil {
		return nil, err
	}
	running.Go(func() { _ = e.Run(ctx) }) // it ends with ctx and says so
	return e, nil
}

// choose gives the run a policy over the engines' ranks, which looks up what they cache in d.
func (r *run) choose(s Setup, d policy.Directory) error {
	var fixed []workers.FixedWorker
	for _, id := range s.names() {
		fixed = append(fixed, workers.FixedWorker{
			ID: workers.ID(id), URL: &url.URL{Scheme: "http", Host: id + ":8000"}, Models: []string{model},
		})
	}
	registry, err := workers.NewFixed(workers.Options{}, fixed...)
	if err != nil {
		return err
	}
	r.ranks, _ = registry.Snapshot().Pool(model)
	p, err := s.Policy(d)
	if err != nil {
		return err
	}
	r.policy = policy.Deciding(p)
	return nil
}

func (r *run) fault(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, err)
}

// send does what the proxy does with one request.
func (r *run) send(ctx context.Context, request traces.Request) error {
	prompt := request.Prompt()
	d, ok := r.policy.Decide(policy.Request{
		Model: model, Key: keyOfPrompt(request.Blocks, r.ties), PromptTokens: len(prompt), Keys: &source{tokens: prompt},
	}, r.ranks)
	if !ok {
		return errors.New("the policy chose nobody")
	}
	lease, ok := d.Rank.AcquireCached(len(prompt), d.CreditTokens)
	if !ok {
		return errors.New("a closed breaker refused")
	}
	r.policy.Sent(d)
	stream, err := r.engines[d.Rank.Worker().ID()].Submit(ctx, enginesim.Request{
		Prompt: prompt, Output: enginesim.Answer(prompt, 0, request.OutputLength), Rank: enginesim.AnyRank,
	})
	if err != nil {
		lease.Done(workers.Failure)
		return err
	}
	sent := time.Now()
	r.open.Go(func() {
		cached, err := r.read(ctx, d, lease, stream, sent)
		switch {
		case err != nil:
			r.fault(err)
		case r.heard != nil:
			r.heard(request, cached)
		}
	})
	return nil
}

// read consumes an answer, keeps its lease and the policy up to date, and gives the prompt tokens that were found cached.
func (r *run) read(ctx context.Context, d policy.Decision, lease *workers.Lease, stream *enginesim.Stream, sent time.Time) (cached int, err error) {
	var ttft time.Duration
	for first := true; ; first = false {
		event, err := stream.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			lease.Done(workers.Failure)
			return 0, err
		}
		if first {
			ttft = time.Since(sent)
		}
		lease.Produced(len(event.Tokens))
	}
	lease.Done(workers.Success)
	cached, _ = stream.Usage()
	r.policy.Observe(d, cached)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Requests++
	r.result.TTFT += ttft
	r.result.LongestTTFT = max(r.result.LongestTTFT, ttft)
	r.result.Reasons[d.Reason]++
	r.result.PromisedTokens += int64(d.PromisedTokens())
	r.result.CreditTokens += int64(d.CreditTokens)
	r.result.ReportedTokens += int64(cached)
	return cached, nil
}

// keyOfPrompt stands for the proxy's hash of the prompt.
func keyOfPrompt(blocks []uint32, seed uint64) uint64 {
	b := make([]byte, 0, 4*len(blocks))
	for _, id := range blocks {
		b = append(b, byte(id), byte(id>>8), byte(id>>16), byte(id>>24))
	}
	return xxh3.HashSeed(b, seed)
}

// source computes a prompt's keys as the router does.
type source struct {
	tokens []uint32
	keys   []index.Key
}

func (s *source) Keys(space policy.KeySpace) []index.Key {
	if s.keys != nil {
		return s.keys
	}
	keyer, err := tokens.NewKeyer(tokens.Options{
		Scheme: space.Scheme, BlockSize: space.BlockSize, Bigram: space.Bigram, Model: space.Model, Seed: seed,
	})
	if err != nil {
		panic(err) // a wire with a space that no router has
	}
	if s.keys, err = keyer.Append(nil, s.tokens, tokens.Context{}); err != nil {
		panic(err)
	}
	return s.keys
}
