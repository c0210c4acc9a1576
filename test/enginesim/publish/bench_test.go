package publish

import (
	"fmt"
	"testing"

	"github.com/routerfleet/routerfleet/test/enginesim"
	"github.com/routerfleet/routerfleet/test/enginesim/cache"
)

// discard is a sink that does nothing.
type discard struct{}

func (discard) Publish(int, Message) {}
func (discard) Restarted(int, bool)  {}

// BenchmarkStep publishes prompts of 20 blocks, as large as the shipped trace's.
func BenchmarkStep(b *testing.B) {
	for _, dialect := range []Dialect{SGLangArray, SGLangMap, VLLMMap} {
		b.Run(fmt.Sprintf("dialect=%s/blocks=20/page=512", dialect), func(b *testing.B) {
			p, err := New(Options{Dialect: dialect, PageSize: 512, Sink: discard{}})
			if err != nil {
				b.Fatal(err)
			}
			ids := tokens(1, 20*512)
			step := enginesim.Step{Time: epoch, Changes: []enginesim.Change{
				enginesim.Stored{Keys: cache.Chain(ids, 512, ""), Tokens: ids, PageSize: 512},
			}}
			b.ReportAllocs()
			for b.Loop() {
				p.Observe(step)
			}
		})
	}
}
