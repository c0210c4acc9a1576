package zmtp

import (
	"context"
	"fmt"
	"net"
	"testing"
)

// BenchmarkPubSub sends messages of three frames, as engines do, over loopback TCP.
func BenchmarkPubSub(b *testing.B) {
	for _, size := range []int{128, 1024, 16 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			pub := NewPub(PubOptions{HighWaterMark: 1 << 20})
			stop := running(func(ctx context.Context) error { return pub.Serve(ctx, l) })
			defer stop()
			c, err := Dial(b.Context(), l.Addr().String(), SUB, Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			if err := c.Subscribe(""); err != nil {
				b.Fatal(err)
			}
			payload, seq := make([]byte, size), make([]byte, 8)
			pub.Publish(nil, seq, payload)
			for pub.Subscriptions() == 0 { // until the subscription has arrived; publishing before is lost
				pub.Publish(nil, seq, payload)
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			done := make(chan error, 1)
			go func() {
				for range b.N {
					if _, err := c.Recv(); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
			b.ResetTimer()
			for range b.N {
				pub.Publish(nil, seq, payload)
			}
			if err := <-done; err != nil {
				b.Fatal(err)
			}
			if d := pub.Dropped(); d > 0 {
				b.Logf("%d dropped", d)
			}
		})
	}
}
