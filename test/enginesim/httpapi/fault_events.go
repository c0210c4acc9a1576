package httpapi

import (
	"net/http"

	"github.com/routerfleet/routerfleet/test/enginesim/publish"
)

// eventCatalogue is the part of the fault set that package publish carries out.
var eventCatalogue = []FaultDoc{
	batchFault(publish.Drop, nil, "takes a seq and neither sends nor keeps the batch: a hole that no replay fills"),
	batchFault(publish.Lose, nil, "keeps the batch for replay and does not send it"),
	batchFault(publish.Duplicate, nil, "sends the batch twice"),
	batchFault(publish.BadFrames, []string{"frames"}, "sends the message in so many frames; thousands are an endless message"),
	batchFault(publish.ShortSeq, nil, "sends a seq of 4 bytes"),
	batchFault(publish.Garbage, []string{"bytes"}, "sends so many bytes that are no MessagePack in the payload's place"),
	batchFault(publish.Torn, nil, "sends the first half of the payload"),
	batchFault(publish.Pairs, nil, "writes token ids as pairs, the block hashes staying those of single tokens"),
	batchFault(publish.LongTokens, []string{"count"}, "writes count token ids too many with stored blocks"),
	batchFault(publish.LongHashes, []string{"count"}, "adds an event that stores count made-up blocks"),
	batchFault(publish.UnknownEvent, nil, "puts an event of an unknown kind before the others"),
	batchFault(publish.UnknownField, nil, "gives events a field nobody knows: their metadata"),
	batchFault(publish.WrongBlock, []string{"block_size"}, "names another block size in stored events"),
	batchFault(publish.WrongRank, []string{"dp_rank"}, "names another rank in the batch"),
	batchFault(publish.Contradict, nil, "stores a block once more, behind another parent"),
	batchFault(publish.Cycle, nil, "stores two made-up blocks that are each other's parents"),
	{FaultName(publish.Hang), ScopeStanding, []string{"rank"}, "publishes and replays nothing with connections up; once deleted the batches follow"},
	{FaultName(publish.Clock), ScopeStanding, []string{"rank", "offset_ms"}, "puts the engine's clock off by offset_ms in batches"},
	{FaultName(publish.ForeignGroup), ScopeStanding, []string{"rank"}, "publishes each block for a sliding-window group of one block, too"},
	{FaultName(publish.Copies), ScopeStanding, []string{"rank"}, "stores each block twice and removes it once in the same batch, as vLLM does with two copies of which one stays"},
	{FaultName(publish.ReplayReorder), ScopeStanding, []string{"rank"}, "replays the newest batch first"},
	{FaultName(publish.ReplaySlow), ScopeStanding, []string{"rank", "delay_ms"}, "waits delay_ms before each answer of a replay; live events wait as well"},
	{FaultName(publish.ReplayTruncate), ScopeStanding, []string{"rank", "after_batches"}, "ends a replay after so many batches, without terminator"},
	{FaultName(publish.ReplaySilent), ScopeStanding, []string{"rank"}, "does not answer replay requests"},
	{FaultName(publish.LoadSilent), ScopeStanding, []string{"rank"}, "publishes no load"},
	{FaultName(publish.Advertise), ScopeStanding, []string{"host", "event_port", "dp_size", "block_size"}, "advertises these in /server_info, whatever is true"},
	{FaultBabble, ScopeAction, []string{"rank", "batches", "count"}, "publishes that many batches of count made-up blocks at once"},
}

// batchFault describes a fault of single batches.
func batchFault(name publish.FaultName, params []string, does string) FaultDoc {
	return FaultDoc{FaultName(name), ScopeBatch, append([]string{"rank", "batches"}, params...), does}
}

// ofEvents tells whether package publish carries the fault out.
func (f Fault) ofEvents() bool {
	known, _ := publish.FaultName(f.Name).Known()
	return known
}

