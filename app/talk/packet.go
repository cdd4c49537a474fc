// SPDX-License-Identifier: Apache-2.0

package talk

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

// A packetEnd is a RoCE host, made in software, on a network interface that the kernel has, too. Its address may be one of the
// kernel's, which then answers for it, or its own.
type packetEnd struct {
	where   Where
	nic     *socket
	link    frame.Link
	own     []own
	qpn     ib.QPN
	qkey    ib.QKey
	version int
	psn     sequencer
	quiet   []io.Closer // keep the kernel from refusing RoCE to its own addresses
	gone    chan struct{}
	closing chan struct{}
	once    sync.Once

	mu      sync.Mutex
	groups  map[netip.Addr]ib.QKey
	near    map[netip.Addr]*neighbour
	reports *time.Timer // of an answer to a query
	refused map[string]uint64
}

// own is an address of the host's.
type own struct {
	netip.Prefix
	kernels bool
}

func openPacket(name string, c Config) (End, error) {
	nic, err := openSocket(name)
	if err != nil {
		return nil, err
	}
	e := &packetEnd{
		nic: nic, link: frame.Link{MAC: c.MAC}, qpn: c.QPN, qkey: c.QKey, version: 2, gone: make(chan struct{}),
		closing: make(chan struct{}), groups: map[netip.Addr]ib.QKey{}, near: map[netip.Addr]*neighbour{}, refused: map[string]uint64{},
	}
	if c.RoCE == 1 {
		e.version = 1
	}
	if c.MAC.IsZero() {
		e.link.MAC = frame.MAC(nic.link.HardwareAddr)
	}
	if err := errors.Join(e.address(c), e.describe(c)); err != nil {
		return nil, errors.Join(err, nic.Close())
	}
	go e.receive(c.OnMessage)
	e.announce()
	return e, nil
}

// address decides on the host's addresses, and has the interface take frames to them.
func (e *packetEnd) address(c Config) error {
	kernels, err := addressesOf(e.nic.link)
	if err != nil {
		return err
	}
	if len(c.IP) == 0 && !c.MAC.IsZero() {
		return fmt.Errorf("packet:%s: a MAC address of its own needs an IP address of its own; give one with -ip", e.nic.name)
	}
	for _, p := range c.IP {
		isKernels := slices.ContainsFunc(kernels, func(k netip.Prefix) bool { return k.Addr() == p.Addr() })
		if isKernels && !c.MAC.IsZero() {
			return fmt.Errorf("packet:%s: %v is the kernel's address, which it has at its own MAC address; leave -mac out, or use another -ip", e.nic.name, p.Addr())
		}
		e.own = append(e.own, own{p, isKernels})
	}
	if len(c.IP) == 0 {
		e.own = firstOfEach(kernels)
	}
	if len(e.own) == 0 {
		return fmt.Errorf("packet:%s: the interface has no IP address; give the host one with -ip 10.9.0.5/24", e.nic.name)
	}
	macs := []frame.MAC{}
	if !c.MAC.IsZero() {
		macs = append(macs, c.MAC)
	}
	for _, o := range e.own {
		if o.Addr().Is6() && !o.kernels {
			macs = append(macs, frame.GroupMAC(frame.SolicitedNode(o.Addr())))
		}
		if o.kernels {
			e.hush(o.Addr())
		}
	}
	for _, mac := range macs {
		if err := e.nic.accept(mac); err != nil {
			return err
		}
	}
	return nil
}

// hush has the kernel take RoCE to its own address for somebody's, and not answer that nobody is there. Where it cannot,
// somebody has the port: the kernel's own RoCE.
func (e *packetEnd) hush(ip netip.Addr) {
	if c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, frame.PortRoCEv2))); err == nil {
		_ = c.SetReadBuffer(1)
		e.quiet = append(e.quiet, c)
	}
}

// addressesOf returns the kernel's addresses on an interface.
func addressesOf(link *net.Interface) ([]netip.Prefix, error) {
	addrs, err := link.Addrs()
	if err != nil {
		return nil, fmt.Errorf("packet:%s: %w", link.Name, err)
	}
	var all []netip.Prefix
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			ip, _ := netip.AddrFromSlice(n.IP)
			bits, _ := n.Mask.Size()
			all = append(all, netip.PrefixFrom(ip.Unmap(), bits))
		}
	}
	return all, nil
}

// firstOfEach returns the first IPv4 and the first global IPv6 address.
func firstOfEach(kernels []netip.Prefix) (own4and6 []own) {
	for _, is6 := range []bool{false, true} {
		for _, p := range kernels {
			if p.Addr().Is6() == is6 && p.Addr().IsGlobalUnicast() {
				own4and6 = append(own4and6, own{p, true})
				break
			}
		}
	}
	return own4and6
}

