package peers

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var me = Self{UID: "uid-me", Name: "router-me", Namespace: "ns", IP: "10.0.0.1", Host: "0.0.0.0", Port: 9400}

func slice(name string, family discoveryv1.AddressType, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Namespace: "ns", Labels: map[string]string{"app": "router"}},
		AddressType: family, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{
			{Name: ptr.To("http"), Port: ptr.To[int32](30000)}, {Name: ptr.To("admin"), Port: ptr.To[int32](9400)},
		},
	}
}

func v4(endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return slice("four", discoveryv1.AddressTypeIPv4, endpoints...)
}

func v6(endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return slice("six", discoveryv1.AddressTypeIPv6, endpoints...)
}

// pod is a ready endpoint of a pod; name empty means no target.
func pod(name string, addresses ...string) discoveryv1.Endpoint {
	ep := discoveryv1.Endpoint{Addresses: addresses, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}
	if name != "" {
		ep.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}
	}
	return ep
}

func with(ep discoveryv1.Endpoint, change func(*discoveryv1.Endpoint)) discoveryv1.Endpoint {
	change(&ep)
	return ep
}

func urls(self Self, list ...*discoveryv1.EndpointSlice) string {
	var out []string
	for _, p := range extract(list, self, PortName) {
		u := p.URL
		if p.Terminating {
			u += "!"
		}
		out = append(out, u)
	}
	return fmt.Sprint(out)
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

const sibling = "[http://10.0.0.2:9400]"

func TestExtractPeersExcludesSelf(t *testing.T) {
	expect(t, urls(me, v4(pod("me", "10.0.0.1"), pod("a", "10.0.0.2"))), sibling)
}

// The secondary address of a dual-stack pod is not POD_IP: the name must be enough.
func TestExtractPeersExcludesSelfByPodName(t *testing.T) {
	self := Self{Name: "router-me", Namespace: "ns", IP: "10.0.0.1", Host: "::", Port: 9400}
	expect(t, urls(self, v6(pod("router-me", "fd00::1")), v4(pod("a", "10.0.0.2"))), sibling)
}

func TestExtractPeersKeepsSameNamedPodInAnotherNamespace(t *testing.T) {
	other := with(pod("router-me", "10.0.0.2"), func(e *discoveryv1.Endpoint) { e.TargetRef.Namespace = "elsewhere" })
	expect(t, urls(me, v4(other)), sibling)
}

func TestExtractPeersExcludesByNameWhenOwnNamespaceUnknown(t *testing.T) {
	self := Self{Name: "router-me", Host: "0.0.0.0", Port: 9400}
	expect(t, urls(self, v4(pod("router-me", "10.0.0.9"), pod("a", "10.0.0.2"))), sibling)
}

func TestExtractPeersFallsBackToIPWithoutTargetRef(t *testing.T) {
	expect(t, urls(me, v4(pod("", "10.0.0.1"), pod("", "10.0.0.2"))), sibling)
}

func TestExtractPeersIPFallbackExcludesTheWholeEndpoint(t *testing.T) {
	expect(t, urls(me, v4(pod("", "10.9.9.9", "10.0.0.1"), pod("", "10.0.0.2"))), sibling)
}

func TestExtractPeersOffersOneURLPerEndpoint(t *testing.T) {
	expect(t, urls(me, v4(pod("a", "10.0.0.2", "10.0.0.3"))), sibling)
}

func TestExtractPeersIgnoresTargetRefOfNonPodKind(t *testing.T) {
	node := with(pod("router-me", "10.0.0.2"), func(e *discoveryv1.Endpoint) { e.TargetRef.Kind = "Node" })
	expect(t, urls(me, v4(node)), sibling)
}

func TestExtractPeersTreatsAbsentTargetRefKindAsPod(t *testing.T) {
	kindless := with(pod("router-me", "10.0.0.9"), func(e *discoveryv1.Endpoint) { e.TargetRef.Kind = "" })
	expect(t, urls(me, v4(kindless, pod("a", "10.0.0.2"))), sibling)
}

func TestExtractPeersKeepsSelfWhenIdentityIsUnknown(t *testing.T) {
	expect(t, urls(Self{Host: "0.0.0.0", Port: 9400}, v4(pod("me", "10.0.0.1"))), "[http://10.0.0.1:9400]")
}

func TestExtractPeersTreatsAbsentReadyAsReady(t *testing.T) {
	absent := with(pod("a", "10.0.0.2"), func(e *discoveryv1.Endpoint) { e.Conditions = discoveryv1.EndpointConditions{} })
	expect(t, urls(me, v4(absent)), sibling)
}

func TestExtractPeersSkipsUnreadyEndpoints(t *testing.T) {
	booting := with(pod("b", "10.0.0.3"), func(e *discoveryv1.Endpoint) { e.Conditions.Ready = ptr.To(false) })
	expect(t, urls(me, v4(pod("a", "10.0.0.2"), booting)), sibling)
}

// Rule B10: whatever serving says.
func TestExtractPeersKeepsTerminatingEndpoints(t *testing.T) {
	for _, serving := range []*bool{nil, ptr.To(true), ptr.To(false)} {
		leaving := with(pod("a", "10.0.0.2"), func(e *discoveryv1.Endpoint) {
			e.Conditions = discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: serving, Terminating: ptr.To(true)}
		})
		expect(t, urls(me, v4(leaving)), "[http://10.0.0.2:9400!]")
	}
}

