// SPDX-License-Identifier: Apache-2.0

package fabricport

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"causeway/ibside"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/messages"
	"causeway/ibside/multicast"
	"causeway/ibside/sa"
)

// Port joins rings to an HCA: each worker has queue pairs of its own, which share a receive queue of its own. Its
// methods may be called from any goroutine.
type Port struct {
	*services
	ibside.Administered // the administration's
	*messages.Messenger

	name           string // for the log
	rings          *Rings
	hca            *fabric.HCA
	cm             *fabric.CM
	administration *sa.Administration
	groups         *multicast.Groups
	log            *slog.Logger
	owned          *fabric.Fabric // nil: the subnet is the caller's

	workers []*workerSide
	stop    context.CancelFunc // of the pumps
	ended   sync.WaitGroup

	mu     sync.RWMutex
	qps    map[uint32]handle
	lastQP uint32

	entitled atomic.Pointer[func() bool] // see SendWhile

	posted    atomic.Uint64
	sent      atomic.Uint64
	delivered atomic.Uint64
	notSent   counter
	dropped   counter
}

// handle is a queue pair by the number that a worker knows it by. Numbers are never used twice: a late send cannot meet
// another queue pair.
type handle struct {
	qp     *fabric.QP
	worker int
	groups bool // it receives groups; else it is a proxy QP
}

// newPort starts to move messages. The rings and the HCA stay the caller's on an error only. A pkey of zero is the
// port's first.
func newPort(name string, r *Rings, h *fabric.HCA, pkey ib.PKey, log *slog.Logger) (*Port, error) {
	p := &Port{name: name, rings: r, hca: h, log: log, qps: map[uint32]handle{}}
	if pkey != 0 {
		if _, err := p.indexOf(pkey); err != nil {
			return nil, err
		}
	}
	if err := p.openWorkers(); err != nil {
		return nil, err
	}
	p.groups = multicast.New(multicast.Config{
		Create: p.createGroupQP, MTU: func() ib.MTU { return h.Info().MTU }, Mbps: fabric.PortRate.Mbps,
		PerQP: math.MaxInt, Log: log,
	})
	p.cm = fabric.NewCM(h, fabric.CMConfig{})
	p.services = &services{p.cm, p.Path}
	client := sa.NewClient(fabric.NewMADPort(h, ib.ClassSA), sa.Config{})
	p.administration = sa.NewAdministration(client, p.groups.Renew, sa.RegistrarConfig{}, log)
	p.Administered = p.administration
	p.Messenger = messages.New(messages.Config{
		Open: func() (messages.Transport, error) { return fabric.NewMADPort(h, ib.ClassBridge), nil },
		Path: p.administration.Path, News: p.administration.Added,
	})
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.ended.Go(func() { p.followLink(ctx) })
	for _, w := range p.workers {
		p.ended.Go(func() { p.pumpSends(ctx, w) })
		p.ended.Go(func() { p.pumpReceives(ctx, w) })
	}
	return p, nil
}

// openWorkers makes the port's sides of the workers. On an error none is left.
func (p *Port) openWorkers() error {
	for id := range p.rings.Workers() {
		posted, err := p.rings.posted(id)
		if err != nil {
			p.closeWorkers()
			return err
		}
		p.workers = append(p.workers, &workerSide{id: id, recv: fabric.NewRecvQueue(receiveBuffers), posted: posted})
	}
	return nil
}

func (p *Port) closeWorkers() {
	for _, w := range p.workers {
		w.posted.Close()
	}
}

// indexOf returns the index of a P_Key.
func (p *Port) indexOf(pkey ib.PKey) (uint16, error) {
	pkeys := p.hca.Info().PKeys
	index := slices.Index(pkeys, pkey)
	if index < 0 {
		return 0, fmt.Errorf("fabricport: the port has no P_Key %v, only %v", pkey, pkeys)
	}
	return uint16(index), nil
}

// Info implements ibside.OpenPort.
func (p *Port) Info() ibside.Info {
	return ibside.Info{MTU: p.hca.Info().MTU, Down: p.hca.Down()}
}

