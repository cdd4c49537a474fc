// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/manage"
)

// worker is a manage.Worker without a lcore.
type worker struct {
	mu     sync.Mutex
	punted []manage.Punted
	sent   [][]byte
	ports  []uint8               // by which these went
	told   [][]byte              // frames sent to announce addresses
	full   bool                  // Send fails
	ready  chan struct{}         // tells the loop of what is punted; nil: it looks
	more   func() *manage.Punted // returns punted frames without end
	slow   atomic.Int64          // nanoseconds that the loop has to wait for a CPU before it takes some
}

const burst = 64

func (w *worker) TakePunted() []manage.Punted {
	pass(&seen)
	if d := w.slow.Load(); d > 0 {
		time.Sleep(time.Duration(d))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.more != nil && len(w.punted) < burst {
		o := w.more()
		if o == nil {
			break
		}
		w.punted = append(w.punted, *o)
	}
	n := min(len(w.punted), burst)
	out := w.punted[:n:n]
	w.punted = w.punted[n:]
	return out
}

func (w *worker) Send(port uint8, frame []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full {
		return errors.New("the ring is full")
	}
	to := &w.sent
	if announces(frame) {
		to = &w.told
	} else {
		w.ports = append(w.ports, port)
	}
	*to = append(*to, append([]byte(nil), frame...))
	return nil
}

func (w *worker) setFull(full bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.full = full
}

// take takes the frames that have been sent, except announcements.
func (w *worker) take() [][]byte { return w.takeFrom(&w.sent) }

// takePorts takes the ports by which they went.
func (w *worker) takePorts() []uint8 {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.ports
	w.ports = nil
	return out
}

// takeTold takes the announcements.
func (w *worker) takeTold() [][]byte { return w.takeFrom(&w.told) }

func (w *worker) takeFrom(list *[][]byte) [][]byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := *list
	*list = nil
	return out
}

func (w *worker) give(punted ...manage.Punted) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.punted = append(w.punted, punted...)
	w.tell()
}

// tell has the loop take what is punted.
func (w *worker) tell() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// packet is a manage.PendingPacket that remembers its end.
type packet struct {
	mu     sync.Mutex
	worker int
	ends   []string

	partition uint8
}

var rejections = map[manage.Rejection]string{
	manage.RejectFull: "full", manage.RejectSource: "source", manage.RejectStopped: "stopped", manage.RejectDenied: "denied",
	manage.RejectBusy: "busy",
}

func (p *packet) Worker() int                 { return p.worker }
func (p *packet) Partition() uint8            { return p.partition }
func (p *packet) Requeue()                    { p.end("requeued") }
func (p *packet) Reject(why manage.Rejection) { p.end(rejections[why]) }

func (p *packet) end(how string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends = append(p.ends, how)
}

// ended returns how it ended; "" while it has not, and none of the ends when it ended twice.
func (p *packet) ended() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := ""
	for _, e := range p.ends {
		out += e
	}
	return out
}

// ibPort is an ibside.Port without a subnet.
type ibPort struct {
	mu        sync.Mutex
	nextQP    uint32
	proxyQPs  map[uint32]int // by handle: the worker
	qpn       func(qp uint32) ib.QPN
	createErr error
	creating  time.Duration  // how long it takes
	joins     map[ib.GID]int // tries
	joined    map[ib.GID]ibside.Join
	leaves    []ib.GID
	join      func(ctx context.Context, j ibside.Join, try int) error
	path      func(ctx context.Context, dgid ib.GID, try int) error
	paths     map[ib.GID]int // tries
	mlids     ib.LID
	leave     func()
	leaveErr  error
	leaving   int // under way
	busy      int // calls under way
	own       ibside.Own
	pkeys     []ib.PKey // nil: those that tests need
	busiest   int
	subnet    fakeSubnet
}

func newPort() *ibPort {
	return &ibPort{
		proxyQPs: map[uint32]int{}, joins: map[ib.GID]int{}, joined: map[ib.GID]ibside.Join{}, paths: map[ib.GID]int{},
		qpn:   func(qp uint32) ib.QPN { return ib.QPN(0x1000 + qp) },
		join:  func(context.Context, ibside.Join, int) error { return nil },
		path:  func(context.Context, ib.GID, int) error { return nil },
		leave: func() {},
	}
}

func (p *ibPort) CreateProxyQP(worker int, _ ib.PKey, _ ib.QKey) (uint32, ib.QPN, error) {
	time.Sleep(p.creating)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.createErr != nil {
		return 0, 0, p.createErr
	}
	p.nextQP++
	p.proxyQPs[p.nextQP] = worker
	return p.nextQP, p.qpn(p.nextQP), nil
}

func (p *ibPort) DestroyProxyQP(qp uint32) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.proxyQPs[qp]; !ok {
		return errors.New("no such proxy QP")
	}
	delete(p.proxyQPs, qp)
	return nil
}

func (p *ibPort) enter(change int) {
	p.busy += change
	p.busiest = max(p.busiest, p.busy)
}

func (p *ibPort) Join(ctx context.Context, j ibside.Join) (ibside.Membership, error) {
	p.mu.Lock()
	p.joins[j.MGID]++
	try := p.joins[j.MGID]
	p.enter(1)
	p.mu.Unlock()
	err := p.join(ctx, j, try)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.enter(-1)
	if err != nil {
		return ibside.Membership{}, err
	}
	p.joined[j.MGID] = j
	return ibside.Membership{MLID: max(p.mlids, 0xc000) + ib.LID(len(p.joined)), SL: 2, QKey: j.QKey, MTU: 4}, nil
}

func (p *ibPort) Leave(_ context.Context, mgid ib.GID) error {
	p.mu.Lock()
	p.leaving++
	p.mu.Unlock()
	p.leave()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaving--
	p.leaves = append(p.leaves, mgid)
	delete(p.joined, mgid)
	return p.leaveErr
}

func (p *ibPort) Path(ctx context.Context, dgid ib.GID, _ ib.PKey) (ibside.Path, error) {
	p.mu.Lock()
	p.paths[dgid]++
	try := p.paths[dgid]
	p.enter(1)
	p.mu.Unlock()
	err := p.path(ctx, dgid, try)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.enter(-1)
	return ibside.Path{LID: max(7, p.subnet.lid), SL: 1}, err
}

func (p *ibPort) Own() ibside.Own {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.own
	if own.PKeys = p.pkeys; own.PKeys == nil {
		own.PKeys = []ib.PKey{ib.PKeyDefault, 0x8001}
	}
	return own
}

func (p *ibPort) setOwn(own ibside.Own) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.own = own
}

func (p *ibPort) open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.proxyQPs)
}
