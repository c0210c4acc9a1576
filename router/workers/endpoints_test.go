package workers

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// slice makes an EndpointSlice of namespace ns with port http=8000.
func slice(name string, family discoveryv1.AddressType, eps ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"app": "engine"}},
		AddressType: family,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8000)), Protocol: new(corev1.ProtocolTCP)}},
		Endpoints:   eps,
	}
}

func ipv4(name string, eps ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return slice(name, discoveryv1.AddressTypeIPv4, eps...)
}

// pod makes a ready endpoint of pod "p-<uid>".
func pod(uid, address string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses:  []string{address},
		Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: "p-" + uid, UID: types.UID(uid)},
	}
}

func unready(ep discoveryv1.Endpoint) discoveryv1.Endpoint {
	ep.Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(false), Terminating: new(false)}
	return ep
}

func terminating(ep discoveryv1.Endpoint) discoveryv1.Endpoint {
	ep.Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}
	return ep
}

// render shows a set as "id url condition" lines.
func render(set []endpoint) string {
	lines := make([]string, 0, len(set))
	for _, e := range set {
		lines = append(lines, fmt.Sprintf("%s %s %s", e.id, e.url, [...]string{"ready", "serving", "notready"}[e.condition]))
	}
	return strings.Join(lines, "\n")
}

