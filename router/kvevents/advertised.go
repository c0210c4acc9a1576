package kvevents

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Advertised is what an engine says of its event stream: member kv_events of SGLang's /server_info. Every field is
// optional; nil and empty mean that the engine did not say.
type Advertised struct {
	Publisher      string `json:"publisher"`
	EndpointHost   string `json:"endpoint_host"`
	EndpointPort   *int64 `json:"endpoint_port_base"`
	Topic          string `json:"topic"`
	BlockSize      *int64 `json:"block_size"`
	DPSize         *int64 `json:"dp_size"`
	LoadPort       *int64 `json:"load_endpoint_port_base"`
	LoadTopic      string `json:"load_topic"`
	ReplayHost     string `json:"replay_endpoint_host"`
	ReplayPort     *int64 `json:"replay_endpoint_port_base"`
	ReplayCapacity *int64 `json:"replay_buffer_steps"`
	Bigram         *bool  `json:"is_bigram"`
}

// ServerInfo is what /server_info tells about KV events.
type ServerInfo struct {
	// Events is nil if the engine says nothing of an event stream.
	Events *Advertised
	// Speculative is the name of the engine's speculative decoding, which decides about bigrams.
	Speculative string
	// CapacityTokens is what the cache of one rank holds in device memory; 0 if the engine does not say.
	CapacityTokens int64
}

// DecodeServerInfo reads a /server_info document. An error is about its KV events, and the rest of the document may be
// sound.
func DecodeServerInfo(body []byte) (ServerInfo, error) {
	var doc struct {
		Events      json.RawMessage `json:"kv_events"`
		Speculative json.RawMessage `json:"speculative_algorithm"`
		Capacity    json.RawMessage `json:"max_total_num_tokens"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return ServerInfo{}, fmt.Errorf("read kv_events of /server_info: %w", err)
	}
	info := ServerInfo{CapacityTokens: capacity(doc.Capacity)}
	if err := optional(doc.Speculative, &info.Speculative); err != nil {
		return ServerInfo{}, fmt.Errorf("read speculative_algorithm of /server_info: %w", err)
	}
	var a *Advertised
	if err := optional(doc.Events, &a); err != nil {
		return ServerInfo{}, fmt.Errorf("read kv_events of /server_info: %w", err)
	}
	if a != nil && a.publishes() {
		info.Events = a
	}
	return info, nil
}

// capacity reads a number of tokens. What makes no sense counts as not said: it only bounds what is believed.
func capacity(raw json.RawMessage) int64 {
	var tokens int64
	if json.Unmarshal(raw, &tokens) != nil || tokens < 0 || tokens > maxCapacityTokens {
		return 0
	}
	return tokens
}

func optional(raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		return nil
	}
	return json.Unmarshal(raw, into)
}

// publishes tells whether there is a stream at all: publisher "null" is the engine's way to say that there is none.
func (a *Advertised) publishes() bool {
	switch strings.ToLower(a.Publisher) {
	case "null", "none":
		return false
	case "":
		return a.EndpointPort != nil
	}
	return true
}
