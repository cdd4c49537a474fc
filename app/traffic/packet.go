// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
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

	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

// A packetEndpoint is a RoCE host, made in software, with addresses that the kernel has on a network interface. The
// kernel answers ARP and ND for them, resolves neighbours and joins groups; RoCE is sent and received here.
type packetEndpoint struct {
	info       Info
	nic        *socket
	neighbours *neighbours
	ip         []netip.Addr
	qpn        ib.QPN
	qkey       ib.QKey
	version    int
	psn        sequencer
	done       chan struct{}
	closing    chan struct{}
	once       sync.Once

	mu       sync.Mutex
	groups   map[netip.Addr]ib.QKey
	sockets  []io.Closer // memberships and reserved ports
	rejected map[string]uint64
}

func openPacket(name string, c Config) (Endpoint, error) {
	nic, err := openSocket(name)
	if err != nil {
		return nil, err
	}
	e := &packetEndpoint{
		nic: nic, qpn: c.QPN, qkey: c.QKey, version: 2, done: make(chan struct{}), closing: make(chan struct{}),
		groups: map[netip.Addr]ib.QKey{}, rejected: map[string]uint64{},
	}
	if c.RoCE == 1 {
		e.version = 1
	}
	if err := errors.Join(e.setAddresses(c.IP), e.describe(c)); err != nil {
		return nil, errors.Join(err, nic.Close())
	}
	if e.neighbours, err = openNeighbours(nic.link); err != nil {
		return nil, errors.Join(err, nic.Close())
	}
	for _, ip := range e.ip {
		e.reservePort(ip)
	}
	go e.receive(c.OnMessage)
	return e, nil
}

// setAddresses checks the wanted addresses, or takes the first of each family.
func (e *packetEndpoint) setAddresses(wanted []netip.Addr) error {
	all, err := addressesOf(e.nic.link)
	if err != nil {
		return err
	}
	for _, ip := range wanted {
		if !slices.Contains(all, ip) {
			return fmt.Errorf("packet:%s: %v is not an address of the interface; add it with ip addr add, or leave -ip out", e.nic.name, ip)
		}
	}
	if e.ip = wanted; len(wanted) == 0 {
		e.ip = firstOfEach(all)
	}
	if len(e.ip) == 0 {
		return fmt.Errorf("packet:%s: the interface has no IP address; add one: ip addr add 10.9.0.5/24 dev %s", e.nic.name, e.nic.name)
	}
	return nil
}

// reservePort takes RoCE's UDP port at an address, so that the kernel does not answer "port unreachable" to senders. An
// error means that somebody has the port already, such as the kernel's own RoCE.
func (e *packetEndpoint) reservePort(ip netip.Addr) {
	if c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, frame.PortRoCEv2))); err == nil {
		_ = c.SetReadBuffer(1)
		e.sockets = append(e.sockets, c)
	}
}

// addressesOf returns the kernel's addresses on an interface.
func addressesOf(link *net.Interface) ([]netip.Addr, error) {
	addrs, err := link.Addrs()
	if err != nil {
		return nil, fmt.Errorf("packet:%s: %w", link.Name, err)
	}
	var all []netip.Addr
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			all = append(all, p.Addr())
		}
	}
	return all, nil
}

// firstOfEach returns the first IPv4 and the first global IPv6 address.
func firstOfEach(all []netip.Addr) (first []netip.Addr) {
	for _, is6 := range []bool{false, true} {
		if i := slices.IndexFunc(all, func(a netip.Addr) bool { return a.Is6() == is6 && a.IsGlobalUnicast() }); i >= 0 {
			first = append(first, all[i])
		}
	}
	return first
}

// describe fills in the description, and chooses the queue pair's number.
func (e *packetEndpoint) describe(c Config) error {
	mtu := ib.MTUForNetdev(e.nic.link.MTU).Bytes()
	e.info = Info{On: c.On, MAC: e.nic.link.HardwareAddr.String(), QKey: e.qkey, MTU: mtu, larger: "ip link set " + e.nic.name + " mtu 4200"}
	if mtu == 0 {
		return fmt.Errorf("packet:%s: MTU %d is too small for RoCE, which needs 336; ip link set %s mtu 4200", e.nic.name, e.nic.link.MTU, e.nic.name)
	}
	h := fnv.New32a()
	for _, ip := range e.ip {
		e.info.IP = append(e.info.IP, ip.String())
		fmt.Fprint(h, ip)
	}
	if e.qpn == 0 {
		// Always the same for an address and a name: a bridge remembers each number for a long time, and has room for
		// few of one host.
		fmt.Fprint(h, c.Name)
		e.qpn = ib.QPN(0x100 + h.Sum32()%0xfffe00)
	}
	e.info.QPN = e.qpn
	return nil
}

