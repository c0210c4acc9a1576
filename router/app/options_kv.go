package app

import (
	"errors"
	"fmt"
	"time"

	"github.com/routerfleet/routerfleet/router/index"
	"github.com/routerfleet/routerfleet/router/kvevents"
	"github.com/routerfleet/routerfleet/router/policy"
)

// KVOptions are the flags of cache-aware routing. Pointers are fields whose zero is a value of its own; nil means the
// default.
type KVOptions struct {
	HostTierPercent     *int `name:"host-tier-percent" group:"Cache-aware routing" default:"75" placeholder:"PERCENT" help:"What a block in host memory counts of one in device memory."`
	DiskTierPercent     *int `name:"disk-tier-percent" group:"Cache-aware routing" default:"25" placeholder:"PERCENT" help:"What a block on disk or in an external store counts of one in device memory."`
	UntrustedPercent    *int `name:"untrusted-percent" group:"Cache-aware routing" default:"50" placeholder:"PERCENT" help:"What the blocks of an engine count whose events have a hole."`
	PileUpTokens        *int `name:"pile-up-tokens" group:"Cache-aware routing" default:"16384" placeholder:"TOKENS" help:"How far an engine's queued prompt tokens may exceed the mean before requests go elsewhere, whatever it has cached."`
	PredictTTLSecs      *int `name:"predict-ttl-secs" group:"Cache-aware routing" default:"5" placeholder:"SECONDS" help:"How long a prompt just sent counts as cached before the engine says so; 0: not at all."`
	PrefillScalePercent *int `name:"prefill-scale-percent" group:"Cache-aware routing" default:"100" placeholder:"PERCENT" help:"Weight of prompt tokens that must be computed."`
	DecodeWeightPercent *int `name:"decode-weight-percent" group:"Cache-aware routing" default:"0" placeholder:"PERCENT" help:"Weight of the tokens of requests past their first byte."`

	Match          string `name:"match" group:"Cache-aware routing" default:"deepest" help:"How much of a prompt an engine holds: deepest (its deepest block proves those before it) or contiguous (up to the first it does not hold)."`
	IndexMaxBlocks int    `name:"index-max-blocks" group:"Cache-aware routing" default:"0" help:"Blocks all indexes together may hold, some 48 bytes each; there is one index for each model, hash scheme and block size, and they share by need. 0: what 60 % of GOMEMLIMIT hold, or 25 % of the machine's memory."`
	HashSeedFile   string `name:"hash-seed-file" group:"Cache-aware routing" placeholder:"FILE" help:"File with the fleet's secret seed of block keys, 16 hexadecimal digits. Absent: a random one, whose keys no other replica shares."`

	KVEvents              *bool  `name:"kv-events" negatable:"" group:"KV events" default:"true" help:"Follow what engines say of their caches, if --policy uses it."`
	KVEventsPort          int    `name:"kv-events-port" group:"KV events" default:"5557" help:"Where rank 0 of an engine publishes that does not say so itself; rank r uses the port + r. Used with --kv-events-block-size."`
	KVEventsTopic         string `name:"kv-events-topic" group:"KV events" help:"ZeroMQ topic of such an engine."`
	KVEventsBlockSize     int    `name:"kv-events-block-size" group:"KV events" default:"0" help:"Tokens of a block of such an engine; 0: engines that do not say where they publish are not followed."`
	KVEventsDPSize        int    `name:"kv-events-dp-size" group:"KV events" default:"0" help:"Data-parallel ranks of such an engine; 0: one."`
	KVEventsReplayPort    int    `name:"kv-events-replay-port" group:"KV events" default:"0" help:"Where rank 0 of such an engine repeats its events; 0: it does not."`
	KVEventsHashAlgorithm string `name:"kv-events-hash-algorithm" group:"KV events" help:"sha256_cbor: such engines hash blocks as vLLM does with --prefix-caching-hash-algo sha256_cbor and the seed below, so their hashes are used as they are. Empty: keys are made of the announced tokens."`
	KVEventsHashSeed      string `name:"kv-events-hash-seed" group:"KV events" help:"PYTHONHASHSEED of those engines."`
	AllowForeignHosts     bool   `name:"allow-foreign-event-hosts" group:"KV events" help:"Follow events from a host that is not the engine's own because the engine says so. An engine can then have the router connect anywhere."`
}

const (
	matchDeepest    = "deepest"
	matchContiguous = "contiguous"

	hashSHA256CBOR = "sha256_cbor"
)

// maxIndexBlocks bounds --index-max-blocks: 2^36 blocks are 3 TB.
const maxIndexBlocks = 1 << 36