// eventParams are the parameters of faults of events, for validation.
func (f Fault) eventParams() []param {
	upTo := func(name string, got, least, most int, required bool) param {
		return param{name, got != 0, got >= least && got <= most, rangeText(least, most), required}
	}
	rank := 0
	if f.Rank != nil {
		rank = *f.Rank
	}
	sometimes := f.Name != FaultName(publish.Advertise) // which takes any of its parameters
	return []param{
		{"rank", f.Rank != nil, rank >= 0 && rank < maxRank, rangeText(0, maxRank-1), false},
		upTo("batches", f.Batches, 0, publish.MaxFaultBatches, f.Name == FaultBabble),
		upTo("after_batches", f.AfterBatches, 0, publish.MaxFaultBatches, false),
		upTo("count", f.Count, 1, publish.MaxCount, true),
		upTo("bytes", f.Bytes, 1, publish.MaxBytes, true),
		upTo("frames", f.Frames, 1, publish.MaxFrames, true),
		upTo("block_size", f.BlockSize, 1, publish.MaxAdvertised, sometimes),
		upTo("dp_rank", f.DPRank, 1, publish.MaxAdvertised, true),
		upTo("dp_size", f.DPSize, 1, publish.MaxAdvertised, false),
		upTo("event_port", f.EventPort, 1, publish.MaxAdvertised, false),
		{"offset_ms", f.OffsetMillis != 0, f.OffsetMillis >= -maxClockOffset && f.OffsetMillis <= maxClockOffset, rangeText(-maxClockOffset, maxClockOffset) + " and not 0", true},
		{"host", f.Host != "", len(f.Host) <= publish.MaxHostBytes, rangeText(1, publish.MaxHostBytes) + " bytes", false},
		{"seq", f.Seq != 0, f.Seq >= 0 && f.Seq <= publish.MaxSeq, rangeText(0, publish.MaxSeq), false},
		{"end_seq", f.EndSeq, true, "", false},
		{"cut", f.Cut, true, "", false},
	}
}

// heard waits until every rank has published what it did for the requests that are answered: a request's last step is
// published after its answer, and a fault that is set after an answer must not meet it.
func (s *Server) heard(r *http.Request) *apiError {
	if s.opts.Events == nil {
		return nil
	}
	if _, err := s.opts.Engine.State(r.Context()); err != nil {
		return asAPIError(err)
	}
	return nil
}

// setEventFault hands a fault to the publisher.
func (s *Server) setEventFault(r *http.Request, f Fault) *apiError {
	if s.opts.Events == nil {
		return badRequest("name", "this engine double publishes no events: start it with --kv-events-port")
	}
	if refusal := s.heard(r); refusal != nil {
		return refusal
	}
	var err error
	if f.Name == FaultBabble {
		if err = s.opts.Events.Babble(f.Rank, f.Batches, f.Count); err == nil {
			s.faults.hit(f.Name)
		}
	} else {
		err = s.opts.Events.Set(publish.Fault{Name: publish.FaultName(f.Name), Delay: f.delay(), Params: f.Params})
	}
	if err != nil {
		return badRequest("", "%v", err)
	}
	return nil
}

// listFaults returns all active faults, those of events last, and the hits of all.
func (s *Server) listFaults() ([]Fault, map[FaultName]int64) {
	active, hits := s.faults.list()
	if s.opts.Events == nil {
		return active, hits
	}
	events, used := s.opts.Events.Faults()
	for _, f := range events {
		active = append(active, Fault{Name: FaultName(f.Name), DelayMillis: int(f.Delay.Milliseconds()), Params: f.Params})
	}
	for name, n := range used {
		hits[FaultName(name)] = n
	}
	return active, hits
}

// restart makes the engine look like its process had been restarted in place.
func (s *Server) restart(r *http.Request, f Fault) *apiError {
	if s.opts.Events != nil {
		s.opts.Events.PlanRestart(publish.Restart{EndSeq: f.EndSeq, Seq: f.Seq, Cut: f.Cut})
	}
	if err := s.opts.Engine.Restart(r.Context()); err != nil {
		return asAPIError(err)
	}
	s.started.Store(max(s.opts.Now().UnixMicro(), s.started.Load()+1_000)) // two lives never look alike
	s.faults.hit(f.Name)
	return nil
}