func mustPort(t *testing.T, s string) portRef {
	t.Helper()
	p, err := parsePort(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func expect(t *testing.T, set []endpoint, want ...string) {
	t.Helper()
	if got := render(set); got != strings.Join(want, "\n") {
		t.Fatalf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// Case 5 (zalando/skipper#2684), every combination of the three flags being nil, true and false. The right column is
// written by hand from the API's text, row by row.
func TestConditionsAreReadByTheTextOfTheAPI(t *testing.T) {
	const (
		R = conditionReady
		S = conditionServing
		N = conditionNotReady
	)
	values := []*bool{nil, new(true), new(false)}
	//                     terminating:  nil true false
	want := [3][3][3]condition{ // [ready][serving][terminating]
		{ // ready nil = ready
			{R, S, R}, // serving nil = as ready
			{R, S, R}, // serving true
			{R, N, R}, // serving false: ready still says ready (publishNotReadyAddresses)
		},
		{ // ready true
			{R, S, R},
			{R, S, R},
			{R, N, R},
		},
		{ // ready false
			{N, N, N}, // serving nil = as ready
			{N, S, N}, // serving alone is no readiness
			{N, N, N},
		},
	}
	for r, ready := range values {
		for s, serving := range values {
			for x, term := range values {
				c := discoveryv1.EndpointConditions{Ready: ready, Serving: serving, Terminating: term}
				if got := conditionOf(c); got != want[r][s][x] {
					t.Errorf("ready %s serving %s terminating %s: got %d, want %d", show(ready), show(serving), show(term), got, want[r][s][x])
				}
			}
		}
	}
}

func show(b *bool) string {
	if b == nil {
		return "nil"
	}
	return fmt.Sprint(*b)
}

// Case 4 (tailscale#13056, aws-load-balancer-controller#4775).
func TestADualStackPodIsOneWorkerAtItsIPv4Address(t *testing.T) {
	four := ipv4("engine-4", pod("u1", "10.0.0.5"))
	six := slice("engine-6", discoveryv1.AddressTypeIPv6, pod("u1", "fd00::5"))
	for _, all := range [][]*discoveryv1.EndpointSlice{{four, six}, {six, four}} {
		set, skipped := desired(all, mustPort(t, "http"))
		expect(t, set, "ns/u1 http://10.0.0.5:8000 ready")
		if len(skipped) != 0 {
			t.Fatalf("skipped %v", skipped)
		}
	}
	set, _ := desired([]*discoveryv1.EndpointSlice{six}, mustPort(t, "http"))
	expect(t, set, "ns/u1 http://[fd00::5]:8000 ready")
	if set[0].name != "ns/p-u1" || set[0].uid != "u1" {
		t.Fatalf("name %q, uid %q", set[0].name, set[0].uid)
	}
}

func TestFQDNSlicesAndBadAddressesAreLeftOutAndCounted(t *testing.T) {
	empty := pod("u3", "")
	empty.Addresses = nil
	set, skipped := desired([]*discoveryv1.EndpointSlice{
		slice("names", discoveryv1.AddressTypeFQDN, pod("u1", "engine.example")),
		ipv4("addresses", pod("u2", "not-an-ip"), empty, pod("u4", "10.0.0.4")),
	}, mustPort(t, "http"))
	expect(t, set, "ns/u4 http://10.0.0.4:8000 ready")
	if want := map[string]int{skipFQDN: 1, skipAddress: 2}; !maps.Equal(skipped, want) {
		t.Fatalf("skipped %v, want %v", skipped, want)
	}
}

func TestThePortIsFoundByNameOrNumberAmongTheSlicesPorts(t *testing.T) {
	tcp, udp := new(corev1.ProtocolTCP), new(corev1.ProtocolUDP)
	port := func(name string, n int32, p *corev1.Protocol) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Name: &name, Port: &n, Protocol: p}
	}
	for _, c := range []struct {
		name, ref string
		ports     []discoveryv1.EndpointPort
		want      string // port of the URL, empty when left out
	}{
		{"by name, not the first", "http", []discoveryv1.EndpointPort{port("metrics", 9000, tcp), port("http", 8000, tcp)}, "8000"},
		{"the default is http", "", []discoveryv1.EndpointPort{port("http", 8000, nil)}, "8000"},
		{"by number", "9000", []discoveryv1.EndpointPort{port("http", 8000, tcp), port("", 9000, tcp)}, "9000"},
		{"no such name", "grpc", []discoveryv1.EndpointPort{port("http", 8000, tcp)}, ""},
		{"no such number", "80", []discoveryv1.EndpointPort{port("http", 8000, tcp)}, ""},
		{"not over UDP", "http", []discoveryv1.EndpointPort{port("http", 8000, udp), port("http", 8001, tcp)}, "8001"},
		{"a port without number", "http", []discoveryv1.EndpointPort{{Name: new("http")}}, ""},
		{"a number against no ports at all", "8000", nil, "8000"},
		{"a name against no ports at all", "http", nil, ""},
		{"an unnamed port has no name", "http", []discoveryv1.EndpointPort{{Port: new(int32(8000))}}, ""},
	} {
		s := ipv4("s", pod("u1", "10.0.0.1"))
		s.Ports = c.ports
		set, skipped := desired([]*discoveryv1.EndpointSlice{s}, mustPort(t, c.ref))
		got := ""
		if len(set) == 1 {
			got = set[0].url.Port()
		}
		if got != c.want || (got == "") != (skipped[skipPort] == 1) {
			t.Errorf("%s: got port %q, skipped %v, want %q", c.name, got, skipped, c.want)
		}
	}
}

func TestAWrongPortSettingIsRefused(t *testing.T) {
	for _, s := range []string{"0", "65536", "-1", strings.Repeat("x", 16)} {
		if p, err := parsePort(s); err == nil {
			t.Errorf("%q was read as %+v", s, p)
		}
	}
}

func TestOfTwoSightingsOfAPodTheWorseConditionCounts(t *testing.T) {
	ready, not, term := pod("u1", "10.0.0.1"), unready(pod("u1", "10.0.0.1")), terminating(pod("u1", "10.0.0.1"))
	for _, c := range []struct {
		a, b discoveryv1.Endpoint
		want string
	}{
		{ready, ready, "ready"}, {ready, not, "notready"}, {ready, term, "serving"}, {term, not, "notready"},
	} {
		for _, all := range [][]*discoveryv1.EndpointSlice{{ipv4("s1", c.a), ipv4("s2", c.b)}, {ipv4("s1", c.b), ipv4("s2", c.a)}} {
			set, _ := desired(all, mustPort(t, "http"))
			expect(t, set, "ns/u1 http://10.0.0.1:8000 "+c.want)
		}
	}
}

func TestOfTwoPodsWithOneAddressTheLivingOneOwnsIt(t *testing.T) {
	old, young := terminating(pod("u1", "10.0.0.1")), pod("u2", "10.0.0.1")
	set, skipped := desired([]*discoveryv1.EndpointSlice{ipv4("s", young, old)}, mustPort(t, "http"))
	expect(t, set, "ns/u2 http://10.0.0.1:8000 ready")
	if skipped[skipTakenOver] != 1 {
		t.Fatalf("skipped %v", skipped)
	}
	// Equal conditions: always the same one, whatever the order.
	a, b := pod("u8", "10.0.0.1"), pod("u9", "10.0.0.1")
	for range 20 { // map order inside
		for _, eps := range [][]discoveryv1.Endpoint{{a, b}, {b, a}} {
			set, _ := desired([]*discoveryv1.EndpointSlice{ipv4("s", eps...)}, mustPort(t, "http"))
			expect(t, set, "ns/u9 http://10.0.0.1:8000 ready")
		}
	}
}

func TestAnEndpointWithoutAPodIsKnownByItsSliceAndAddress(t *testing.T) {
	ep := pod("", "10.0.0.9")
	ep.TargetRef = nil
	set, _ := desired([]*discoveryv1.EndpointSlice{ipv4("by-hand", ep)}, mustPort(t, "http"))
	expect(t, set, "ns/by-hand/10.0.0.9:8000 http://10.0.0.9:8000 ready")
	if set[0].name != "ns/by-hand-10.0.0.9-8000" || set[0].uid != "" {
		t.Fatalf("name %q uid %q", set[0].name, set[0].uid)
	}
}

// Order, splitting and repetition of slices carry no meaning: any way to cut the same endpoints gives one set.
func TestTheSetDoesNotDependOnHowSlicesAreCut(t *testing.T) {
	var eps []discoveryv1.Endpoint
	for i := range 12 {
		ep := pod(fmt.Sprintf("u%02d", i), fmt.Sprintf("10.0.0.%d", i))
		switch i % 3 {
		case 1:
			ep = unready(ep)
		case 2:
			ep = terminating(ep)
		}
		eps = append(eps, ep)
	}
	whole, _ := desired([]*discoveryv1.EndpointSlice{ipv4("all", eps...)}, mustPort(t, "http"))
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 3))
		cut := map[int]*discoveryv1.EndpointSlice{}
		for _, ep := range eps {
			for range 1 + r.IntN(2) {
				n := r.IntN(4)
				if cut[n] == nil {
					cut[n] = ipv4(fmt.Sprint("s", n))
				}
				cut[n].Endpoints = append(cut[n].Endpoints, ep)
			}
		}
		for _, s := range cut {
			r.Shuffle(len(s.Endpoints), func(i, j int) { s.Endpoints[i], s.Endpoints[j] = s.Endpoints[j], s.Endpoints[i] })
		}
		got, _ := desired(slices.Collect(maps.Values(cut)), mustPort(t, "http"))
		if render(got) != render(whole) {
			t.Fatalf("seed %d: got\n%s\nwant\n%s", seed, render(got), render(whole))
		}
	}
}
