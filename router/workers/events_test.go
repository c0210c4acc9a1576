package workers

import (
	"testing"
)

const sglangEvents = `{"served_model_name":"m","speculative_algorithm":"EAGLE","kv_events":{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":5557,"block_size":64,"dp_size":2}}`

func TestAWorkerTellsWhatItsEngineAdvertises(t *testing.T) {
	info, err := decodeServerInfo([]byte(sglangEvents))
	if err != nil || info.dpSize != 2 {
		t.Fatalf("dp %d, %v", info.dpSize, err)
	}
	s := newStory(t, Options{})
	s.list(at("a", "10.0.0.1:8000"))
	s.step(introspected{id: "a", epoch: s.m.entries["a"].askEpoch, facts: facts(info)})
	w := s.worker("a")
	got, err := w.Events()
	if err != nil || got.Speculative != "EAGLE" || got.Events == nil || *got.Events.EndpointPort != 5557 {
		t.Fatalf("events %+v, %v", got, err)
	}

	// The same answer again makes no other description, another one does.
	again, _ := decodeServerInfo([]byte(sglangEvents))
	ask := func(f facts) {
		s.m.entries["a"].restartAsking()
		s.m.entries["a"].askAt = s.now
		s.step(tick{})
		s.step(introspected{id: "a", epoch: s.m.entries["a"].askEpoch, facts: f})
	}
	ask(facts(again))
	if s.worker("a") != w {
		t.Error("an equal answer made another worker")
	}
	ask(facts{models: again.models, dpSize: again.dpSize})
	if got, _ := s.worker("a").Events(); got.Events != nil {
		t.Errorf("the engine publishes no more, the worker says %+v", got.Events)
	}
}

func TestNonsenseAboutEventsCostsTheCacheAndNotTheWorker(t *testing.T) {
	for _, doc := range []string{
		`{"served_model_name":"m","kv_events":7}`,
		`{"served_model_name":"m","kv_events":{"dp_size":"many"}}`,
		`{"served_model_name":"m","speculative_algorithm":{}}`,
	} {
		info, err := decodeServerInfo([]byte(doc))
		if err != nil || len(info.models) != 1 || info.events.err == nil {
			t.Errorf("%s: %+v, %v", doc, info, err)
		}
	}
	info, err := decodeServerInfo([]byte(`{"served_model_name":"m","kv_events":{"endpoint_port_base":5557,"dp_size":60000}}`))
	if err != nil || info.dpSize != 0 || info.events.info.Events == nil {
		t.Errorf("60,000 ranks: %+v, %v", info, err)
	}
}
