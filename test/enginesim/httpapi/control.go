package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/routerfleet/routerfleet/test/enginesim"
	"github.com/routerfleet/routerfleet/test/enginesim/publish"
)

// ControlState is the answer of GET /control/state.
type ControlState struct {
	Name      string                `json:"name"`
	Model     string                `json:"model"`
	Engine    Dialect               `json:"engine"`
	StartedAt time.Time             `json:"started_at"`
	Draining  bool                  `json:"draining"`
	Ranks     []enginesim.RankState `json:"ranks"`
	Totals    enginesim.Totals      `json:"totals"`              // over the ranks
	Running   int                   `json:"running"`             // over the ranks
	Queued    int                   `json:"queued"`              // over the ranks
	NextSeqs  []int64               `json:"next_seqs,omitempty"` // of events, by rank
	Outcomes  map[Outcome]int64     `json:"outcomes"`            // of requests
	Faults    []Fault               `json:"faults"`              // active ones
	Hits      map[FaultName]int64   `json:"fault_hits"`
}

// ControlFaults is the answer of GET /control/faults.
type ControlFaults struct {
	Active []Fault             `json:"active"`
	Hits   map[FaultName]int64 `json:"hits"`
	Known  []FaultDoc          `json:"known"`
}

func (s *Server) controlRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /control/state", s.controlState)
	mux.HandleFunc("GET /control/requests", s.controlRequests)
	mux.HandleFunc("DELETE /control/requests", s.controlForget)
	mux.HandleFunc("GET /control/faults", s.controlFaults)
	mux.HandleFunc("POST /control/faults", s.controlSetFault)
	mux.HandleFunc("DELETE /control/faults", s.controlRemoveFaults)
	mux.HandleFunc("DELETE /control/faults/{name}", s.controlRemoveFault)
}

func (s *Server) controlState(w http.ResponseWriter, r *http.Request) {
	ranks, err := s.opts.Engine.State(r.Context())
	if err != nil {
		asAPIError(err).write(w)
		return
	}
	active, hits := s.listFaults()
	state := ControlState{
		Name: s.opts.Name, Model: s.opts.Model, Engine: s.opts.Dialect, StartedAt: s.startedAt(), Draining: s.draining.Load(),
		Ranks: ranks, Outcomes: s.recorder.counts(), Faults: active, Hits: hits,
	}
	if s.opts.Events != nil {
		for rank := range s.opts.Events.Options().DPSize {
			state.NextSeqs = append(state.NextSeqs, s.opts.Events.NextSeq(rank))
		}
	}
	for _, rank := range ranks {
		state.Totals = state.Totals.Add(rank.Totals)
		state.Running += rank.Running
		state.Queued += rank.Queued
	}
	writeJSON(w, http.StatusOK, mustJSON(state))
}

// controlRequests answers the last requests; ?limit= says how many at most.
func (s *Server) controlRequests(w http.ResponseWriter, r *http.Request) {
	n := maxRecords
	if value := r.URL.Query().Get("limit"); value != "" {
		var err error
		if n, err = strconv.Atoi(value); err != nil || n < 1 || n > maxRecords {
			badRequest("limit", "limit must be 1 to %d, got %q", maxRecords, value).write(w)
			return
		}
	}
	writeJSON(w, http.StatusOK, mustJSON(map[string][]Record{"requests": s.recorder.last(n)}))
}

func (s *Server) controlForget(w http.ResponseWriter, _ *http.Request) {
	s.recorder.forget()
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) controlFaults(w http.ResponseWriter, _ *http.Request) {
	active, hits := s.listFaults()
	writeJSON(w, http.StatusOK, mustJSON(ControlFaults{Active: active, Hits: hits, Known: catalogue}))
}

func (s *Server) controlSetFault(w http.ResponseWriter, r *http.Request) {
	fault, refusal := decodeFault(w, r)
	if refusal == nil {
		refusal = s.switchOn(r, fault)
	}
	if refusal != nil {
		refusal.write(w)
		return
	}
	s.opts.Log.Info("fault set", "fault", fault.Name, "requests", fault.Requests)
	s.controlFaults(w, r)
}

func decodeFault(w http.ResponseWriter, r *http.Request) (Fault, *apiError) {
	body, refusal := readBody(w, r, maxControlBytes)
	if refusal != nil {
		return Fault{}, refusal
	}
	var fault Fault
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&fault); err != nil {
		return Fault{}, badRequest("", "not a fault: %v", err)
	}
	return fault, fault.validate()
}

// switchOn makes a fault take effect; actions do it here and now.
func (s *Server) switchOn(r *http.Request, f Fault) *apiError {
	if f.ofEvents() || f.Name == FaultBabble {
		return s.setEventFault(r, f)
	}
	switch f.Name {
	case FaultRestart:
		return s.restart(r, f)
	case FaultClearCache:
		if refusal := s.clearCache(r); refusal != nil {
			return refusal
		}
		s.faults.hit(f.Name)
		return nil
	case FaultCrash:
		return s.crash(f)
	case FaultSlowTokens:
		if err := s.opts.Engine.SetPace(r.Context(), f.Factor); err != nil {
			return asAPIError(err)
		}
	}
	s.faults.set(f)
	return nil
}

// crash ends the process behind the answer's back, so that the caller still
// hears that it will.
func (s *Server) crash(f Fault) *apiError {
	if s.opts.Exit == nil {
		return badRequest("name", "this engine double runs inside another process, which must not crash")
	}
	s.faults.hit(f.Name)
	time.AfterFunc(max(f.delay(), crashGrace), func() { s.opts.Exit(f.ExitCode) })
	return nil
}

// crashGrace lets the answer to the control request leave first.
const crashGrace = 20 * time.Millisecond

// switchOff undoes what a fault changed outside the fault set.
func (s *Server) switchOff(r *http.Request, name FaultName) *apiError {
	if s.opts.Events != nil {
		if refusal := s.heard(r); refusal != nil {
			return refusal
		}
		s.opts.Events.Remove(publish.FaultName(name))
	}
	if name != FaultSlowTokens {
		return nil
	}
	if err := s.opts.Engine.SetPace(r.Context(), 1); err != nil {
		return asAPIError(err)
	}
	return nil
}

func (s *Server) controlRemoveFault(w http.ResponseWriter, r *http.Request) {
	name := FaultName(r.PathValue("name"))
	if _, known := (Fault{Name: name}).doc(); !known {
		badRequest("name", "unknown fault %q; the faults are: %s", name, faultNames()).write(w)
		return
	}
	if s.faults.remove(name) || (Fault{Name: name}).ofEvents() {
		if refusal := s.switchOff(r, name); refusal != nil {
			refusal.write(w)
			return
		}
	}
	s.controlFaults(w, r)
}

func (s *Server) controlRemoveFaults(w http.ResponseWriter, r *http.Request) {
	if refusal := s.switchOff(r, FaultSlowTokens); refusal != nil {
		refusal.write(w)
		return
	}
	s.faults.removeAll()
	if s.opts.Events != nil {
		s.opts.Events.RemoveAll()
	}
	s.controlFaults(w, r)
}
