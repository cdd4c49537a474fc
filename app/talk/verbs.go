// SPDX-License-Identifier: Apache-2.0

package talk

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"causeway/ibside/ib"
	"causeway/ibside/sa"
	"causeway/ibside/verbs"
	"causeway/lcore/frame"
)

// A verbsEnd is a UD queue pair of an RDMA device, by libibverbs. Where its link layer is Ethernet, the kernel joins groups; on
// InfiniBand the subnet administrator is asked, by /dev/infiniband/umadN.
type verbsEnd struct {
	where   Where
	ud      *verbs.UD
	port    verbs.PortInfo
	qkey    ib.QKey
	sa      *sa.Client // InfiniBand
	cancel  context.CancelFunc
	ended   chan struct{}
	once    sync.Once
	refused error // why nothing comes any more; after ended

	mu    sync.Mutex
	undo  []func() // of the groups
	other uint64   // messages of unknown kind
}

func openVerbs(name string, c Config) (End, error) {
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
	e := &verbsEnd{ud: ud, port: ud.Port(), qkey: c.QKey, ended: make(chan struct{})}
	if !e.port.Ethernet {
		umad, err := sa.OpenUmad(device, port)
		if err != nil {
			return nil, errors.Join(err, ud.Close())
		}
		e.sa = sa.NewClient(umad, sa.Config{})
	}
	e.where = Where{On: c.On, LID: e.port.LID, QPN: ud.QPN(), QKey: c.QKey, MTU: e.port.MTU.Bytes(), larger: "a larger MTU of the port"}
	for _, g := range e.port.GIDs {
		if a := netip.AddrFrom16(g.GID); e.port.Ethernet && g.Type == verbs.GIDTypeRoCEv2 && !a.IsLinkLocalUnicast() {
			e.where.IP = append(e.where.IP, a.Unmap().String())
		} else if !e.port.Ethernet && e.where.GID == "" {
			e.where.GID = g.GID.String()
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	go func() {
		defer close(e.ended)
		e.refused = ud.Receive(ctx, func(m *verbs.UDMessage) { e.message(m, c.OnMessage) })
	}()
	return e, nil
}

func (e *verbsEnd) Where() Where          { return e.where }
func (e *verbsEnd) Gone() <-chan struct{} { return e.ended }

// message tells of a message.
func (e *verbsEnd) message(r *verbs.UDMessage, each func(*Message)) {
	m := Message{At: time.Now(), SrcQP: r.SrcQP, Payload: r.Payload, lid: r.SLID, sl: r.SL}
	if r.HasGRH {
		from, to, ok := ends(r.Area[:], e.port.Ethernet)
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

// ends reads both addresses from the 40 bytes before a message. With an IPv4 header at their end, the first 20 may be
// anything: its checksum tells.
func ends(area []byte, ethernet bool) (from, to netip.Addr, ok bool) {
	const ipv4At = ib.GRHLen - frame.IPv4Len
	if v4, ok := frame.AsIPv4(area[ipv4At:]); ok && ethernet && v4.ChecksumOK() {
		return v4.Src(), v4.Dst(), true
	}
	if grh, ok := ib.AsGRH(area); ok && grh.IPVer() == 6 {
		return grh.SGID().Addr(), grh.DGID().Addr(), true
	}
	return from, to, false
}

func (e *verbsEnd) Join(ctx context.Context, g Group, listens bool) (Way, error) {
	p, qkey, err := e.groupPath(ctx, g, listens)
	if err != nil {
		return nil, err
	}
	if listens && qkey != e.qkey {
		return nil, fmt.Errorf("%s: group %v has Q_Key %v, the queue pair %v, of which it has one; give -qkey %v", e.where.On, g.Addr, qkey, e.qkey, qkey)
	}
	if listens {
		if err := e.ud.Attach(p.DGID, p.DLID); err != nil {
			return nil, err
		}
	}
	return e.way(fmt.Sprintf("%v (Q_Key %v)", g.Addr, qkey), p, ib.QPMulticast, qkey)
}

// groupPath joins a group and returns the path to it.
func (e *verbsEnd) groupPath(ctx context.Context, g Group, listens bool) (p verbs.UDPath, qkey ib.QKey, err error) {
	if e.port.Ethernet {
		if g.Form != "" || g.Port != 0 {
			return p, 0, fmt.Errorf("%s: group %v: -mgid, -scope and -port are for InfiniBand; on RoCE a group is its address alone: leave them out", e.where.On, g.Addr)
		}
		p = verbs.UDPath{DGID: ib.MGIDRoCE(g.Addr), HasGRH: true, HopLimit: 64}
		if listens {
			err = e.joinEthernet(g.Addr, p.DGID)
		}
		return p, g.qkey(ib.GID{}), err
	}
	mgid, qkey, err := g.mgid(e.port.PKeys[0])
	if err != nil {
		return p, 0, err
	}
	state := uint8(ib.JoinFull)
	if !listens {
		state = ib.JoinSendOnlyFull
	}
	r, err := e.sa.Join(ctx, ib.MCMemberFields{MGID: mgid, QKey: qkey, PKey: e.port.PKeys[0], JoinState: state})
	if err != nil {
		return p, 0, fmt.Errorf("group %v on %s, with Q_Key %v: %w", g.Addr, e.where.On, qkey, err)
	}
	e.onClose(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = e.sa.Leave(ctx, r.MGID, ib.GID{}, state) // the subnet forgets the port when it goes
	})
	return verbs.UDPath{DGID: r.MGID, HasGRH: true, DLID: r.MLID, SL: r.SL, TClass: r.TClass, FlowLabel: r.FlowLabel, HopLimit: max(r.HopLimit, 1)}, r.QKey, nil
}

// joinEthernet has the kernel join the group on the device's network interface, so that the switches send it there.
func (e *verbsEnd) joinEthernet(group netip.Addr, mgid ib.GID) error {
	source, err := e.ud.Source(mgid)
	if err != nil {
		return err
	}
	family := unix.AF_INET
	if group.Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	s := os.NewFile(uintptr(fd), "membership")
	if group.Is4() {
		err = unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, &unix.IPMreqn{Multiaddr: group.As4(), Ifindex: int32(source.IfIndex)})
	} else {
		err = unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, &unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(source.IfIndex)})
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: the kernel does not join %v on interface %d: %w", e.where.On, group, source.IfIndex, err), s.Close())
	}
	e.onClose(func() { _ = s.Close() }) // which leaves
	return nil
}

