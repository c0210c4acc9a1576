package loadgen

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/routerfleet/routerfleet/test/data/traces"
)

// job is one request to send.
type job struct {
	index int
	due   time.Duration // since the start of sending; lateness is measured from it
	paced bool          // whether due means anything
	build func() request
}

// late is how far behind its time a job was sent.
func (j job) late(began time.Duration) time.Duration {
	if !j.paced {
		return 0
	}
	return max(0, began-j.due)
}

// request is a job as it goes on the wire.
type request struct {
	route        string
	body         []byte
	stream       bool
	promptTokens int // what the answer must have counted; 0: unknown
	outputTokens int // what the answer must have; 0: unknown
}

// source yields jobs in order until it is dry.
type source func() (job, bool)

// traceSource yields the trace's requests.
func traceSource(requests []traces.Request, o Options, model string) source {
	next := 0
	return func() (job, bool) {
		if next == len(requests) {
			return job{}, false
		}
		index, r := next, requests[next]
		next++
		j := job{index: index, build: func() request { return traceRequest(r, model, o.MaxOutput) }}
		if o.Speed > 0 {
			j.due, j.paced = time.Duration(float64(r.At)/o.Speed), true
		}
		return j, true
	}
}

// traceRequest builds the request that the trace describes. It is built when it
// is sent: a prompt of 100,000 ids takes 600 kB.
func traceRequest(r traces.Request, model string, maxOutput int) request {
	output := max(1, r.OutputLength)
	if maxOutput > 0 {
		output = min(output, maxOutput)
	}
	body := make([]byte, 0, 6*r.InputLength+256)
	body = fmt.Appendf(body, `{"model":%s,"max_tokens":%d,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true},"prompt":[`,
		quote(model), output)
	for i, token := range r.Prompt() {
		if i > 0 {
			body = append(body, ',')
		}
		body = strconv.AppendUint(body, uint64(token), 10)
	}
	body = append(body, "]}"...)
	return request{route: "/v1/completions", body: body, stream: true, promptTokens: r.InputLength, outputTokens: output}
}

// steadySource yields small requests without end, each with a prompt of its own,
// over the shapes clients use: a streamed chat, a streamed completion, a plain
// chat.
func steadySource(o Options, model string) source {
	next := 0
	return func() (job, bool) {
		index := next
		next++
		return job{index: index, build: func() request { return steadyRequest(index, model, o.MaxOutput) }}, true
	}
}

func steadyRequest(index int, model string, output int) request {
	text := fmt.Sprintf("Say something short about the number %d.", index)
	streamed := `"stream":true,"stream_options":{"include_usage":true},`
	if index%3 == 2 {
		streamed = ""
	}
	head := fmt.Sprintf(`{"model":%s,"max_tokens":%d,"ignore_eos":true,%s`, quote(model), output, streamed)
	r := request{route: "/v1/chat/completions", stream: streamed != "", outputTokens: output}
	if index%3 == 1 {
		r.route = "/v1/completions"
		r.body = fmt.Appendf(nil, `%s"prompt":%s}`, head, quote(text))
	} else {
		r.body = fmt.Appendf(nil, `%s"messages":[{"role":"user","content":%s}]}`, head, quote(text))
	}
	return r
}

// quote makes a JSON string; strings always encode.
func quote(s string) []byte {
	data, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("loadgen: encode a string: %v", err))
	}
	return data
}
