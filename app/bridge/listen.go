// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"causeway/lcore/frame"
	"causeway/lcore/manage"
)

// A listener receives management's frames on a port that is shared with the kernel:
//
//	wire ─▶ interface ─┬─ flow rules: RoCE ─▶ port ─▶ workers
//	                   └─ the rest ─▶ kernel
//	                         └─ copies of ARP, ND, IGMP, MLD, pings ─▶ listener ─▶ management
//
// A flow rule takes a frame from the kernel, and no driver's rules match an ARP request's target address: with a rule
// for ARP the kernel would have no neighbours. A packet socket (packet(7)) gets copies. Management's answers leave by
// the port.
type listener struct {
	fd     int
	index  int // of the interface
	vlan   uint16
	room   int // bytes of a frame without its VLAN tag
	groups map[[6]byte]bool
	all    bool // groups
	missed uint64
}

// listen listens on netdev, to frames of that VLAN or, with 0, to untagged ones. While the listener is open, the
// interface is a member of groups, or with all of all groups: the card delivers no others, to the kernel or to the
// port.
func listen(netdev *net.Interface, vlan uint16, mtu int, all bool, groups [][6]byte) (*listener, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("bridge: listen on %s: a packet socket: %w; the process needs CAP_NET_RAW", netdev.Name, err)
	}
	l := &listener{fd: fd, index: netdev.Index, vlan: vlan, room: frame.EthernetLen + mtu, groups: map[[6]byte]bool{}}
	if err := l.open(all, groups); err != nil {
		return nil, errors.Join(fmt.Errorf("bridge: listen on %s: %w", netdev.Name, err), l.close())
	}
	return l, nil
}

func (l *listener) open(all bool, groups [][6]byte) error {
	// The filter comes before the bind, so that no other frame is received.
	program := puntedFrames(l.vlan)
	if err := unix.SetsockoptSockFprog(l.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}); err != nil {
		return fmt.Errorf("its filter: %w", err)
	}
	if err := l.followAll(all); err != nil {
		return err
	}
	if err := l.follow(groups); err != nil {
		return err
	}
	return unix.Bind(l.fd, &unix.SockaddrLinklayer{Protocol: wireOrder(unix.ETH_P_ALL), Ifindex: l.index})
}

// followAll makes the interface a member of all groups, or ends that.
func (l *listener) followAll(all bool) error {
	if l.all == all {
		return nil
	}
	what := unix.PACKET_DROP_MEMBERSHIP
	if all {
		what = unix.PACKET_ADD_MEMBERSHIP
	}
	request := unix.PacketMreq{Ifindex: int32(l.index), Type: unix.PACKET_MR_ALLMULTI}
	if err := unix.SetsockoptPacketMreq(l.fd, unix.SOL_PACKET, what, &request); err != nil {
		return fmt.Errorf("all groups: %w", err)
	}
	l.all = all
	return nil
}

// follow makes the interface a member of these groups and no others. The next call retries what failed.
func (l *listener) follow(groups [][6]byte) error {
	wanted := map[[6]byte]bool{}
	var errs []error
	for _, g := range groups {
		if wanted[g] = true; l.groups[g] {
			continue
		}
		if err := l.change(unix.PACKET_ADD_MEMBERSHIP, g); err != nil {
			errs = append(errs, err)
			continue
		}
		l.groups[g] = true
	}
	for g := range l.groups {
		if wanted[g] {
			continue
		}
		if err := l.change(unix.PACKET_DROP_MEMBERSHIP, g); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(l.groups, g)
	}
	return errors.Join(errs...)
}

func (l *listener) change(what int, g [6]byte) error {
	request := unix.PacketMreq{Ifindex: int32(l.index), Type: unix.PACKET_MR_MULTICAST, Alen: frame.MACLen}
	copy(request.Address[:], g[:])
	if err := unix.SetsockoptPacketMreq(l.fd, unix.SOL_PACKET, what, &request); err != nil {
		return fmt.Errorf("group %v: %w", frame.MAC(g), err)
	}
	return nil
}

// wireOrder is htons.
func wireOrder(n uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n))
}

func (l *listener) close() error { return unix.Close(l.fd) }

// lost returns how many frames were dropped because management was too slow. Only one call may be under way.
func (l *listener) lost() uint64 {
	// Which clears the counter.
	if s, err := unix.GetsockoptTpacketStats(l.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
		l.missed += uint64(s.Drops)
	}
	return l.missed
}

// listenMost bounds how many frames are taken at a time, as a worker's burst does.
const listenMost = 32

// take returns the frames that have come, as of a port: none, too, when the interface is down.
func (l *listener) take(port uint8) []manage.Punted {
	var out []manage.Punted
	for len(out) < listenMost {
		b := make([]byte, l.room)
		n, err := unix.Read(l.fd, b)
		if err != nil {
			break
		}
		out = append(out, manage.Punted{Data: l.whole(b[:n]), Port: port})
	}
	return out
}

// whole puts back the VLAN tag, which the kernel has removed; only frames that had it pass the filter.
func (l *listener) whole(b []byte) []byte {
	if l.vlan == 0 || len(b) < frame.EthernetLen {
		return b
	}
	const addresses = 2 * frame.MACLen
	out := make([]byte, 0, len(b)+frame.VLANLen)
	out = append(out, b[:addresses]...)
	out = binary.BigEndian.AppendUint16(out, frame.TypeVLAN)
	out = binary.BigEndian.AppendUint16(out, l.vlan)
	return append(out, b[addresses:]...)
}

// listeningWorker is a worker that also returns the frames of all ports' listeners.
type listeningWorker struct {
	manage.Worker
	ports *ports
}

// TakePunted implements manage.Worker.
func (w listeningWorker) TakePunted() []manage.Punted {
	punted := w.Worker.TakePunted()
	for _, p := range w.ports.list() {
		for _, l := range p.listening() {
			punted = append(punted, l.take(p.index)...)
		}
	}
	return punted
}
