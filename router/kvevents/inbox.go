package kvevents

import (
	"context"
	"errors"
	"sync"

	"github.com/routerfleet/routerfleet/router/index"
)

// ErrLaneClosed says that nobody takes this rank's deliveries any more.
var ErrLaneClosed = errors.New("kvevents: the rank's lane is closed")

// Inbox collects the deliveries of all ranks for the one goroutine that takes them. Each rank has a Lane of its own in it,
// with its own bounds.
type Inbox struct {
	budget *Budget
	ready  chan struct{}

	mu    sync.Mutex // guards turns and every lane's contents
	turns turns
}

// turns are the lanes that hold something, in the order they are served: a list through the lanes.
type turns struct{ first, last *Lane }

func (t *turns) append(l *Lane) {
	if t.last == nil {
		t.first, t.last = l, l
		return
	}
	t.last.after = l
	t.last = l
}

func (t *turns) pop() *Lane {
	l := t.first
	t.first, l.after = l.after, nil
	if t.first == nil {
		t.last = nil
	}
	return l
}

func (t *turns) remove(gone *Lane) {
	all := *t
	*t = turns{}
	for all.first != nil {
		if l := all.pop(); l != gone {
			t.append(l)
		}
	}
}

// NewInbox gives an inbox whose batches count towards a budget.
func NewInbox(budget *Budget) *Inbox {
	return &Inbox{budget: budget, ready: make(chan struct{}, 1)}
}

// Budget is the budget the inbox's batches count towards.
func (i *Inbox) Budget() *Budget { return i.budget }

// Ready has a value when there is something to take. It may have one when there is not.
func (i *Inbox) Ready() <-chan struct{} { return i.ready }

// Take gives the next delivery, lanes in turn, and false if there is none. Its batch is the caller's.
func (i *Inbox) Take() (Delivery, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.turns.first == nil {
		return Delivery{}, false
	}
	l := i.turns.pop()
	d := l.pop()
	if l.held > 0 {
		i.turns.append(l)
	}
	if i.turns.first != nil {
		i.signal()
	}
	return d, true
}

func (i *Inbox) signal() {
	select {
	case i.ready <- struct{}{}:
	default:
	}
}

// Lane is a rank's queue in an inbox: at most LaneBatches deliveries and LaneBytes of batches (one batch fits always). It
// has one sender.
type Lane struct {
	inbox *Inbox
	rank  index.Rank

	// The inbox's mutex guards these.
	ring   []Delivery // held deliveries from next on, wrapping
	next   int
	held   int
	bytes  int64
	stalls uint64
	closed bool
	after  *Lane // in the inbox's turns

	room chan struct{} // has a value when the sender may look again
	done chan struct{} // closed by Close
}

// Lane gives a rank's lane. The same rank asked twice has two.
func (i *Inbox) Lane(r index.Rank) *Lane {
	return &Lane{inbox: i, rank: r, room: make(chan struct{}, 1), done: make(chan struct{})}
}

// Deliver puts a delivery at the end and waits while the lane or the budget is full.
func (l *Lane) Deliver(ctx context.Context, d Delivery) error {
	d.Rank = l.rank
	size, stalled := int64(0), false
	if d.Batch != nil {
		size = d.Batch.Bytes()
	}
	for !l.fits(size) {
		if !stalled {
			stalled = true
			l.stall()
		}
		select {
		case <-l.room:
		case <-l.done:
			return ErrLaneClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if d.Batch != nil && !l.inbox.budget.tryCharge(d.Batch) {
		if !stalled {
			l.stall()
		}
		if err := l.inbox.budget.charge(ctx, d.Batch); err != nil {
			return err
		}
	}
	return l.push(d)
}

// fits tells whether there is room for one more delivery. Only the one sender adds, so it stays.
func (l *Lane) fits(size int64) bool {
	l.inbox.mu.Lock()
	defer l.inbox.mu.Unlock()
	return l.closed || l.held == 0 || (l.held < LaneBatches && l.bytes+size <= LaneBytes)
}

func (l *Lane) stall() {
	l.inbox.mu.Lock()
	defer l.inbox.mu.Unlock()
	l.stalls++
}

func (l *Lane) push(d Delivery) error {
	l.inbox.mu.Lock()
	defer l.inbox.mu.Unlock()
	if l.closed {
		return ErrLaneClosed
	}
	if l.held == len(l.ring) {
		l.grow()
	}
	l.ring[(l.next+l.held)%len(l.ring)] = d
	l.held++
	if d.Batch != nil {
		l.bytes += d.Batch.charged
	}
	if l.held == 1 {
		l.inbox.turns.append(l)
		l.inbox.signal()
	}
	return nil
}

// grow doubles the ring, which starts small: most lanes never hold much.
func (l *Lane) grow() {
	ring := make([]Delivery, max(8, 2*len(l.ring)))
	for n := range l.held {
		ring[n] = l.ring[(l.next+n)%len(l.ring)]
	}
	l.ring, l.next = ring, 0
}

func (l *Lane) pop() Delivery {
	d := l.ring[l.next]
	l.ring[l.next] = Delivery{}
	l.next = (l.next + 1) % len(l.ring)
	l.held--
	if d.Batch != nil {
		l.bytes -= d.Batch.charged
	}
	select {
	case l.room <- struct{}{}:
	default:
	}
	return d
}

// Close releases what the lane holds and ends its sender's waiting. Nothing of it is taken any more.
func (l *Lane) Close() {
	l.inbox.mu.Lock()
	defer l.inbox.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	close(l.done)
	for l.held > 0 {
		if d := l.pop(); d.Batch != nil {
			d.Batch.Release()
		}
	}
	l.inbox.turns.remove(l)
}

// Held is what the lane holds now, and how often its sender had to wait.
func (l *Lane) Held() (deliveries int, bytes int64, stalls uint64) {
	l.inbox.mu.Lock()
	defer l.inbox.mu.Unlock()
	return l.held, l.bytes, l.stalls
}
