package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/routerfleet/routerfleet/internal/version"
)

// health is liveness as engines mean it: 503 while draining, too.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) { s.probe(w, FaultHealthFail) }

// ready is for a readiness probe; real engines share /health for both.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) { s.probe(w, FaultReadyFail) }

func (s *Server) probe(w http.ResponseWriter, fault FaultName) {
	if _, on := s.faults.standing(fault); on || s.draining.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// servedModel is the name we give ourselves; model_lie changes it.
func (s *Server) servedModel() string {
	if f, on := s.faults.standing(FaultModelLie); on {
		return f.Model
	}
	return s.opts.Model
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	type model struct {
		ID          string  `json:"id"`
		Object      string  `json:"object"`
		Created     int64   `json:"created"`
		OwnedBy     string  `json:"owned_by"`
		Root        string  `json:"root"`
		Parent      *string `json:"parent"`
		MaxModelLen int     `json:"max_model_len"`
	}
	name := s.servedModel()
	writeJSON(w, http.StatusOK, mustJSON(map[string]any{
		"object": "list",
		"data":   []model{{ID: name, Object: "model", Created: s.startedAt().Unix(), OwnedBy: string(s.opts.Dialect), Root: name, MaxModelLen: s.opts.MaxModelLen}},
	}))
}

// serverInfo has the members of SGLang's /server_info that describe the server.
// The kv_events block is absent when the engine publishes none.
func (s *Server) serverInfo(w http.ResponseWriter, r *http.Request) {
	if f, on := s.faults.standing(FaultHangServerInfo); on {
		if wait(r.Context(), f.delay()) != nil {
			return // nobody is there to hear more
		}
	}
	name, engine := s.servedModel(), s.opts.Engine.Options()
	info := map[string]any{
		"model_path":            name,
		"served_model_name":     name,
		"tokenizer_path":        name,
		"dp_size":               engine.DPSize,
		"tp_size":               1,
		"page_size":             engine.PageSize,
		"max_total_num_tokens":  engine.Blocks * engine.PageSize,
		"max_running_requests":  engine.MaxRunning,
		"max_queued_requests":   engine.MaxQueued,
		"context_length":        s.opts.MaxModelLen,
		"disaggregation_mode":   "null",
		"speculative_algorithm": speculation(engine.Bigram),
		"disable_radix_cache":   false,
		"enable_dp_attention":   engine.DPSize > 1,
		"start_time":            float64(s.started.Load()) / 1e6, // unix seconds: the process's identity
		"status":                "ready",
		"version":               "enginesim-" + version.Version,
		"routerfleet_engine":    s.opts.Name,
	}
	if s.opts.Events != nil {
		if advertised := s.opts.Events.Advertised(); advertised != nil {
			info["kv_events"] = advertised
		}
	}
	writeJSON(w, http.StatusOK, mustJSON(info))
}

// speculation is what makes routers hash pairs of tokens.
func speculation(bigram bool) any {
	if bigram {
		return "EAGLE"
	}
	return nil
}

// tokenize takes a text (prompt) or a chat (messages).
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	body, refusal := readBody(w, r, maxBodyBytes)
	if refusal == nil {
		var tokens []uint32
		if tokens, refusal = s.reader.tokenizeBody(body); refusal == nil {
			writeJSON(w, http.StatusOK, mustJSON(map[string]any{
				"tokens": tokens, "count": len(tokens), "max_model_len": s.opts.MaxModelLen,
			}))
			return
		}
	}
	refusal.write(w)
}

func (t reader) tokenizeBody(body []byte) ([]uint32, *apiError) {
	var request struct {
		Prompt   *string         `json:"prompt"`
		Messages json.RawMessage `json:"messages"`
		Add      *bool           `json:"add_special_tokens"`
	}
	if err := unmarshal(body, &request); err != nil {
		return nil, err
	}
	switch {
	case request.Prompt != nil:
		t.bare = request.Add != nil && !*request.Add
		tokens, err := t.text(*request.Prompt)
		if err != nil {
			return nil, badRequest("prompt", "prompt: %v", err)
		}
		return tokens, nil
	case len(request.Messages) > 0:
		return t.chat(body, request.Messages)
	default:
		return nil, badRequest("prompt", "prompt or messages is required")
	}
}

// flushCache is SGLang's: refused while requests run.
func (s *Server) flushCache(w http.ResponseWriter, r *http.Request) {
	if refusal := s.clearCache(r); refusal != nil {
		refusal.write(w)
		return
	}
	w.WriteHeader(http.StatusOK)
}

func (s *Server) clearCache(r *http.Request) *apiError {
	busy, err := s.opts.Engine.ClearCache(r.Context())
	if err != nil {
		return asAPIError(err)
	}
	if len(busy) > 0 {
		return &apiError{Status: http.StatusConflict, Type: "ConflictError", Message: fmt.Sprintf("The caches of ranks %v were not cleared: requests are running in them.", busy)}
	}
	return nil
}
