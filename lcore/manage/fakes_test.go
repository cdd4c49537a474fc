// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"errors"
	"sync"

	"causeway/ibside/ib"
	"causeway/lcore/manage"
)

// worker is a manage.Worker without a lcore.
type worker struct {
	mu   sync.Mutex
	odd  []manage.Odd
	sent [][]byte
	told [][]byte           // sent to announce addresses
	full bool               // it takes nothing to send
	more func() *manage.Odd // what comes without end
}

const burst = 64

func (w *worker) TakeOdd() []manage.Odd {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.more != nil && len(w.odd) < burst {
		o := w.more()
		if o == nil {
			break
		}
		w.odd = append(w.odd, *o)
	}
	n := min(len(w.odd), burst)
	out := w.odd[:n:n]
	w.odd = w.odd[n:]
	return out
}

func (w *worker) Send(frame []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full {
		return errors.New("the ring is full")
	}
	to := &w.sent
	if announces(frame) {
		to = &w.told
	}
	*to = append(*to, append([]byte(nil), frame...))
	return nil
}

func (w *worker) setFull(full bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.full = full
}

// take takes what has been sent, but for announcements.
func (w *worker) take() [][]byte { return w.takeFrom(&w.sent) }

// takeTold takes the announcements.
func (w *worker) takeTold() [][]byte { return w.takeFrom(&w.told) }

func (w *worker) takeFrom(list *[][]byte) [][]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := *list
	*list = nil
	return out
}

func (w *worker) give(odd ...manage.Odd) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.odd = append(w.odd, odd...)
}

// held is a manage.Held that remembers its end.
type held struct {
	mu     sync.Mutex
	worker int
	ends   []string
}

var refusals = map[manage.Refusal]string{
	manage.RefuseFull: "full", manage.RefuseSource: "source", manage.RefuseStopped: "stopped", manage.RefuseDenied: "denied",
}

func (h *held) Worker() int               { return h.worker }
func (h *held) Again()                    { h.end("again") }
func (h *held) Refuse(why manage.Refusal) { h.end(refusals[why]) }

func (h *held) end(how string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ends = append(h.ends, how)
}

// ended returns how it ended; "" while it has not, and something else than any end when it did twice.
func (h *held) ended() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := ""
	for _, e := range h.ends {
		out += e
	}
	return out
}

// door is a manage.IBDoor in front of nothing.
type door struct {
	mu        sync.Mutex
	nextQP    uint32
	standIns  map[uint32]int // by handle: whose worker's
	qpn       func(qp uint32) ib.QPN
	createErr error
	joins     map[ib.GID]int // tries
	joined    map[ib.GID]manage.Join
	leaves    []ib.GID
	join      func(ctx context.Context, j manage.Join, try int) error
	path      func(ctx context.Context, dgid ib.GID, try int) error
	paths     map[ib.GID]int // tries
	mlids     ib.LID
	leave     func()
	leaveErr  error
	leaving   int // under way
	busy      int // calls under way
	own       manage.Own
	busiest   int
	subnet    fakeSubnet
}

func newDoor() *door {
	return &door{
		standIns: map[uint32]int{}, joins: map[ib.GID]int{}, joined: map[ib.GID]manage.Join{}, paths: map[ib.GID]int{},
		qpn:   func(qp uint32) ib.QPN { return ib.QPN(0x1000 + qp) },
		join:  func(context.Context, manage.Join, int) error { return nil },
		path:  func(context.Context, ib.GID, int) error { return nil },
		leave: func() {},
	}
}

func (d *door) CreateStandIn(worker int, _ ib.QKey) (uint32, ib.QPN, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.createErr != nil {
		return 0, 0, d.createErr
	}
	d.nextQP++
	d.standIns[d.nextQP] = worker
	return d.nextQP, d.qpn(d.nextQP), nil
}

func (d *door) DestroyStandIn(qp uint32) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.standIns[qp]; !ok {
		return errors.New("no such stand-in")
	}
	delete(d.standIns, qp)
	return nil
}

func (d *door) enter(change int) {
	d.busy += change
	d.busiest = max(d.busiest, d.busy)
}

func (d *door) Join(ctx context.Context, j manage.Join) (manage.Membership, error) {
	d.mu.Lock()
	d.joins[j.MGID]++
	try := d.joins[j.MGID]
	d.enter(1)
	d.mu.Unlock()
	err := d.join(ctx, j, try)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.enter(-1)
	if err != nil {
		return manage.Membership{}, err
	}
	d.joined[j.MGID] = j
	return manage.Membership{MLID: max(d.mlids, 0xc000) + ib.LID(len(d.joined)), SL: 2, QKey: j.QKey, MTU: 4}, nil
}

// setMLIDs has further joins granted MLIDs from that one on.
func (d *door) setMLIDs(from ib.LID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mlids = from
}

func (d *door) Leave(_ context.Context, mgid ib.GID) error {
	d.mu.Lock()
	d.leaving++
	d.mu.Unlock()
	d.leave()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leaving--
	d.leaves = append(d.leaves, mgid)
	delete(d.joined, mgid)
	return d.leaveErr
}

func (d *door) Path(ctx context.Context, dgid ib.GID) (ib.LID, ib.SL, error) {
	d.mu.Lock()
	d.paths[dgid]++
	try := d.paths[dgid]
	d.enter(1)
	d.mu.Unlock()
	err := d.path(ctx, dgid, try)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.enter(-1)
	return max(7, d.subnet.lid), 1, err
}

func (d *door) Own() manage.Own {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.own
}

func (d *door) setOwn(own manage.Own) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.own = own
}

func (d *door) open() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.standIns)
}
