package publish

import (
	"errors"
	"fmt"
	"time"

	"github.com/routerfleet/routerfleet/test/enginesim"
)

// Ports are the first ports of the sockets; rank r uses port + r. 0 is none.
type Ports struct {
	Events int
	Replay int
	Load   int // SGLang only
}

// Options configure a Publisher. Only Sink is required.
type Options struct {
	Dialect  Dialect // default SGLangMap
	DPSize   int     // ranks; default 1
	PageSize int     // tokens of a block; default 64
	Topic    string  // first frame; default empty

	// BufferSteps is how many batches a rank keeps for replay. Default
	// DefaultBufferSteps, at most 64 MiB a rank.
	BufferSteps int
	// ReplayTopic puts the topic before the seq in replay answers, as a variant
	// of vLLM is documented to do.
	ReplayTopic bool

	// HashScheme and HashSeed name vLLM's blocks. Default Opaque with an empty
	// seed; give each engine its own.
	HashScheme HashScheme
	HashSeed   string
	// LoRA is the adapter all blocks belong to; vLLM only. Default none.
	LoRA string
	// Hybrid publishes two KV cache groups, full attention and a sliding window
	// of one block; vLLM only.
	Hybrid bool

	// Ports are what is advertised, and what a Server listens on.
	Ports Ports

	// Sink takes the messages.
	Sink Sink
	// Now is the clock of what no Step has a time for. Default time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	setDefault(&o.Dialect, SGLangMap)
	setDefault(&o.DPSize, 1)
	setDefault(&o.PageSize, 64)
	setDefault(&o.BufferSteps, DefaultBufferSteps)
	if o.Dialect.IsVLLM() {
		setDefault(&o.HashScheme, Opaque)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports everything wrong at once.
func (o Options) Validate() error {
	o = o.withDefaults()
	errs := []error{
		o.Dialect.check(),
		between("DPSize", o.DPSize, enginesim.MaxDPSize),
		between("PageSize", o.PageSize, enginesim.MaxPageSize),
		between("BufferSteps", o.BufferSteps, MaxFaultBatches),
		o.Ports.check(o.DPSize),
	}
	if o.Sink == nil {
		errs = append(errs, errors.New("Sink: missing"))
	}
	if vllm := o.Dialect.IsVLLM(); !vllm && (o.HashScheme != "" || o.LoRA != "" || o.Hybrid || o.ReplayTopic) {
		errs = append(errs, errors.New("HashScheme, LoRA, Hybrid, ReplayTopic: only vLLM's dialects have them"))
	} else if vllm && o.HashScheme != Opaque && o.HashScheme != SHA256CBOR {
		errs = append(errs, fmt.Errorf("HashScheme: %q, want %s or %s", o.HashScheme, Opaque, SHA256CBOR))
	} else if vllm && o.Ports.Load != 0 {
		errs = append(errs, errors.New("Ports.Load: vLLM has no load gauge"))
	}
	return errors.Join(errs...)
}

// check refuses ranges of ports that leave the possible ones or meet each other.
func (p Ports) check(ranks int) error {
	type span struct {
		name string
		port int
	}
	spans := []span{{"Ports.Events", p.Events}, {"Ports.Replay", p.Replay}, {"Ports.Load", p.Load}}
	var errs []error
	for i, a := range spans {
		if a.port == 0 {
			continue
		}
		errs = append(errs, between(a.name, a.port, 65_536-ranks))
		for _, b := range spans[:i] {
			if b.port != 0 && a.port < b.port+ranks && b.port < a.port+ranks {
				errs = append(errs, fmt.Errorf("%s %d and %s %d: %d ranks need as many ports from each, give them room", b.name, b.port, a.name, a.port, ranks))
			}
		}
	}
	if p.Events == 0 && (p.Replay != 0 || p.Load != 0) {
		errs = append(errs, errors.New("Ports: Replay and Load need Events"))
	}
	return errors.Join(errs...)
}

func between(name string, got, most int) error {
	if got < 1 || got > most {
		return fmt.Errorf("%s: %d, want 1 to %d", name, got, most)
	}
	return nil
}