func TestExtractPeersBracketsIPv6Addresses(t *testing.T) {
	self := me
	self.Host = "::"
	expect(t, urls(self, v6(pod("a", "fd00::2"))), "[http://[fd00::2]:9400]")
}

func TestExtractPeersSkipsTheOtherAddressFamily(t *testing.T) {
	expect(t, urls(me, v4(pod("a", "10.0.0.2")), v6(pod("b", "fd00::3"))), sibling)
	six := me
	six.Host = "fd00::9"
	expect(t, urls(six, v4(pod("a", "10.0.0.2")), v6(pod("b", "fd00::3"))), "[http://[fd00::3]:9400]")
}

func TestPeerAddressFamilyFollowsTheListenSocket(t *testing.T) {
	for host, want := range map[string][2]bool{
		"0.0.0.0": {true, false}, "10.0.0.1": {true, false}, "::ffff:10.0.0.1": {true, false},
		"fd00::1": {false, true}, "::1": {false, true}, "::": {true, true}, "router.example": {true, true}, "": {true, true},
	} {
		if v4, v6 := (Self{Host: host}).families(); [2]bool{v4, v6} != want {
			t.Errorf("host %q: got %v %v, want %v", host, v4, v6, want)
		}
	}
}

// A dual-stack pod is one peer, at its IPv4 address.
func TestAnUnspecifiedListenerKeepsBothAddressFamilies(t *testing.T) {
	self := me
	self.Host = "::"
	expect(t, urls(self, v6(pod("a", "fd00::2"), pod("b", "fd00::3")), v4(pod("a", "10.0.0.2"))), "[http://10.0.0.2:9400 http://[fd00::3]:9400]")
}

func TestExtractPeersKeepsFQDNSlicesForEitherFamily(t *testing.T) {
	for _, host := range []string{"0.0.0.0", "fd00::1", "::"} {
		self := me
		self.Host = host
		expect(t, urls(self, slice("names", discoveryv1.AddressTypeFQDN, pod("", "router.example"))), "[http://router.example:9400]")
	}
}

func TestPeerPortPrefersThePortNamedAdmin(t *testing.T) {
	s := v4(pod("a", "10.0.0.2"))
	s.Ports = []discoveryv1.EndpointPort{{Name: ptr.To("x"), Port: ptr.To[int32](9400)}, {Name: ptr.To("admin"), Port: ptr.To[int32](9401)}}
	expect(t, urls(me, s), "[http://10.0.0.2:9401]")
}

func TestPeerPortPrefersThisReplicasOwnListenPort(t *testing.T) {
	s := v4(pod("a", "10.0.0.2"))
	s.Ports = []discoveryv1.EndpointPort{{Port: ptr.To[int32](30000)}, {Port: ptr.To[int32](9400)}}
	expect(t, urls(me, s), sibling)
}

func TestPeerPortFallsBackToTheFirstAdvertisedPort(t *testing.T) {
	s := v4(pod("a", "10.0.0.2"))
	s.Ports = []discoveryv1.EndpointPort{{Port: ptr.To[int32](53), Protocol: ptr.To(corev1.ProtocolUDP)}, {Port: ptr.To[int32](30000)}, {Port: ptr.To[int32](30001)}}
	expect(t, urls(me, s), "[http://10.0.0.2:30000]")
}