// Own implements ibside.Port. A port of the software subnet has one GID.
func (p *Port) Own() ibside.Own {
	i := p.hca.Info()
	return ibside.Own{LID: i.LID, LMC: i.LMC, GIDs: []ib.GID{i.GID}, Sources: []ibside.Source{{GID: i.GID}}, PKeys: i.PKeys}
}

// LostByDevice implements ibside.OpenPort. There is no device, and a QPN comes back only after all others.
func (p *Port) LostByDevice() map[string]uint64 { return map[string]uint64{"qpn_rest_cut": 0} }

// CreateProxyQP implements ibside.Port. Only that worker may send from the queue pair.
func (p *Port) CreateProxyQP(worker int, pkey ib.PKey, qkey ib.QKey) (qp uint32, qpn ib.QPN, err error) {
	if worker < 0 || worker >= len(p.workers) {
		return 0, 0, fmt.Errorf("fabricport: proxy QP for worker %d; there are %d", worker, len(p.workers))
	}
	number, q, err := p.createQP(worker, pkey, qkey, false)
	if err != nil {
		return 0, 0, err
	}
	return number, q.QPN(), nil
}

func (p *Port) createQP(worker int, pkey ib.PKey, qkey ib.QKey, groups bool) (uint32, *fabric.QP, error) {
	index, err := p.indexOf(pkey)
	if err != nil {
		return 0, nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	q, err := p.hca.CreateQP(fabric.QPConfig{QKey: qkey, PKeyIndex: index, Recv: p.workers[worker].recv})
	if err != nil {
		return 0, nil, err
	}
	p.lastQP++
	p.qps[p.lastQP] = handle{q, worker, groups}
	return p.lastQP, q, nil
}

// DestroyProxyQP implements ibside.Port. What a worker still posts for it is dropped.
func (p *Port) DestroyProxyQP(qp uint32) error {
	if !p.destroyQP(qp, false) {
		return fmt.Errorf("fabricport: there is no proxy QP with handle %d", qp)
	}
	return nil
}

// destroyQP reports whether there was such a queue pair.
func (p *Port) destroyQP(qp uint32, groups bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, ok := p.qps[qp]
	if !ok || h.groups != groups {
		return false
	}
	delete(p.qps, qp)
	h.qp.Destroy()
	return true
}

// groupQP is a queue pair that receives groups.
type groupQP struct {
	port   *Port
	handle uint32
	qp     *fabric.QP
}

func (p *Port) createGroupQP(k multicast.Key) (multicast.QP, error) {
	number, q, err := p.createQP(k.Worker, k.PKey, k.QKey, true)
	if err != nil {
		return nil, err
	}
	return groupQP{p, number, q}, nil
}

func (q groupQP) Attach(mgid ib.GID, _ ib.LID) error { return q.qp.AttachMulticast(mgid) }

func (q groupQP) Detach(mgid ib.GID, _ ib.LID) error {
	q.qp.DetachMulticast(mgid)
	return nil
}

func (q groupQP) Destroy() error {
	q.port.destroyQP(q.handle, true)
	return nil
}

// Join implements ibside.Port. It may be called again, to change the membership or to repeat it.
func (p *Port) Join(ctx context.Context, j ibside.Join) (ibside.Membership, error) {
	if j.Worker < 0 || j.Worker >= len(p.workers) {
		return ibside.Membership{}, fmt.Errorf("fabricport: join %v: worker %d; there are %d", j.MGID, j.Worker, len(p.workers))
	}
	if _, err := p.indexOf(j.PKey); err != nil {
		return ibside.Membership{}, fmt.Errorf("join %v: %w", j.MGID, err)
	}
	return p.groups.Join(ctx, p.administration, j)
}

// Leave implements ibside.Port.
func (p *Port) Leave(ctx context.Context, mgid ib.GID) error {
	return p.groups.Leave(ctx, p.administration, mgid)
}

// Path implements ibside.Port.
func (p *Port) Path(ctx context.Context, dgid ib.GID, pkey ib.PKey) (ibside.Path, error) {
	path, err := p.administration.Path(ctx, dgid, pkey)
	path.Rate = path.Rate.Static(fabric.PortRate.Mbps())
	return path, err
}
