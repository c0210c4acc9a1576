package workers

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/routerfleet/routerfleet/internal/slicewatch/slicewatchtest"
)

// on gives a slice other ports, named p<number>.
func on(s *discoveryv1.EndpointSlice, numbers ...int32) *discoveryv1.EndpointSlice {
	s.Ports = nil
	for _, n := range numbers {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: new(fmt.Sprintf("p%d", n)), Port: new(n), Protocol: new(corev1.ProtocolTCP)})
	}
	return s
}

func TestAWrongPortIsSaidOnceWithThePortsThereAre(t *testing.T) {
	wrong := func(s *slicewatchtest.Server) {
		s.Put(on(ipv4("engine-1", pod("a", "10.0.0.1"), pod("b", "10.0.0.2")), 9000))
	}
	inCluster(t, wrong, func(t *testing.T, c *cluster) {
		after(0)
		const why = `their EndpointSlices have no TCP port "http", but "p9000" (9000): correct --worker-port (in a fleet spec.workers.port)`
		if got := c.Explain(); got != "0 discovered; 2 endpoints are no workers (no_such_port): "+why {
			t.Errorf("explained %q", got)
		}
		c.Put(on(ipv4("engine-1", pod("a", "10.0.0.1")), 9000)) // scaled in: no news
		after(0)
		if got := c.Explain(); !strings.Contains(got, "; 1 endpoints are no workers") {
			t.Errorf("explained %q", got)
		}
		said := func() int { return strings.Count(c.log.String(), "endpoints are no workers") }
		if n := said(); n != 1 || !strings.Contains(c.log.String(), "spec.workers.port") {
			t.Errorf("said %d times:\n%s", n, c.log.String())
		}
		c.Put(on(ipv4("engine-1", pod("a", "10.0.0.1")), 9001)) // other words
		after(0)
		if n := said(); n != 2 {
			t.Errorf("said %d times:\n%s", n, c.log.String())
		}
		c.Put(ipv4("engine-1", pod("a", "10.0.0.1")))
		c.pool(t, "corrected", "ns/a/0")
		if n := strings.Count(c.log.String(), "endpoints are no longer left out"); n != 1 {
			t.Errorf("the end was said %d times:\n%s", n, c.log.String())
		}
		if got := c.Explain(); got != "1 discovered; 1 in_rotation" {
			t.Errorf("explained %q", got)
		}
	})
}

func TestExplainNamesWhatStandsBetweenSlicesAndWorkers(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*slicewatchtest.Server)
		want    string
	}{
		"no slice":               {func(*slicewatchtest.Server) {}, `no EndpointSlice in namespace ns matches "app in (engine),!canary"`},
		"a slice of no pod":      {func(s *slicewatchtest.Server) { s.Put(ipv4("engine-1")) }, "the 1 EndpointSlices that match hold no endpoint"},
		"host names":             {func(s *slicewatchtest.Server) { s.Put(slice("n", discoveryv1.AddressTypeFQDN, pod("n", "e.example"))) }, "(fqdn): their EndpointSlices hold host names"},
		"a Role that is missing": {func(s *slicewatchtest.Server) { s.Deny(true) }, "list fails: endpointslices is forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, c.prepare, func(t *testing.T, c2 *cluster) {
				after(0)
				if got := c2.Explain(); !strings.Contains(got, c.want) || len(got) > maxExplainBytes {
					t.Errorf("explained %q, want %q in it", got, c.want)
				}
			})
		})
	}
}

func TestAnAddressThatChangedHandsIsNoNews(t *testing.T) {
	if got := skipsOf(map[string]int{skipTakenOver: 1}, nil, mustPort(t, "http")); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestOnlySomePortsAreOffered(t *testing.T) {
	many := on(ipv4("s"), 9, 8, 7, 6, 5, 4, 3, 2)
	many.Ports = append(many.Ports, discoveryv1.EndpointPort{Port: new(int32(1)), Protocol: new(corev1.ProtocolUDP)})
	if got := offered([]*discoveryv1.EndpointSlice{many, many}); got != `"p2" (2), "p3" (3), "p4" (4), "p5" (5), "p6" (6) and 3 more` {
		t.Errorf("offered %s", got)
	}
	if got := offered(nil); got != "none at all" {
		t.Errorf("offered %s", got)
	}
	bare := on(ipv4("s"))
	bare.Ports = []discoveryv1.EndpointPort{{Port: new(int32(8000))}}
	if got := offered([]*discoveryv1.EndpointSlice{bare}); got != "8000" {
		t.Errorf("offered %s", got)
	}
}
