//go:build libzmq

// Conformance with libzmq, the peer every engine uses: go test -tags libzmq ./router/zmtp (cgo, libzmq3-dev).

package zmtp

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pebbe/zmq4"
)

// libzmq gives a libzmq socket of type t that is closed with the test.
func libzmq(t *testing.T, kind zmq4.Type, options ...func(*zmq4.Socket) error) *zmq4.Socket {
	t.Helper()
	s, err := zmq4.NewSocket(kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for _, o := range append(options, func(s *zmq4.Socket) error { return s.SetLinger(0) }) {
		if err := o(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// bind binds a libzmq socket to a free loopback port and gives its host:port.
func bind(t *testing.T, s *zmq4.Socket, address string) string {
	t.Helper()
	if err := s.Bind("tcp://" + address); err != nil {
		t.Fatal(err)
	}
	bound, err := s.GetLastEndpoint()
	if err != nil {
		t.Fatal(err)
	}
	return bound[len("tcp://"):]
}

// channelHandler hands on what a subscription delivers.
type channelHandler struct {
	connected chan uint64
	messages  chan [][]byte
}

func newChannelHandler() *channelHandler {
	return &channelHandler{make(chan uint64, 100), make(chan [][]byte, 1<<20)}
}
func (h *channelHandler) Connected(e uint64)         { h.connected <- e }
func (h *channelHandler) Disconnected(uint64, error) {}
func (h *channelHandler) Unreachable(error)          {}
func (h *channelHandler) Message(_ uint64, parts [][]byte) {
	out := make([][]byte, len(parts))
	for i, p := range parts {
		out[i] = slices.Clone(p)
	}
	h.messages <- out
}

func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatal("nothing arrived in 20 s")
		panic("unreachable")
	}
}

// TestLibzmqPublisherKilledAndRestarted also shows the slow joiner: what is published before the subscription has
// arrived is lost, so the publisher repeats until the first message is through.
func TestLibzmqPublisherKilledAndRestarted(t *testing.T) {
	for _, minor := range []int{0, -1} {
		h := newChannelHandler()
		pub := libzmq(t, zmq4.PUB)
		addr := bind(t, pub, "127.0.0.1:*")
		stop := running(NewSub(SubOptions{Options: Options{Minor: minor}, Address: addr, Topic: "kv"}, h).Run)
		for life := uint64(1); life <= 3; life++ {
			if e := receive(t, h.connected); e != life {
				t.Fatalf("epoch %d in life %d", e, life)
			}
			want := fmt.Sprint("life ", life)
			m := repeatUntilReceived(t, pub, h, want)
			if len(m) != 3 || string(m[0]) != "kv" || string(m[2]) != want {
				t.Errorf("got %q", m)
			}
			pub.Close()
			if life < 3 {
				pub = libzmq(t, zmq4.PUB)
				await(t, "the port that libzmq closes in the background", func() bool { return pub.Bind("tcp://"+addr) == nil })
			}
		}
		stop()
	}
}

func repeatUntilReceived(t *testing.T, pub *zmq4.Socket, h *channelHandler, text string) [][]byte {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		if _, err := pub.SendMessage("other", "", text); err != nil {
			t.Fatal(err)
		}
		if _, err := pub.SendMessage("kv", []byte{0}, text); err != nil {
			t.Fatal(err)
		}
		select {
		case m := <-h.messages:
			return m
		case <-deadline:
			t.Fatal("the subscription never arrived")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestLibzmqSubscriberOfOurPublisher(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	pub := NewPub(PubOptions{})
	defer running(func(ctx context.Context) error { return pub.Serve(ctx, l) })()
	heartbeats := func(s *zmq4.Socket) error { return s.SetHeartbeatIvl(10 * time.Millisecond) }
	sub := libzmq(t, zmq4.SUB, heartbeats, func(s *zmq4.Socket) error { return s.SetSubscribe("kv") })
	if err := sub.Connect("tcp://" + l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	await(t, "the subscription", func() bool { return pub.Subscriptions() == 1 })
	pub.Publish([]byte("other"), []byte("no"))
	pub.Publish([]byte("kv"), nil, make([]byte, 70_000))
	got, err := sub.RecvMessageBytes(0)
	if err != nil || len(got) != 3 || string(got[0]) != "kv" || len(got[2]) != 70_000 {
		t.Errorf("got %d frames, %v", len(got), err)
	}
	if err := sub.SetUnsubscribe("kv"); err != nil {
		t.Fatal(err)
	}
	await(t, "the cancellation", func() bool { return pub.Subscriptions() == 0 })
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("never came: ", what)
		}
	}
}

// TestLibzmqHeartbeatsKeepAnIdleConnection: each side sends PING far more often than the other's patience lasts.
func TestLibzmqHeartbeatsKeepAnIdleConnection(t *testing.T) {
	h := newChannelHandler()
	pub := libzmq(t, zmq4.PUB, func(s *zmq4.Socket) error { return s.SetHeartbeatIvl(20 * time.Millisecond) },
		func(s *zmq4.Socket) error { return s.SetHeartbeatTimeout(200 * time.Millisecond) })
	addr := bind(t, pub, "127.0.0.1:*")
	opt := Options{HeartbeatInterval: 50 * time.Millisecond, HeartbeatTimeout: 400 * time.Millisecond}
	defer running(NewSub(SubOptions{Options: opt, Address: addr}, h).Run)()
	receive(t, h.connected)
	select {
	case e := <-h.connected:
		t.Errorf("epoch %d began on an idle connection", e)
	case <-time.After(2 * time.Second):
	}
	repeatUntilReceived(t, pub, h, "still there")
}

func TestLibzmqRouterAnswersOurDealer(t *testing.T) {
	router := libzmq(t, zmq4.ROUTER)
	addr := bind(t, router, "127.0.0.1:*")
	var server sync.WaitGroup
	server.Go(func() {
		m, err := router.RecvMessageBytes(0)
		if err != nil || len(m) != 3 || len(m[1]) != 0 {
			t.Errorf("the engine sees %q, %v; want identity, empty, start", m, err)
			return
		}
		for seq := binary.BigEndian.Uint64(m[2]); seq < 10; seq++ {
			router.SendMessage(m[0], "", binary.BigEndian.AppendUint64(nil, seq), "batch")
		}
		router.SendMessage(m[0], "", binary.BigEndian.AppendUint64(nil, 1<<64-1), "")
	})
	c, err := Dial(t.Context(), addr, DEALER, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Send(nil, binary.BigEndian.AppendUint64(nil, 7)); err != nil {
		t.Fatal(err)
	}
	var seqs []uint64
	for range 4 {
		m, err := c.Recv()
		if err != nil || len(m) != 3 {
			t.Fatalf("%q, %v", m, err)
		}
		seqs = append(seqs, binary.BigEndian.Uint64(m[1]))
	}
	if !slices.Equal(seqs, []uint64{7, 8, 9, 1<<64 - 1}) {
		t.Errorf("replayed %v", seqs)
	}
	server.Wait()
}

func TestLibzmqDealerOfOurRouter(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	router := NewRouter(Options{}, func(_ context.Context, q Request) {
		q.Reply(nil, []byte("echo "+string(q.Parts[1])), q.Identity)
	})
	defer running(func(ctx context.Context) error { return router.Serve(ctx, l) })()
	dealer := libzmq(t, zmq4.DEALER, func(s *zmq4.Socket) error { return s.SetIdentity("me") })
	if err := dealer.Connect("tcp://" + l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if _, err := dealer.SendMessage("", "7"); err != nil {
		t.Fatal(err)
	}
	if m, err := dealer.RecvMessage(0); err != nil || !slices.Equal(m, []string{"", "echo 7", "me"}) {
		t.Errorf("got %q, %v", m, err)
	}
}

// TestLibzmqDropsAtItsHighWaterMarkAndNeverReorders: a subscriber that does not read makes the publisher drop. What
// arrives is in order; holes are the gaps that the pump will see.
func TestLibzmqDropsAtItsHighWaterMarkAndNeverReorders(t *testing.T) {
	const published = 200_000
	pub := libzmq(t, zmq4.PUB, func(s *zmq4.Socket) error { return s.SetSndhwm(1000) })
	addr := bind(t, pub, "127.0.0.1:*")
	c, err := Dial(t.Context(), addr, SUB, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Subscribe(""); err != nil {
		t.Fatal(err)
	}
	joined := make(chan struct{})
	go func() {
		defer close(joined)
		for {
			if m, err := c.Recv(); err != nil || string(m[0]) == "joined" {
				return
			}
		}
	}()
	await(t, "the join", func() bool {
		pub.SendMessage("joined")
		select {
		case <-joined:
			return true
		default:
			return false
		}
	})
	for i := range published {
		if _, err := pub.SendMessage("", binary.BigEndian.AppendUint64(nil, uint64(i)), make([]byte, 1024)); err != nil {
			t.Fatal(err)
		}
	}
	got, last := countOrdered(t, c, pub)
	t.Logf("published %d, received %d, last %d", published, got, last)
	if got == published {
		t.Error("nothing was dropped: the subscriber did not fall behind, so this shows nothing")
	}
}

// countOrdered reads until the publisher's end mark, which is repeated until it is not dropped.
func countOrdered(t *testing.T, c *Conn, pub *zmq4.Socket) (n int, last int64) {
	t.Helper()
	last = -1
	type result struct{ err error }
	done := make(chan result)
	go func() {
		for {
			m, err := c.Recv()
			if err != nil || string(m[0]) == "end" {
				done <- result{err}
				return
			}
			if string(m[0]) == "joined" {
				continue
			}
			seq := int64(binary.BigEndian.Uint64(m[1]))
			if seq <= last {
				done <- result{fmt.Errorf("%d after %d", seq, last)}
				return
			}
			n, last = n+1, seq
		}
	}()
	for {
		pub.SendMessage("end")
		select {
		case r := <-done:
			if r.err != nil {
				t.Error(r.err)
			}
			return n, last
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// TestLibzmqAHundredThousandMessages prints the rate of 1 KB messages from libzmq to us.
func TestLibzmqAHundredThousandMessages(t *testing.T) {
	const messages = 100_000
	h := newChannelHandler()
	pub := libzmq(t, zmq4.PUB, func(s *zmq4.Socket) error { return s.SetSndhwm(0) })
	addr := bind(t, pub, "127.0.0.1:*")
	defer running(NewSub(SubOptions{Address: addr}, h).Run)()
	receive(t, h.connected)
	repeatUntilReceived(t, pub, h, "joined")
	payload := make([]byte, 1024)
	began := time.Now()
	var sender sync.WaitGroup
	sender.Go(func() {
		for i := range messages {
			pub.SendMessage("", binary.BigEndian.AppendUint64(nil, uint64(i)), payload)
		}
	})
	for want := uint64(0); want < messages; {
		m := receive(t, h.messages)
		if len(m[2]) != len(payload) {
			continue // repeated while joining
		}
		if seq := binary.BigEndian.Uint64(m[1]); seq != want {
			t.Fatalf("got %d, want %d", seq, want)
		}
		want++
	}
	sender.Wait()
	t.Logf("%d messages of 1 KB: %.0f a second", messages, messages/time.Since(began).Seconds())
}
