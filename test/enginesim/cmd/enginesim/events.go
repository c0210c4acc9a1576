package main

import (
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/routerfleet/routerfleet/test/enginesim"
	"github.com/routerfleet/routerfleet/test/enginesim/publish"
)

// eventFlags say what is published. The defaults publish as an engine would that
// was started with events on.
type eventFlags struct {
	KVEventsPort  int    `help:"Port of the KV events of rank 0, rank r adds r; 0: none are published." name:"kv-events-port" default:"5557"`
	KVReplayPort  int    `help:"Port of the replay socket of rank 0; 0: none." name:"kv-replay-port" default:"5657"`
	LoadPort      int    `help:"Port of SGLang's load gauge of rank 0; 0: none." name:"load-port" default:"5757"`
	KVTopic       string `help:"Topic of KV events." name:"kv-topic"`
	KVDialect     string `help:"How events are written: ${dialects}. Empty: sglang-map or vllm-map, by --engine." name:"kv-dialect"`
	KVBufferSteps int    `help:"Batches kept for replay." name:"kv-buffer-steps" default:"10000"`
	KVReplayTopic bool   `help:"Put the topic into replay answers, as a variant of vLLM does." name:"kv-replay-topic"`
	KVHWM         int    `help:"Messages kept for a slow subscriber; further ones are dropped." name:"kv-hwm" default:"100000"`
	KVHash        string `help:"How vLLM names blocks: opaque or sha256_cbor." name:"kv-hash" enum:"opaque,sha256_cbor" default:"opaque"`
	KVHashSeed    string `help:"PYTHONHASHSEED of sha256_cbor, or what makes opaque hashes differ. Empty: 0 for sha256_cbor, other ones in each process for opaque." name:"kv-hash-seed"`
	KVLoRAName    string `help:"Adapter that all of vLLM's blocks belong to." name:"kv-lora-name"`
	KVHybrid      bool   `help:"Publish two groups, full attention and a sliding window, as vLLM's hybrid models do." name:"kv-hybrid"`
	Bigram        bool   `help:"Name SGLang's blocks by pairs of tokens, as with EAGLE."`
}

// eventOptions translate the flags. Call it with KVEventsPort set.
func (f flags) eventOptions(log *slog.Logger) publish.ServerOptions {
	o := publish.ServerOptions{Host: f.Host, HighWaterMark: f.KVHWM, Log: log, Options: publish.Options{
		Dialect: publish.Dialect(f.KVDialect), DPSize: f.DPSize, PageSize: f.PageSize, Topic: f.KVTopic, BufferSteps: f.KVBufferSteps,
		ReplayTopic: f.KVReplayTopic, LoRA: f.KVLoRAName, Hybrid: f.KVHybrid,
		Ports: publish.Ports{Events: f.KVEventsPort, Replay: f.KVReplayPort, Load: f.LoadPort},
	}}
	if f.Engine != "vllm" {
		return o
	}
	o.Ports.Load = 0
	o.HashScheme, o.HashSeed = publish.HashScheme(f.KVHash), f.KVHashSeed
	if o.Dialect == "" {
		o.Dialect = publish.VLLMMap
	}
	if o.HashSeed == "" {
		o.HashSeed = f.Name + time.Now().String() // as random as vLLM's without a seed
		if o.HashScheme == publish.SHA256CBOR {
			o.HashSeed = "0"
		}
	}
	return o
}

// newEngine makes the engine and what publishes its events, which is nil when
// nothing does. The ports are taken when it returns.
func (f flags) newEngine(log *slog.Logger) (*enginesim.Engine, *publish.Server, error) {
	opts := f.engineOptions()
	if f.Bigram && f.Engine == "vllm" {
		return nil, nil, errors.New("--bigram is SGLang's: drop it, or use --engine sglang")
	}
	if f.KVEventsPort == 0 {
		engine, err := enginesim.New(opts)
		return engine, nil, err
	}
	events, err := publish.NewServer(f.eventOptions(log))
	if err != nil {
		return nil, nil, err
	}
	opts.Observer = events
	engine, err := enginesim.New(opts)
	if err != nil {
		return nil, nil, err
	}
	return engine, events, events.Bind()
}

func dialects() string {
	names := make([]string, 0, len(publish.Dialects()))
	for _, d := range publish.Dialects() {
		names = append(names, string(d))
	}
	return strings.Join(names, ", ")
}
