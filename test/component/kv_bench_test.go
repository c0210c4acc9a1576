package component

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/router/policy"
)

// BenchmarkLongPrompt is a prompt of 12,000 token ids through the router: read, keyed, matched, decided and forwarded.
// overhead-us is what the router says it added before the first byte (routerfleet_request_overhead_seconds).
func BenchmarkLongPrompt(b *testing.B) {
	for _, kind := range []kvKind{kvKinds[0], kvKinds[2], kvKinds[4]} {
		for _, name := range []string{policy.NamePowerOfTwo, policy.NameCacheAware} {
			b.Run(fmt.Sprintf("scheme=%s/policy=%s", kind.scheme, name), func(b *testing.B) {
				f := newKVFleet(b, kind, 3, 100_000)
				o := f.options()
				o.Policy = name
				unfollowed := 0
				if name != policy.NameCacheAware {
					unfollowed = len(f.engines)
				}
				r := f.router(o, unfollowed)
				ids := make([]string, 12_000)
				for i := range ids {
					ids[i] = fmt.Sprint(1000 + 7919*i%120_000)
				}
				body := `{"model":"m","max_tokens":1,"prompt":[` + strings.Join(ids, ",") + `]}`
				r.post(context.Background(), completionsPath, body)
				const sum, count = "routerfleet_request_overhead_seconds_sum", "routerfleet_request_overhead_seconds_count"
				s, n := r.metric(sum), r.metric(count)
				for b.Loop() {
					if got := r.post(context.Background(), completionsPath, body); got.status != 200 {
						b.Fatalf("%d %s", got.status, got.body)
					}
				}
				b.ReportMetric(1e6*(r.metric(sum)-s)/(r.metric(count)-n), "overhead-us")
			})
		}
	}
}