// Bounds of event settings are those of package kvevents, which judges what is advertised by them, too.
const (
	minEventPort = 1024
	maxEventPort = 65_535
	maxEventBlk  = 65_536
	maxEventDP   = 256
	maxTopic     = 256
)

func (o *KVOptions) fillDefaults() {
	k := policy.DefaultKnobs()
	for into, value := range map[**int]int{
		&o.HostTierPercent: k.HostTierPercent, &o.DiskTierPercent: k.DiskTierPercent, &o.UntrustedPercent: k.UntrustedPercent,
		&o.PileUpTokens: k.PileUpTokens, &o.PredictTTLSecs: int(k.PredictTTL / time.Second),
		&o.PrefillScalePercent: k.PrefillScalePercent, &o.DecodeWeightPercent: k.DecodeWeightPercent,
	} {
		if *into == nil {
			*into = &value
		}
	}
	if o.KVEvents == nil {
		on := true
		o.KVEvents = &on
	}
	fill(&o.Match, matchDeepest)
	fill(&o.KVEventsPort, 5557)
}

// validate expects defaults to be filled in.
func (o *KVOptions) validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if err := o.knobs().Validate(); err != nil {
		fault("--policy cache_aware: %w", err)
	}
	if o.Match != matchDeepest && o.Match != matchContiguous {
		fault("--match %q is unknown: use %s or %s", o.Match, matchDeepest, matchContiguous)
	}
	if o.IndexMaxBlocks < 0 || o.IndexMaxBlocks > maxIndexBlocks {
		fault("--index-max-blocks %d is outside 0 to %d", o.IndexMaxBlocks, maxIndexBlocks)
	}
	for _, f := range []struct {
		flag             string
		got, least, most int
		optional         bool
	}{
		{"--kv-events-port", o.KVEventsPort, minEventPort, maxEventPort, false},
		{"--kv-events-block-size", o.KVEventsBlockSize, 1, maxEventBlk, true},
		{"--kv-events-dp-size", o.KVEventsDPSize, 1, maxEventDP, true},
		{"--kv-events-replay-port", o.KVEventsReplayPort, minEventPort, maxEventPort, true},
	} {
		if (f.got != 0 || !f.optional) && (f.got < f.least || f.got > f.most) {
			fault("%s %d is outside %d to %d", f.flag, f.got, f.least, f.most)
		}
	}
	if len(o.KVEventsTopic) > maxTopic {
		fault("--kv-events-topic has %d bytes, at most %d are allowed", len(o.KVEventsTopic), maxTopic)
	}
	switch {
	case o.KVEventsHashAlgorithm != "" && o.KVEventsHashAlgorithm != hashSHA256CBOR:
		fault("--kv-events-hash-algorithm %q is unknown: use %s, or leave it empty", o.KVEventsHashAlgorithm, hashSHA256CBOR)
	case o.KVEventsHashAlgorithm != "" && o.KVEventsHashSeed == "":
		fault("--kv-events-hash-algorithm needs --kv-events-hash-seed: without PYTHONHASHSEED each engine draws a seed of its own")
	case o.KVEventsHashAlgorithm == "" && o.KVEventsHashSeed != "":
		fault("--kv-events-hash-seed says nothing without --kv-events-hash-algorithm")
	}
	return errors.Join(faults...)
}

func (o *KVOptions) knobs() policy.Knobs {
	return policy.Knobs{
		HostTierPercent: *o.HostTierPercent, DiskTierPercent: *o.DiskTierPercent, UntrustedPercent: *o.UntrustedPercent,
		PileUpTokens: *o.PileUpTokens, PredictTTL: time.Duration(*o.PredictTTLSecs) * time.Second,
		PrefillScalePercent: *o.PrefillScalePercent, DecodeWeightPercent: *o.DecodeWeightPercent,
	}
}

func (o *KVOptions) matchMode() index.Mode {
	if o.Match == matchContiguous {
		return index.Contiguous
	}
	return index.Deepest
}

// configured are event settings for engines that advertise none. Without a block size nobody has configured any: the port
// has a default.
func (o *KVOptions) configured() kvevents.Configured {
	if o.KVEventsBlockSize == 0 {
		return kvevents.Configured{}
	}
	c := kvevents.Configured{
		Port: int64(o.KVEventsPort), BlockSize: int64(o.KVEventsBlockSize), DPSize: int64(o.KVEventsDPSize), ReplayPort: int64(o.KVEventsReplayPort),
	}
	if o.KVEventsTopic != "" {
		c.Topic = &o.KVEventsTopic
	}
	return c
}

// followsEvents says whether events are followed: when somebody would use what they tell.
func (o Options) followsEvents() bool { return *o.KVEvents && o.Policy == policy.NameCacheAware }