// describe fills in where the end is, and chooses its queue pair's number.
func (e *packetEnd) describe(c Config) error {
	mtu := ib.MTUForNetdev(e.nic.link.MTU).Bytes()
	e.where = Where{On: c.On, MAC: e.link.MAC.String(), QKey: e.qkey, MTU: mtu, larger: "ip link set " + e.nic.name + " mtu 4200"}
	if mtu == 0 {
		return fmt.Errorf("packet:%s: MTU %d is too small for RoCE, which needs 336; ip link set %s mtu 4200", e.nic.name, e.nic.link.MTU, e.nic.name)
	}
	h := fnv.New32a()
	for _, o := range e.own {
		e.where.IP = append(e.where.IP, o.Addr().String())
		fmt.Fprint(h, o.Addr())
	}
	if e.qpn == 0 {
		// Always the same for an address and a name: a bridge keeps each number that it has seen for a long time, and has room for
		// few of a host.
		fmt.Fprint(h, c.Name)
		e.qpn = ib.QPN(0x100 + h.Sum32()%0xfffe00)
	}
	e.where.QPN = e.qpn
	return nil
}

func (e *packetEnd) Where() Where          { return e.where }
func (e *packetEnd) Gone() <-chan struct{} { return e.gone }

// source returns the host's address to talk to another from.
func (e *packetEnd) source(to netip.Addr) (own, error) {
	for _, o := range e.own {
		if o.Addr().Is6() == to.Is6() {
			return o, nil
		}
	}
	kind := "IPv4"
	if to.Is6() {
		kind = "IPv6"
	}
	return own{}, fmt.Errorf("packet:%s: the host has no %s address to send to %v from; give it one with -ip", e.nic.name, kind, to)
}

func (e *packetEnd) Refused() map[string]uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refused["no_buffer"] += e.nic.missed()
	return maps.Clone(e.refused)
}

func (e *packetEnd) refuse(why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refused[why]++
}

// Close leaves the groups. It may be called again.
func (e *packetEnd) Close() (err error) {
	e.once.Do(func() {
		close(e.closing)
		e.leave()
		errs := []error{e.nic.Close()}
		for _, c := range e.quiet {
			errs = append(errs, c.Close())
		}
		<-e.gone
		err = errors.Join(errs...)
	})
	return err
}

// write sends a frame. What the interface has no room for is ErrFull.
func (e *packetEnd) write(b []byte) error {
	_, err := e.nic.Write(b)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.EAGAIN):
		return ErrFull
	case errors.Is(err, syscall.ENETDOWN):
		return fmt.Errorf("packet:%s: the interface has gone down", e.nic.name)
	case errors.Is(err, syscall.EMSGSIZE):
		return fmt.Errorf("packet:%s: a frame of %d bytes is too long for the interface; %s", e.nic.name, len(b), e.where.larger)
	}
	return fmt.Errorf("packet:%s: %w", e.nic.name, err)
}

// A packetWay leads to a group or a queue pair. It is for one sender at a time.
type packetWay struct {
	e    *packetEnd
	name string
	next *neighbour // nil: to a group
	p    roce.Packet
	b    []byte
	mu   sync.Mutex
}

// way returns the way to an address; next is who takes frames to it, nil for a group.
func (e *packetEnd) way(from, to netip.Addr, next *neighbour, qpn ib.QPN, qkey ib.QKey) *packetWay {
	w := &packetWay{e: e, next: next, name: fmt.Sprintf("%v QPN %v", to, qpn), p: roce.Packet{
		Version: e.version, Src: e.link.MAC, SrcIP: from, DstIP: to, HopLimit: 64, PKey: ib.PKeyDefault, DestQP: qpn, QKey: qkey, SrcQP: e.qpn,
	}}
	if e.version == 2 {
		w.p.SrcPort = ib.FlowLabelToSrcPort(uint32(e.qpn))
	}
	if next == nil {
		w.p.Dst = frame.GroupMAC(to)
		w.name = fmt.Sprintf("%v (Q_Key %v)", to, qkey)
		if e.version == 1 {
			w.p.DstIP = ib.MGIDRoCEv1(to).Addr()
		}
	}
	return w
}

func (w *packetWay) String() string { return w.name }

func (w *packetWay) Send(payload []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next != nil {
		w.p.Dst = w.next.mac()
	}
	w.p.PSN, w.p.Payload = w.e.psn.next(), payload
	w.b = w.p.AppendTo(w.b[:0])
	return w.e.write(w.b)
}
