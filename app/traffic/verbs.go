// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"causeway/ibside/ib"
	"causeway/ibside/sa"
	"causeway/ibside/verbs"
	"causeway/lcore/frame"
)

// A verbsEndpoint is a UD queue pair of an RDMA device, by libibverbs. On Ethernet the kernel joins groups; on
// InfiniBand the subnet administrator does, by /dev/infiniband/umadN.
type verbsEndpoint struct {
	self   Info
	ud     *verbs.UD
	port   verbs.PortInfo
	qkey   ib.QKey
	sa     *sa.Client // InfiniBand
	cancel context.CancelFunc
	done   chan struct{}
	once   sync.Once
	failed error // why it stopped to receive; valid after done

	mu    sync.Mutex
	undo  []func() // leaves the groups
	other uint64   // messages with neither an IPv4 header nor a GRH
}

func openVerbs(name string, c Config) (Endpoint, error) {
	device, number, named := strings.Cut(name, ":")
	port := 1
	if named {
		n, err := strconv.ParseUint(number, 10, 8)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("-on %s: %q is no port number; they count from 1", c.On, number)
		}
		port = int(n)
	}
	if c.QPN != 0 {
		return nil, fmt.Errorf("-on %s: the device chooses its queue pairs' numbers; leave the QPN out", c.On)
	}
	ud, err := verbs.OpenUD(device, port, c.QKey)
	if err != nil {
		return nil, err
	}
	e := &verbsEndpoint{ud: ud, port: ud.Info(), qkey: c.QKey, done: make(chan struct{})}
	if !e.port.Ethernet {
		umad, err := sa.OpenUmad(device, port)
		if err != nil {
			return nil, errors.Join(err, ud.Close())
		}
		e.sa = sa.NewClient(umad, sa.Config{})
	}
	e.self = Info{On: c.On, LID: e.port.LID, QPN: ud.QPN(), QKey: c.QKey, MTU: e.port.MTU.Bytes(), larger: "a larger MTU of the port"}
	for _, g := range e.port.GIDs {
		if a := netip.AddrFrom16(g.GID); e.port.Ethernet && g.Type == verbs.GIDTypeRoCEv2 && !a.IsLinkLocalUnicast() {
			e.self.IP = append(e.self.IP, a.Unmap().String())
		} else if !e.port.Ethernet && e.self.GID == "" {
			e.self.GID = g.GID.String()
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	go func() {
		defer close(e.done)
		e.failed = ud.Receive(ctx, func(m *verbs.UDMessage) { e.message(m, c.OnMessage) })
	}()
	return e, nil
}

func (e *verbsEndpoint) Info() Info            { return e.self }
func (e *verbsEndpoint) Done() <-chan struct{} { return e.done }

// message passes a message on.
func (e *verbsEndpoint) message(r *verbs.UDMessage, each func(*Message)) {
	m := Message{At: time.Now(), SrcQP: r.SrcQP, Payload: r.Payload, lid: r.SLID, sl: r.SL}
	if r.HasGRH {
		from, to, ok := endpointsOf(r.Area[:], e.port.Ethernet)
		if !ok {
			e.mu.Lock()
			e.other++
			e.mu.Unlock()
			return
		}
		m.From, m.To = from, to
	}
	each(&m)
}

// endpointsOf returns the source and destination addresses in the 40 bytes before a message. Where they end with an
// IPv4 header, which its checksum shows, the first 20 are undefined.
func endpointsOf(area []byte, ethernet bool) (from, to netip.Addr, ok bool) {
	const ipv4At = ib.GRHLen - frame.IPv4Len
	if v4, ok := frame.AsIPv4(area[ipv4At:]); ok && ethernet && v4.ChecksumOK() {
		return v4.Src(), v4.Dst(), true
	}
	if grh, ok := ib.AsGRH(area); ok && grh.IPVer() == 6 {
		return grh.SGID().Addr(), grh.DGID().Addr(), true
	}
	return from, to, false
}

func (e *verbsEndpoint) Join(ctx context.Context, g Group, receive bool) (Destination, error) {
	p, qkey, err := e.groupPath(ctx, g, receive)
	if err != nil {
		return nil, err
	}
	if receive && qkey != e.qkey {
		return nil, fmt.Errorf("%s: group %v has Q_Key %v, the queue pair %v, of which it has one; give -qkey %v", e.self.On, g.Addr, qkey, e.qkey, qkey)
	}
	if receive {
		if err := e.ud.Attach(p.DGID, p.DLID); err != nil {
			return nil, err
		}
	}
	return e.destination(fmt.Sprintf("%v (Q_Key %v)", g.Addr, qkey), p, ib.QPMulticast, qkey)
}

// groupPath joins a group and returns the path to it.
func (e *verbsEndpoint) groupPath(ctx context.Context, g Group, receive bool) (p verbs.UDPath, qkey ib.QKey, err error) {
	if e.port.Ethernet {
		if err := g.checkEthernet(e.self.On); err != nil {
			return p, 0, err
		}
		p = verbs.UDPath{DGID: ib.MGIDRoCE(g.Addr), HasGRH: true, HopLimit: 64}
		if receive {
			err = e.joinEthernet(g.Addr, p.DGID)
		}
		return p, g.qkey(ib.GID{}), err
	}
	mgid, qkey, err := g.mgid(e.port.PKeys[0])
	if err != nil {
		return p, 0, err
	}
	state := uint8(ib.JoinFull)
	if !receive {
		state = ib.JoinSendOnlyFull
	}
	r, err := e.sa.Join(ctx, ib.MCMemberFields{MGID: mgid, QKey: qkey, PKey: e.port.PKeys[0], JoinState: state})
	if err != nil {
		return p, 0, fmt.Errorf("group %v on %s, with Q_Key %v: %w", g.Addr, e.self.On, qkey, err)
	}
	e.onClose(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = e.sa.Leave(ctx, r.MGID, ib.GID{}, state) // the subnet drops the membership with the port
	})
	return verbs.UDPath{DGID: r.MGID, HasGRH: true, DLID: r.MLID, SL: r.SL, TClass: r.TClass, FlowLabel: r.FlowLabel,
		HopLimit: max(r.HopLimit, 1), Rate: r.Rate.Static(e.port.Mbps)}, r.QKey, nil
}

