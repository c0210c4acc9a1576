package controllers

import (
	"maps"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/internal/signed"
)

// page is what is remembered of one fleet between reconciles. All of it may be lost: then a request is made once more,
// a clock starts anew, or an event is told twice.
type page struct {
	uid types.UID // another uid is another fleet of the same name

	// status and version are the last status written and the fleet's resourceVersion after it. The cache may show an
	// older one for a while; without this the same transition would be written twice.
	status  *v1alpha1.RouterFleetStatus
	version string

	workersWritten time.Time // when status.workers last changed

	keys     []signed.Key // peer keys of the tokens Secret
	keysRead time.Time

	warned map[string]bool // warnings already told by an event
}

// notebook holds the pages by fleet. It is safe for concurrent use; a page is copied in and out.
type notebook struct {
	mu    sync.Mutex
	pages map[types.NamespacedName]page
}

func newNotebook() *notebook { return &notebook{pages: map[types.NamespacedName]page{}} }

func (n *notebook) read(f *v1alpha1.RouterFleet) page {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.pages[keyOf(f)]
	if p.uid != f.UID {
		return page{uid: f.UID}
	}
	p.warned = maps.Clone(p.warned)
	return p
}

func (n *notebook) write(f *v1alpha1.RouterFleet, change func(*page)) {
	p := n.read(f)
	change(&p)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pages[keyOf(f)] = p
}

func (n *notebook) forget(name types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.pages, name)
}

func keyOf(f *v1alpha1.RouterFleet) types.NamespacedName {
	return types.NamespacedName{Namespace: f.Namespace, Name: f.Name}
}

// older tells whether a resourceVersion is known to be older than another. Versions of one resource are comparable
// numbers since Kubernetes 1.35; anything else says no.
func older(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x < y
}
