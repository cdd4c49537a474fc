// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/sa"
)

// A fabricEndpoint is a node of a bridge's software subnet, which is in another process.
type fabricEndpoint struct {
	self   Info
	socket string
	hca    *fabric.HCA
	sa     *sa.Client
	qp     *fabric.QP
	recv   *fabric.RecvQueue
	info   fabric.PortInfo
	qkey   ib.QKey
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	once   sync.Once
	sent   atomic.Bool

	mu    sync.Mutex
	joins []membership
}

// A membership is left when the endpoint closes.
type membership struct {
	mgid  ib.GID
	state uint8
}

const (
	fabricBuffers = 1 << 14 // messages queued for the receiver
	fabricBurst   = 64
	answerWithin  = 5 * time.Second // timeout of the subnet administrator
	stay          = 500 * time.Millisecond
)

func openFabric(socket string, c Config) (Endpoint, error) {
	if c.GUID == 0 {
		c.GUID = ib.GUID(0x02_00_00_00_00_00_00_00 | rand.Uint64()>>8) // locally administered
	}
	if c.Name == "" {
		c.Name = fmt.Sprintf("traffic-%d", os.Getpid())
	}
	port, err := fabric.Dial(socket, c.GUID, c.Name)
	if err != nil {
		return nil, err
	}
	e := &fabricEndpoint{socket: socket, hca: fabric.NewHCA(port), recv: fabric.NewRecvQueue(fabricBuffers), info: port.Info(), qkey: c.QKey}
	e.sa = fabric.NewSAClient(e.hca)
	if e.qp, err = e.hca.CreateQP(fabric.QPConfig{QPN: c.QPN, QKey: c.QKey, Recv: e.recv}); err != nil {
		return nil, errors.Join(err, e.hca.Close())
	}
	e.self = Info{
		On: c.On, GID: e.info.GID.String(), LID: e.info.LID, QPN: e.qp.QPN(), QKey: c.QKey, MTU: e.info.MTU.Bytes(),
		larger: "mtu in the software subnet's file",
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	e.tasks.Go(func() { e.receive(ctx, c.OnMessage) })
	return e, nil
}

func (e *fabricEndpoint) Info() Info            { return e.self }
func (e *fabricEndpoint) Done() <-chan struct{} { return e.hca.Gone() }

func (e *fabricEndpoint) receive(ctx context.Context, each func(*Message)) {
	var burst [fabricBurst]fabric.Received
	own := netip.AddrFrom16(e.info.GID)
	for e.recv.Wait(ctx) == nil {
		n := e.recv.Poll(burst[:])
		now := time.Now()
		for i := range burst[:n] {
			r := &burst[i]
			m := Message{At: now, SrcQP: r.SrcQP, To: own, Payload: r.Payload, lid: r.SLID, sl: r.SL}
			if grh, ok := ib.AsGRH(r.GRH[:]); ok && r.HasGRH {
				m.From, m.To = netip.AddrFrom16(grh.SGID()), netip.AddrFrom16(grh.DGID())
			}
			each(&m)
		}
	}
}

func (e *fabricEndpoint) Join(ctx context.Context, g Group, receive bool) (Destination, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	mgid, qkey, err := g.mgid(e.info.PKeys[0])
	if err != nil {
		return nil, err
	}
	state := uint8(ib.JoinFull)
	if !receive {
		state = ib.JoinSendOnlyFull
	}
	record, err := e.sa.Join(ctx, ib.MCMemberFields{MGID: mgid, QKey: qkey, PKey: e.info.PKeys[0], JoinState: state})
	if err != nil {
		return nil, fmt.Errorf("group %v on %s, with Q_Key %v: %w", g.Addr, e.self.On, qkey, err)
	}
	e.mu.Lock()
	e.joins = append(e.joins, membership{record.MGID, state})
	e.mu.Unlock()
	qp := e.qp
	if receive {
		if record.QKey != e.qkey { // a queue pair has one Q_Key
			if qp, err = e.hca.CreateQP(fabric.QPConfig{QKey: record.QKey, Recv: e.recv}); err != nil {
				return nil, err
			}
		}
		if err := qp.AttachMulticast(record.MGID); err != nil {
			return nil, err
		}
	}
	return &fabricDestination{e: e, name: fmt.Sprintf("%v (MGID %v, MLID %v, Q_Key %v)", g.Addr, mgid, record.MLID, record.QKey),
		s: fabric.Send{
			AH: fabric.AH{DLID: record.MLID, SL: record.SL, GRH: &ib.GRHFields{
				DGID: record.MGID, TClass: record.TClass, FlowLabel: record.FlowLabel, HopLimit: record.HopLimit,
			}},
			DestQP: ib.QPMulticast, QKey: record.QKey,
		}}, nil
}

func (e *fabricEndpoint) Resolve(ctx context.Context, to netip.Addr, qpn ib.QPN) (Destination, error) {
	if to.Is4() {
		return nil, fmt.Errorf("%v is an IP address, and %s has GIDs: name a node's port by its GID, as \"causeway listen\" prints it there; "+
			"a RoCE host's queue pair has a number here only once it has sent something: use -to caller, and listen -call there", to, e.self.On)
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	gid := ib.GIDFromAddr(to)
	path, err := e.sa.Path(ctx, gid)
	if err != nil {
		return nil, fmt.Errorf("GID %v on %s: %w; is there a port with this GID?", to, e.self.On, err)
	}
	return &fabricDestination{e: e, name: fmt.Sprintf("%v QPN %v (LID %v)", to, qpn, path.DLID), s: fabric.Send{
		AH: fabric.AH{DLID: path.DLID, SL: path.SL, GRH: &ib.GRHFields{
			DGID: gid, TClass: path.TClass, FlowLabel: path.FlowLabel, HopLimit: max(path.HopLimit, 1),
		}},
		DestQP: qpn, QKey: e.qkey,
	}}, nil
}

func (e *fabricEndpoint) ReplyTo(m *Message) Destination {
	ah := fabric.AH{DLID: m.lid, SL: m.sl}
	name := fmt.Sprintf("LID %v QPN %v", m.lid, m.SrcQP)
	if m.From.IsValid() {
		ah.GRH = &ib.GRHFields{DGID: ib.GIDFromAddr(m.From), HopLimit: 64}
		name = fmt.Sprintf("%v QPN %v (LID %v)", m.From, m.SrcQP, m.lid)
	}
	return &fabricDestination{e: e, name: name, s: fabric.Send{AH: ah, DestQP: m.SrcQP, QKey: e.qkey}}
}

func (e *fabricEndpoint) Rejected() map[string]uint64 { return e.hca.Stats().Drops }

// Close leaves the groups; if the subnet does not answer, closing the port ends all memberships. Once the administrator
// has answered any query, all messages sent before have arrived at the subnet. Who has sent stays a moment longer, as a host's
// port outlives its programs: when the port has gone, what a bridge has not taken yet comes from nobody.
func (e *fabricEndpoint) Close() (err error) {
	e.once.Do(func() { err = e.close() })
	return err
}

func (e *fabricEndpoint) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	e.mu.Lock()
	joins := e.joins
	e.mu.Unlock()
	if len(joins) == 0 {
		_, _ = e.sa.Path(ctx, e.info.GID)
	}
	for _, j := range joins {
		if err := e.sa.Leave(ctx, j.mgid, ib.GID{}, j.state); err != nil {
			break
		}
	}
	if e.sent.Load() {
		select {
		case <-time.After(stay):
		case <-e.hca.Gone():
		}
	}
	e.cancel()
	e.tasks.Wait()
	return e.hca.Close()
}

type fabricDestination struct {
	e    *fabricEndpoint
	name string
	s    fabric.Send
}

func (w *fabricDestination) String() string { return w.name }

func (w *fabricDestination) Send(payload []byte) error {
	s := w.s
	s.Payload = payload
	w.e.sent.Store(true)
	switch why := w.e.qp.Send(&s); why {
	case "":
		return nil
	case fabric.DropPortClosed:
		return fmt.Errorf("the subnet at %s has gone", w.e.socket)
	default:
		return fmt.Errorf("%s: to %s: not sent: %s", w.e.self.On, w.name, why)
	}
}