// joinEthernet makes the kernel join the group on the device's network interface, so that the switches forward it
// there.
func (e *verbsEndpoint) joinEthernet(group netip.Addr, mgid ib.GID) error {
	source, err := e.ud.Source(mgid)
	if err != nil {
		return err
	}
	link, err := net.InterfaceByIndex(int(source.IfIndex))
	if err != nil {
		return fmt.Errorf("%s: its network interface: %w", e.self.On, err)
	}
	c, err := joinEthernet(e.self.On, link, group)
	if err != nil {
		return err
	}
	e.onClose(func() { _ = c.Close() })
	return nil
}

func (e *verbsEndpoint) onClose(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.undo = append(e.undo, f)
}

func (e *verbsEndpoint) Resolve(ctx context.Context, to netip.Addr, qpn ib.QPN) (Destination, error) {
	p := verbs.UDPath{DGID: ib.GIDFromAddr(to), HasGRH: true, HopLimit: 64}
	if !e.port.Ethernet {
		if to.Is4() {
			return nil, fmt.Errorf("%v is an IP address, and %s has GIDs: name a node's port by its GID", to, e.self.On)
		}
		path, err := e.sa.Path(ctx, p.DGID)
		if err != nil {
			return nil, fmt.Errorf("GID %v on %s: %w", to, e.self.On, err)
		}
		p.DLID, p.SL, p.TClass, p.FlowLabel, p.HopLimit = path.DLID, path.SL, path.TClass, path.FlowLabel, max(path.HopLimit, 1)
		p.Rate = path.Rate.Static(e.port.Mbps)
	}
	return e.destination(fmt.Sprintf("%v QPN %v", to, qpn), p, qpn, e.qkey)
}

func (e *verbsEndpoint) destination(name string, p verbs.UDPath, qpn ib.QPN, qkey ib.QKey) (Destination, error) {
	to, err := e.ud.Address(p)
	return &verbsDestination{e, name, to, qpn, qkey, err}, err
}

// ReplyTo returns a destination whose Send reports an address that cannot be used.
func (e *verbsEndpoint) ReplyTo(m *Message) Destination {
	p := verbs.UDPath{DLID: m.lid, SL: m.sl, HopLimit: 64, HasGRH: m.From.IsValid()}
	if p.HasGRH {
		p.DGID = ib.GIDFromAddr(m.From)
	}
	to, _ := e.destination(fmt.Sprintf("%v QPN %v", text(m.From), m.SrcQP), p, m.SrcQP, e.qkey)
	return to
}

// Rejected counts little: a device does not report what its queue pairs reject.
func (e *verbsEndpoint) Rejected() map[string]uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return map[string]uint64{rejectedMalformed: e.other}
}

func (e *verbsEndpoint) Close() (err error) {
	e.once.Do(func() {
		e.cancel()
		<-e.done
		for _, f := range e.undo {
			f()
		}
		if e.sa != nil {
			err = e.sa.Close()
		}
		err = errors.Join(e.failed, err, e.ud.Close())
	})
	return err
}

type verbsDestination struct {
	e    *verbsEndpoint
	name string
	to   verbs.UDAddress
	qpn  ib.QPN
	qkey ib.QKey
	err  error
}

func (w *verbsDestination) String() string { return w.name }

func (w *verbsDestination) Send(payload []byte) error {
	if w.err != nil {
		return w.err
	}
	err := w.e.ud.Send(w.to, w.qpn, w.qkey, payload)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EAGAIN):
		return errFull
	}
	return fmt.Errorf("%s: to %s: %w", w.e.self.On, w.name, err)
}
