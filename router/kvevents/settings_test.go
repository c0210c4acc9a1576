package kvevents

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

const sglangInfo = `{"model_path":"m","speculative_algorithm":null,"kv_events":{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":5557,
	"topic":"kv","block_size":64,"dp_size":2,"load_endpoint_port_base":5559,"load_topic":"load","replay_endpoint_port_base":5600,"namespace":"x"}}`

func info(t *testing.T, doc string) ServerInfo {
	t.Helper()
	i, err := DecodeServerInfo([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// with replaces a member's value in sglangInfo.
func with(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(sglangInfo) }

func TestSettingsAreResolved(t *testing.T) {
	full := Settings{
		Host: "10.0.0.7", Port: 5557, Topic: "kv", BlockSize: 64, DPSize: 2, ReplayHost: "10.0.0.7", ReplayPort: 5600, LoadPort: 5559, LoadTopic: "load",
	}
	change := func(f func(*Settings)) *Settings { s := full; f(&s); return &s }
	none, vllm := "{}", Configured{Port: 5557, Topic: ptr("vllm"), BlockSize: 16, ReplayPort: 5601, DPSize: 4}
	cases := []struct {
		name       string
		info       string
		configured Configured
		foreign    bool
		want       *Settings
		codes      []string
	}{
		{"advertised", sglangInfo, Configured{}, false, &full, nil},
		{"no stream", none, Configured{}, false, nil, nil},
		{"a null publisher", with(`"zmq"`, `"null"`), Configured{}, false, nil, nil},
		{"configured only", none, vllm, false,
			&Settings{Host: "10.0.0.7", Port: 5557, Topic: "vllm", BlockSize: 16, DPSize: 4, ReplayHost: "10.0.0.7", ReplayPort: 5601}, nil},
		{"one rank unless somebody says more", none, Configured{Port: 5557, BlockSize: 16}, false, &Settings{Host: "10.0.0.7", Port: 5557, BlockSize: 16, DPSize: 1}, nil},
		{"configured without a block size", none, Configured{Port: 5557}, false, nil, []string{CodeSettings}},
		{"the same configured", sglangInfo, Configured{Port: 5557, Topic: ptr("kv"), BlockSize: 64, DPSize: 2, ReplayPort: 5600}, false, &full, nil},
		{"contradictions", sglangInfo, Configured{Port: 5558, Topic: ptr("x"), BlockSize: 16, DPSize: 1, ReplayPort: 1}, false, &full,
			[]string{CodeSettings, CodeSettings, CodeSettings, CodeSettings, CodeSettings}},
		{"what is not advertised is taken from the configuration", with(`,"replay_endpoint_port_base":5600`, ``), Configured{ReplayPort: 5700}, false,
			change(func(s *Settings) { s.ReplayPort = 5700 }), nil},
		{"no replay", with(`,"replay_endpoint_port_base":5600`, ``), Configured{}, false, change(func(s *Settings) { s.ReplayHost, s.ReplayPort = "", 0 }), nil},
		{"no load topic", with(`"load_topic":"load",`, ``), Configured{}, false, change(func(s *Settings) { s.LoadPort, s.LoadTopic = 0, "" }), nil},
		{"wildcard 0.0.0.0", with(`"*"`, `"0.0.0.0"`), Configured{}, false, &full, nil},
		{"wildcard ::", with(`"*"`, `"::"`), Configured{}, false, &full, nil},
		{"wildcard [::]", with(`"*"`, `"[::]"`), Configured{}, false, &full, nil},
		{"its own second address", with(`"*"`, `"fd00::7"`), Configured{}, false, change(func(s *Settings) { s.Host, s.ReplayHost = "fd00::7", "fd00::7" }), nil},
		{"its own address, mapped", with(`"*"`, `"::ffff:10.0.0.7"`), Configured{}, false,
			change(func(s *Settings) { s.Host, s.ReplayHost = "::ffff:10.0.0.7", "::ffff:10.0.0.7" }), nil},
		{"a foreign host", with(`"*"`, `"10.0.0.8"`), Configured{}, false, nil, []string{CodeForeignHost}},
		{"a foreign name", with(`"*"`, `"metadata.internal"`), Configured{}, false, nil, []string{CodeForeignHost}},
		{"a foreign host that is allowed", with(`"*"`, `"10.0.0.8"`), Configured{}, true, change(func(s *Settings) { s.Host, s.ReplayHost = "10.0.0.8", "10.0.0.8" }), nil},
		{"a foreign replay host", with(`"load_topic"`, `"replay_endpoint_host":"10.0.0.8","load_topic"`), Configured{}, false, nil, []string{CodeForeignHost}},
		{"no host at all", with(`"*"`, `"a/b"`), Configured{}, true, nil, []string{CodeSettings}},
		{"port 1023", with(`5557`, `1023`), Configured{}, false, nil, []string{CodeSettings}},
		{"port 1024", with(`5557`, `1024`), Configured{}, false, change(func(s *Settings) { s.Port = 1024 }), nil},
		{"port 65536", with(`5557`, `65536`), Configured{}, false, nil, []string{CodeSettings}},
		{"a negative port", with(`5557`, `-1`), Configured{}, false, nil, []string{CodeSettings}},
		{"ranks beyond the last port", with(`5557`, `65535`), Configured{}, false, change(func(s *Settings) { s.Port, s.DPSize = 65535, 1 }), []string{CodeSettings}},
		{"256 ranks", with(`"dp_size":2`, `"dp_size":256`, `5600`, `6000`, `5559`, `7000`), Configured{}, false,
			change(func(s *Settings) { s.DPSize, s.ReplayPort, s.LoadPort = 256, 6000, 7000 }), nil},
		{"60,000 ranks", with(`"dp_size":2`, `"dp_size":60000`), Configured{}, false, nil, []string{CodeSettings}},
		{"no ranks", with(`"dp_size":2`, `"dp_size":0`), Configured{}, false, nil, []string{CodeSettings}},
		{"a block size of 0", with(`"block_size":64`, `"block_size":0`), Configured{}, false, nil, []string{CodeSettings}},
		{"a block size beyond the limit", with(`"block_size":64`, `"block_size":65537`), Configured{}, false, nil, []string{CodeSettings}},
		{"replay ports among the events'", with(`5600`, `5558`), Configured{}, false, change(func(s *Settings) { s.ReplayPort = 0 }), []string{CodeSettings}},
		{"a replay port that is none", with(`5600`, `80`), Configured{}, false, change(func(s *Settings) { s.ReplayPort = 0 }), []string{CodeSettings}},
		{"a topic without end", with(`"kv"`, `"`+strings.Repeat("x", maxTopic+1)+`"`), Configured{}, false, nil, []string{CodeSettings}},
		{"eagle", with(`"speculative_algorithm":null`, `"speculative_algorithm":"eagle"`), Configured{}, false, change(func(s *Settings) { s.Bigram = true }), nil},
		{"EAGLE3", with(`"speculative_algorithm":null`, `"speculative_algorithm":"EAGLE3"`), Configured{}, false, change(func(s *Settings) { s.Bigram = true }), nil},
		{"FROZEN_KV_MTP", with(`"speculative_algorithm":null`, `"speculative_algorithm":"FROZEN_KV_MTP"`), Configured{}, false, change(func(s *Settings) { s.Bigram = true }), nil},
		{"an MTP we do not know", with(`"speculative_algorithm":null`, `"speculative_algorithm":"NEW_MTP"`), Configured{}, false, &full, []string{CodeSettings}},
		{"NEXTN", with(`"speculative_algorithm":null`, `"speculative_algorithm":"NEXTN"`), Configured{}, false, &full, nil},
		{"bigrams denied", with(`"speculative_algorithm":null`, `"speculative_algorithm":"EAGLE"`, `"namespace"`, `"is_bigram":false,"namespace"`), Configured{}, false, &full, nil},
	}
	for _, c := range cases {
		got, problems := Resolve(Candidate{
			Worker: "ns/pod", Host: "10.0.0.7", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fd00::7")},
			Info: info(t, c.info), Configured: c.configured, AllowForeignHosts: c.foreign,
		})
		var codes []string
		for _, p := range problems {
			codes = append(codes, p.Code)
			if p.Worker != "ns/pod" || p.Message == "" {
				t.Errorf("%s: problem %+v", c.name, p)
			}
		}
		if !reflect.DeepEqual(got, c.want) || !reflect.DeepEqual(codes, c.codes) {
			t.Errorf("%s: got %+v %v, want %+v %v", c.name, got, problems, c.want, c.codes)
		}
	}
}

func TestAddressesOfRanks(t *testing.T) {
	s := Settings{Host: "fd00::7", Port: 5557, ReplayHost: "fd00::7", ReplayPort: 5600}
	if got := s.Address(3); got != "[fd00::7]:5560" {
		t.Errorf("rank 3 publishes on %s", got)
	}
	if got := s.ReplayAddress(3); got != "[fd00::7]:5603" {
		t.Errorf("rank 3 repeats on %s", got)
	}
	s.ReplayPort = 0
	if got := s.ReplayAddress(3); got != "" {
		t.Errorf("without a replay socket rank 3 repeats on %s", got)
	}
}

func TestServerInfoThatMakesNoSenseIsAnError(t *testing.T) {
	for _, doc := range []string{``, `[]`, `{"kv_events":7}`, `{"kv_events":{"endpoint_port_base":"x"}}`, `{"kv_events":{"dp_size":1.5}}`, `{"speculative_algorithm":[]}`} {
		if i, err := DecodeServerInfo([]byte(doc)); err == nil {
			t.Errorf("%s gave %+v", doc, i)
		}
	}
	for _, doc := range []string{`{}`, `{"kv_events":null}`, `{"kv_events":{}}`, `{"kv_events":{"publisher":"null","endpoint_port_base":1}}`} {
		if i := info(t, doc); i.Events != nil {
			t.Errorf("%s gave %+v", doc, i.Events)
		}
	}
}

func TestTheCapacityOfAnEngineIsWhatItSaysIfThatMakesSense(t *testing.T) {
	for doc, want := range map[string]int64{
		`{"max_total_num_tokens": 4096000}`: 4_096_000, `{}`: 0, `{"max_total_num_tokens": null}`: 0, `{"max_total_num_tokens": -1}`: 0,
		`{"max_total_num_tokens": 1e30}`: 0, `{"max_total_num_tokens": 2199023255552}`: 0, `{"max_total_num_tokens": "many"}`: 0,
		`{"max_total_num_tokens": 64, "kv_events": {"publisher": "null"}}`: 64,
	} {
		if got := info(t, doc).CapacityTokens; got != want {
			t.Errorf("%s: got %d, want %d", doc, got, want)
		}
	}
}

func TestAnnotationsOverrideTheFleet(t *testing.T) {
	c, problems := Configured{Port: 1, BlockSize: 16}.WithAnnotations("w", map[string]string{
		AnnotationPrefix + "port": " 6000 ", AnnotationPrefix + "topic": "", AnnotationPrefix + "dp-size": "x", AnnotationPrefix + "replay-port": "-2", "other": "9",
	})
	if want := (Configured{Port: 6000, BlockSize: 16, Topic: ptr("")}); !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v, want %+v", c, want)
	}
	if len(problems) != 2 || problems[0].Code != CodeSettings || !strings.Contains(problems[0].Message, "dp-size") || !strings.Contains(problems[1].Message, "replay-port") {
		t.Errorf("problems %+v", problems)
	}
}

func TestTwoWorkersOnOnePublisherAreBothNamed(t *testing.T) {
	at := func(host string, port, dp int) *Settings { return &Settings{Host: host, Port: port, DPSize: dp} }
	for _, c := range []struct {
		name     string
		settings map[string]*Settings
		want     []string
	}{
		{"apart", map[string]*Settings{"a": at("10.0.0.1", 5557, 2), "b": at("10.0.0.1", 5559, 2), "c": at("10.0.0.2", 5557, 8), "d": nil}, nil},
		{"the same", map[string]*Settings{"a": at("10.0.0.1", 5557, 1), "b": at("10.0.0.1", 5557, 1)}, []string{"a", "b"}},
		{"overlapping ranks", map[string]*Settings{"a": at("10.0.0.1", 5557, 4), "b": at("10.0.0.1", 5560, 1), "c": at("10.0.0.1", 5561, 1)}, []string{"a", "b"}},
		{"two ways to write one address", map[string]*Settings{"a": at("10.0.0.1", 5557, 1), "b": at("::ffff:10.0.0.1", 5557, 1)}, []string{"a", "b"}},
		{"a name in two cases", map[string]*Settings{"a": at("Engine", 5557, 1), "b": at("engine", 5557, 1), "c": at("engine", 5557, 1)}, []string{"a", "b", "c"}},
	} {
		var names []string
		for _, p := range Collisions(c.settings) {
			names = append(names, p.Worker)
		}
		if !reflect.DeepEqual(names, c.want) {
			t.Errorf("%s: %v, want %v", c.name, names, c.want)
		}
	}
}
