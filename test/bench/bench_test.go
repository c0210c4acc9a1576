package main

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"
)

// The two ends are checked against each other: a benchmark whose ends disagree measures nothing.
func TestTheEngineAndTheCallerUnderstandEachOther(t *testing.T) {
	ours, theirs := net.Pipe()
	go answerAll(theirs, 3)
	defer ours.Close()
	for _, l := range []load{{"chat", chatBody(1024, false), len(engineChat)}, {"stream", chatBody(1024, true), 3 * len(engineEvent)}} {
		if len(l.body) != 1024 {
			t.Errorf("%s: the body has %d bytes, want 1024", l.name, len(l.body))
		}
		c := &caller{conn: ours, in: bufio.NewReader(ours), least: l.least}
		c.request = []byte("POST / HTTP/1.1\r\nContent-Length: 1024\r\n\r\n" + l.body)
		for range 2 {
			if err := c.call(); err != nil {
				t.Errorf("%s: %v", l.name, err)
			}
		}
		c.least = 1 << 20
		if err := c.call(); err == nil {
			t.Errorf("%s: an answer that is too short was taken", l.name)
		}
	}
}

func TestBrokenMessagesAreErrors(t *testing.T) {
	for _, text := range []string{
		"", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
	} {
		if _, _, err := readMessage(bufio.NewReader(strings.NewReader(text))); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestAReportJudgesByTheTargets(t *testing.T) {
	micro := func(n ...int) (d []time.Duration) {
		for _, v := range n {
			d = append(d, time.Duration(v)*time.Microsecond)
		}
		return d
	}
	r := report{latency: map[string][]time.Duration{"direct": micro(20), "reverse-proxy": micro(120), "router": micro(140)},
		throughput: []rates{{load: "chat", perSecond: map[string][]float64{"direct": {9}, "reverse-proxy": {100}, "router": {85}}}}}
	if err := r.missed(); err != nil {
		t.Errorf("1.2 x and 0.85 x: %v", err)
	}
	r.latency["router"] = micro(151)
	r.throughput[0].perSecond["router"] = []float64{79}
	err := r.missed()
	if err == nil || !strings.Contains(err.Error(), "1.31 x") || !strings.Contains(err.Error(), "0.79 x") {
		t.Errorf("1.31 x and 0.79 x: %v", err)
	}
}
