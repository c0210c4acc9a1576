package kvevents

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/routerfleet/routerfleet/router/zmtp"
)

// ReplayOptions ask an engine to repeat its batches from one on. Zero limits take the defaults of limits.go.
type ReplayOptions struct {
	Address string // host:port of the rank's replay socket
	Start   int64  // the first seq wanted, at least 0
	Decoder DecoderOptions
	Budget  *Budget // the batches count towards it; a replay never waits for room, it ends torn

	MaxBatches int
	MaxBytes   int64
	Idle       time.Duration // without an answer for so long it ends
	Total      time.Duration // so does it after so long

	ZMTP zmtp.Options
}

func (o ReplayOptions) withDefaults() ReplayOptions {
	setDefault(&o.MaxBatches, DefaultReplayBatches)
	setDefault(&o.MaxBytes, DefaultReplayBytes)
	setDefault(&o.Idle, DefaultReplayIdle)
	setDefault(&o.Total, DefaultReplayTotal)
	setDefault(&o.ZMTP.HeartbeatInterval, -1) // the idle time says it all
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Replayed is a batch an engine repeated. It is no live batch: it never is a restart, and what it proves depends on where
// the replay began.
type Replayed struct{ *Batch }

// Ending is how a replay ended.
type Ending uint8

// The endings. Only Complete says that the engine has given all it still keeps.
const (
	EndingUnknown Ending = iota
	Complete             // the engine sent its terminator
	Torn                 // the connection or the answer broke, or a limit was reached
	TimedOut             // the engine fell silent or took too long
	Cancelled            // the caller's context ended
)

// String names the ending as metrics do.
func (e Ending) String() string {
	switch e {
	case Complete:
		return "complete"
	case Torn:
		return "torn"
	case TimedOut:
		return "timed_out"
	case Cancelled:
		return "cancelled"
	default:
		return "unknown"
	}
}

// ReplayResult is what an engine repeated.
type ReplayResult struct {
	Start  int64 // what was asked for
	Ending Ending
	Err    error // why, unless Complete

	// Batches have growing seqs, all at least Start. The caller releases them, with Release or one by one.
	Batches []Replayed
	// Dropped counts answers that were none: a seq before Start, or not above the one before it.
	Dropped int
	// Dense tells that each batch follows the one before it without a gap and nothing between them was dropped. The first
	// may be above Start.
	Dense bool
	// Untrusted tells that something in the batches could not be decoded.
	Untrusted bool
	// Bytes is the memory of Batches.
	Bytes int64
}

// Release gives back every batch.
func (r *ReplayResult) Release() {
	for _, b := range r.Batches {
		b.Release()
	}
	r.Batches, r.Bytes = nil, 0
}

// Covers tells that the replay is complete and repeats every batch from Start to last.
func (r *ReplayResult) Covers(last int64) bool {
	n := len(r.Batches)
	return r.Ending == Complete && r.Dense && n > 0 && r.Batches[0].Seq == r.Start && r.Batches[n-1].Seq >= last
}

var (
	errIdle      = errors.New("the engine fell silent")
	errTotal     = errors.New("the engine took too long")
	errNoBudget  = errors.New("no room in the budget of queues and held batches")
	errMalformed = errors.New("an answer that is no replay")
)

// Replay asks an engine for its batches from Start on, over a connection of its own, and gives what came, in whole. The
// engine answers from the thread that publishes, so it costs live events a pause: ask seldom.
func Replay(ctx context.Context, o ReplayOptions) *ReplayResult {
	r := &replay{opt: o.withDefaults(), decoder: NewDecoder(o.Decoder)}
	r.Start, r.Dense = o.Start, true
	if o.Start < 0 {
		r.Ending, r.Err = Torn, fmt.Errorf("replay from %s: start %d is before any batch", o.Address, o.Start)
		return &r.ReplayResult
	}
	within, cancel := context.WithTimeoutCause(ctx, r.opt.Total, errTotal)
	defer cancel()
	err := r.run(within)
	r.Ending = endingOf(ctx, err)
	if err != nil {
		r.Err = fmt.Errorf("replay from %s, seq %d on: %w", o.Address, o.Start, err)
	}
	return &r.ReplayResult
}

func endingOf(ctx context.Context, err error) Ending {
	switch {
	case err == nil:
		return Complete
	case errors.Is(err, errIdle), errors.Is(err, errTotal):
		return TimedOut
	case ctx.Err() != nil:
		return Cancelled
	default:
		return Torn
	}
}

type replay struct {
	ReplayResult
	opt     ReplayOptions
	decoder *Decoder
}

// run asks, and reads until the terminator. nil means that it came.
func (r *replay) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(r.opt.Idle, func() { cancel(errIdle) })
	defer idle.Stop()
	conn, err := zmtp.Dial(ctx, r.opt.Address, zmtp.DEALER, r.opt.ZMTP)
	if err != nil {
		return because(ctx, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	var start [8]byte
	binary.BigEndian.PutUint64(start[:], uint64(r.opt.Start))
	if err := conn.Send(nil, start[:]); err != nil {
		return because(ctx, err)
	}
	for {
		parts, err := conn.Recv()
		if err != nil {
			return because(ctx, err)
		}
		idle.Reset(r.opt.Idle)
		if done, err := r.answer(parts); done || err != nil {
			return err
		}
		if ctx.Err() != nil { // an engine that never stops talking keeps Recv from noticing
			return context.Cause(ctx)
		}
	}
}

// because gives the reason a connection was closed for, if it was us.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// answer takes one message: an empty delimiter, a topic in vLLM's documented dialect, seq, payload.
func (r *replay) answer(parts [][]byte) (done bool, err error) {
	if len(parts) < 3 || len(parts) > 4 || len(parts[0]) != 0 {
		return false, fmt.Errorf("%w: %d frames", errMalformed, len(parts))
	}
	seqFrame, payload := parts[len(parts)-2], parts[len(parts)-1]
	if len(seqFrame) != 8 {
		return false, fmt.Errorf("%w: a seq of %d bytes", errMalformed, len(seqFrame))
	}
	seq := int64(binary.BigEndian.Uint64(seqFrame))
	switch {
	case seq == EndSeq:
		return true, nil
	case seq < 0:
		return false, fmt.Errorf("%w: seq %d", errMalformed, seq)
	}
	return false, r.take(seq, payload)
}

func (r *replay) take(seq int64, payload []byte) error {
	if n := len(r.Batches); n > 0 {
		last := r.Batches[n-1].Seq
		r.Dense = r.Dense && seq == last+1
		if seq <= last {
			r.Dropped++
			return nil
		}
	}
	if seq < r.Start { // an engine that always begins with what it has
		r.Dropped++
		return nil
	}
	if len(r.Batches) == r.opt.MaxBatches {
		return fmt.Errorf("more than %d batches", r.opt.MaxBatches)
	}
	b := r.decoder.Decode(seq, payload)
	if r.Bytes+b.Bytes() > r.opt.MaxBytes {
		b.Release()
		return fmt.Errorf("more than %d bytes of batches", r.opt.MaxBytes)
	}
	if r.opt.Budget != nil && !r.opt.Budget.tryCharge(b) {
		b.Release()
		return errNoBudget
	}
	r.Bytes += b.Bytes()
	r.Untrusted = r.Untrusted || b.Untrusted()
	r.Batches = append(r.Batches, Replayed{b})
	return nil
}