func (e *packetEndpoint) Info() Info            { return e.info }
func (e *packetEndpoint) Done() <-chan struct{} { return e.done }

// source returns the host's address for messages to an address.
func (e *packetEndpoint) source(to netip.Addr) (netip.Addr, error) {
	for _, ip := range e.ip {
		if ip.Is6() == to.Is6() {
			return ip, nil
		}
	}
	family := "IPv4"
	if to.Is6() {
		family = "IPv6"
	}
	return netip.Addr{}, fmt.Errorf("packet:%s: the host has no %s address to send to %v from; add one to the interface, and give it with -ip", e.nic.name, family, to)
}

// Join makes the kernel join the group. A sender need not be a member on Ethernet.
func (e *packetEndpoint) Join(_ context.Context, g Group, receive bool) (Destination, error) {
	if err := g.checkEthernet(e.info.On); err != nil {
		return nil, err
	}
	from, err := e.source(g.Addr)
	if err != nil {
		return nil, err
	}
	qkey := g.qkey(ib.GID{})
	if receive {
		c, err := joinEthernet(e.info.On, e.nic.link, g.Addr)
		if err != nil {
			return nil, err
		}
		if err := e.nic.hears(true); err != nil {
			return nil, errors.Join(fmt.Errorf("packet:%s: %w", e.nic.name, err), c.Close())
		}
		e.mu.Lock()
		e.groups[g.Addr] = qkey
		e.sockets = append(e.sockets, c)
		e.mu.Unlock()
	}
	return e.destination(from, g.Addr, nil, ib.QPMulticast, qkey), nil
}

func (e *packetEndpoint) Rejected() map[string]uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rejected["no_buffer"] += e.nic.missed()
	return maps.Clone(e.rejected)
}

func (e *packetEndpoint) reject(why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rejected[why]++
}

// Close leaves the groups. It may be called again.
func (e *packetEndpoint) Close() (err error) {
	e.once.Do(func() {
		close(e.closing)
		errs := []error{e.nic.Close(), e.neighbours.Close()}
		for _, c := range e.sockets {
			errs = append(errs, c.Close())
		}
		<-e.done
		err = errors.Join(errs...)
	})
	return err
}

// write sends a frame, and returns errFull when the interface has no room.
func (e *packetEndpoint) write(b []byte) error {
	_, err := e.nic.Write(b)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.EAGAIN):
		return errFull
	case errors.Is(err, syscall.ENETDOWN):
		return fmt.Errorf("packet:%s: the interface has gone down", e.nic.name)
	case errors.Is(err, syscall.EMSGSIZE):
		return fmt.Errorf("packet:%s: a frame of %d bytes is too long for the interface; %s", e.nic.name, len(b), e.info.larger)
	}
	return fmt.Errorf("packet:%s: %w", e.nic.name, err)
}

// A packetDestination is a group or a queue pair. One goroutine sends at a time.
type packetDestination struct {
	e    *packetEndpoint
	name string
	next *neighbour // the next hop; nil: the destination is a group
	p    roce.Packet
	b    []byte
	mu   sync.Mutex
}

func (e *packetEndpoint) destination(from, to netip.Addr, next *neighbour, qpn ib.QPN, qkey ib.QKey) *packetDestination {
	d := &packetDestination{e: e, next: next, name: fmt.Sprintf("%v QPN %v", to, qpn), p: roce.Packet{
		Version: e.version, Src: frame.MAC(e.nic.link.HardwareAddr), SrcIP: from, DstIP: to, HopLimit: 64, PKey: ib.PKeyDefault,
		DestQP: qpn, QKey: qkey, SrcQP: e.qpn,
	}}
	if e.version == 2 {
		d.p.SrcPort = ib.FlowLabelToSrcPort(uint32(e.qpn))
	}
	if next == nil {
		d.p.Dst = frame.GroupMAC(to)
		d.name = fmt.Sprintf("%v (Q_Key %v)", to, qkey)
		if e.version == 1 {
			d.p.DstIP = ib.MGIDRoCEv1(to).Addr()
		}
	}
	return d
}

func (d *packetDestination) String() string { return d.name }

func (d *packetDestination) Send(payload []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.next != nil {
		d.p.Dst = d.next.mac()
	}
	d.p.PSN, d.p.Payload = d.e.psn.next(), payload
	d.b = d.p.AppendTo(d.b[:0])
	return d.e.write(d.b)
}