func (e *verbsEnd) onClose(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.undo = append(e.undo, f)
}

func (e *verbsEnd) Find(ctx context.Context, to netip.Addr, qpn ib.QPN) (Way, error) {
	p := verbs.UDPath{DGID: ib.GIDFromAddr(to), HasGRH: true, HopLimit: 64}
	if !e.port.Ethernet {
		if to.Is4() {
			return nil, fmt.Errorf("%v is an IP address, and %s has GIDs: name a node's port by its GID", to, e.where.On)
		}
		path, err := e.sa.Path(ctx, p.DGID)
		if err != nil {
			return nil, fmt.Errorf("GID %v on %s: %w", to, e.where.On, err)
		}
		p.DLID, p.SL, p.TClass, p.FlowLabel, p.HopLimit = path.DLID, path.SL, path.TClass, path.FlowLabel, max(path.HopLimit, 1)
	}
	return e.way(fmt.Sprintf("%v QPN %v", to, qpn), p, qpn, e.qkey)
}

func (e *verbsEnd) way(name string, p verbs.UDPath, qpn ib.QPN, qkey ib.QKey) (Way, error) {
	to, err := e.ud.Address(p)
	return &verbsWay{e, name, to, qpn, qkey, err}, err
}

// Back returns the way; one that cannot be says so when it is sent on.
func (e *verbsEnd) Back(m *Message) Way {
	p := verbs.UDPath{DLID: m.lid, SL: m.sl, HopLimit: 64, HasGRH: m.From.IsValid()}
	if p.HasGRH {
		p.DGID = ib.GIDFromAddr(m.From)
	}
	way, _ := e.way(fmt.Sprintf("%v QPN %v", text(m.From), m.SrcQP), p, m.SrcQP, e.qkey)
	return way
}

// Refused counts little: what a queue pair refuses, the device does not tell of.
func (e *verbsEnd) Refused() map[string]uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return map[string]uint64{refusedBroken: e.other}
}

func (e *verbsEnd) Close() (err error) {
	e.once.Do(func() {
		e.cancel()
		<-e.ended
		for _, f := range e.undo {
			f()
		}
		if e.sa != nil {
			err = e.sa.Close()
		}
		err = errors.Join(e.refused, err, e.ud.Close())
	})
	return err
}

type verbsWay struct {
	e    *verbsEnd
	name string
	to   verbs.UDAddress
	qpn  ib.QPN
	qkey ib.QKey
	err  error
}

func (w *verbsWay) String() string { return w.name }

func (w *verbsWay) Send(payload []byte) error {
	if w.err != nil {
		return w.err
	}
	err := w.e.ud.Send(w.to, w.qpn, w.qkey, payload)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EAGAIN):
		return ErrFull
	}
	return fmt.Errorf("%s: to %s: %w", w.e.where.On, w.name, err)
}