func TestExtractPeersFallsBackToOwnPortWhenTheSliceListsNone(t *testing.T) {
	s := v4(pod("a", "10.0.0.2"))
	s.Ports = nil
	expect(t, urls(me, s), sibling)
}

func TestAPodInSeveralSlicesIsAsWellAsItsWorstSliceSays(t *testing.T) {
	leaving := with(pod("a", "10.0.0.2"), func(e *discoveryv1.Endpoint) { e.Conditions.Terminating = ptr.To(true) })
	booting := with(pod("a", "10.0.0.2"), func(e *discoveryv1.Endpoint) { e.Conditions.Ready = ptr.To(false) })
	expect(t, urls(me, v4(pod("a", "10.0.0.2")), slice("two", discoveryv1.AddressTypeIPv4, leaving)), "[http://10.0.0.2:9400!]")
	expect(t, urls(me, v4(pod("a", "10.0.0.2")), slice("two", discoveryv1.AddressTypeIPv4, booting)), "[]")
}

func TestTheSetDoesNotDependOnTheOrderOfSlices(t *testing.T) {
	self := me
	self.Host = "::"
	list := []*discoveryv1.EndpointSlice{
		v4(pod("a", "10.0.0.2"), pod("me", "10.0.0.1"), pod("c", "10.0.0.4")), v6(pod("a", "fd00::2"), pod("b", "fd00::3")),
		slice("x", discoveryv1.AddressTypeIPv4, with(pod("c", "10.0.0.4"), func(e *discoveryv1.Endpoint) { e.Conditions.Terminating = ptr.To(true) })),
	}
	want := urls(self, list...)
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		shuffled := slices.Clone(list)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if got := urls(self, shuffled...); got != want {
			t.Fatalf("seed %d: got %s, want %s", seed, got, want)
		}
	}
}

func TestTheSetIsBounded(t *testing.T) {
	s := v4()
	for i := range MaxPeers + 5 {
		s.Endpoints = append(s.Endpoints, pod(fmt.Sprint("p", i), fmt.Sprintf("10.1.%d.%d", i/250, i%250)))
	}
	if got := len(extract([]*discoveryv1.EndpointSlice{s}, me, PortName)); got != MaxPeers {
		t.Fatalf("got %d peers, want %d", got, MaxPeers)
	}
}

func TestStaticPeersMustNameAnAdminListener(t *testing.T) {
	for raw, want := range map[string]string{
		"http://10.0.0.2:9400": "http://10.0.0.2:9400", "http://Router-B:9400/": "http://router-b:9400", "https://[fd00::2]:9400": "https://[fd00::2]:9400",
	} {
		p, err := ParseStatic(raw)
		if err != nil || p.URL != want || p.ID != want || p.UID != "" {
			t.Errorf("%s: got %+v, %v", raw, p, err)
		}
	}
	for _, raw := range []string{"", "10.0.0.2:9400", "ftp://a:1", "http://:9400", "http://a", "http://a:1/path", "http://u:p@a:1", "http://a:1?x=y", "http://a:1#f", "http://\x7f"} {
		if p, err := ParseStatic(raw); err == nil {
			t.Errorf("%q was taken as %+v", raw, p)
		}
	}
}

func TestAReplicaThatIsNamedAmongItsPeersLeavesItselfOut(t *testing.T) {
	var list []Peer
	for _, raw := range []string{"http://10.0.0.1:9400", "http://10.0.0.2:9400", "http://10.0.0.2:9400", "http://127.0.0.1:9400", "http://127.0.0.1:9401", "http://localhost:9400"} {
		p, err := ParseStatic(raw)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	var got []string
	for _, p := range Others(list, Self{IP: "10.0.0.1", Host: "0.0.0.0", Port: 9400}) {
		got = append(got, p.URL)
	}
	expect(t, fmt.Sprint(got), "[http://10.0.0.2:9400 http://127.0.0.1:9401]")
	if !(Self{Port: 1}).Here("192.0.2.7", "1", []net.Addr{&net.IPNet{IP: net.IPv4(192, 0, 2, 7).To4(), Mask: net.CIDRMask(24, 32)}}) {
		t.Error("an address of an own interface was not recognized")
	}
}
