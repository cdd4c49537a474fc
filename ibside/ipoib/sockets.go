// SPDX-License-Identifier: Apache-2.0

package ipoib

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// sockets are the packet sockets of an interface.
type sockets struct {
	index     int
	kind      uint16 // of the interface: ARPHRD
	broadcast net.HardwareAddr
	arp, nd   *os.File // ARP packets, and IPv6 packets with solicitations
	out       *os.File // frames to be sent
	joined    map[netip.Addr]bool
}

func openSockets(i *net.Interface) (s *sockets, err error) {
	s = &sockets{index: i.Index, joined: map[netip.Addr]bool{}}
	if s.kind, s.broadcast, err = linkOf(i); err != nil {
		return nil, err
	}
	for _, x := range []struct {
		to       **os.File
		kind     int
		protocol uint16
		filter   []unix.SockFilter
	}{{&s.arp, unix.SOCK_DGRAM, unix.ETH_P_ARP, nil}, {&s.nd, unix.SOCK_DGRAM, unix.ETH_P_IPV6, solicitations}, {&s.out, unix.SOCK_RAW, 0, nil}} {
		if *x.to, err = packetSocket(x.kind, x.protocol, i.Index, x.filter); err != nil {
			s.closeInputs()
			return nil, fmt.Errorf("ipoib: packet socket on %s: %w; the bridge needs CAP_NET_RAW", i.Name, err)
		}
	}
	return s, nil
}

// closeInputs closes what is read from.
func (s *sockets) closeInputs() {
	for _, f := range []*os.File{s.arp, s.nd} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// linkOf returns what kind of interface one is (ARPHRD), and its broadcast address, which on IPoIB has the partition and the
// scope.
func linkOf(i *net.Interface) (kind uint16, broadcast net.HardwareAddr, err error) {
	if len(i.HardwareAddr) != addressLen {
		return unix.ARPHRD_ETHER, slices.Repeat(net.HardwareAddr{0xff}, len(i.HardwareAddr)), nil
	}
	text, err := os.ReadFile(filepath.Join("/sys/class/net", i.Name, "broadcast"))
	if err == nil {
		broadcast, err = net.ParseMAC(strings.TrimSpace(string(text)))
	}
	if err != nil {
		return 0, nil, fmt.Errorf("ipoib: the broadcast address of %s: %w", i.Name, err)
	}
	return unix.ARPHRD_INFINIBAND, broadcast, nil
}

// solicitations is a filter that accepts IPv6 packets with a neighbour solicitation.
var solicitations = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 6}, // the next header
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.IPPROTO_ICMPV6, Jf: 3},
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: ipv6Header}, // the type
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: ndSolicitation, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0xffff},
	{Code: unix.BPF_RET | unix.BPF_K},
}

// packetSocket opens one that gets only what passes the filter, if there is one.
func packetSocket(kind int, protocol uint16, index int, filter []unix.SockFilter) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_PACKET, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if filter != nil {
		err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol<<8 | protocol>>8, Ifindex: index})
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "packets"), nil
}

// join has the interface receive what is sent to these groups, and to no others that it was in because of this. The kernel joins
// them on InfiniBand, and again when the subnet manager wants that. (linux/if_packet.h, struct packet_mreq; the kernel takes
// addresses of up to 32 bytes.)
func (s *sockets) join(groups map[netip.Addr]bool) error {
	change := func(option int, g netip.Addr) error {
		link := groupLink(g, s.broadcast)
		r := binary.NativeEndian.AppendUint32(nil, uint32(s.index))
		r = binary.NativeEndian.AppendUint16(r, unix.PACKET_MR_MULTICAST)
		r = append(binary.NativeEndian.AppendUint16(r, uint16(len(link))), link...)
		r = append(r, make([]byte, max(0, unix.SizeofPacketMreq-len(r)))...)
		raw, err := s.nd.SyscallConn()
		if err != nil {
			return err
		}
		return errors.Join(raw.Control(func(fd uintptr) { err = unix.SetsockoptString(int(fd), unix.SOL_PACKET, option, string(r)) }), err)
	}
	for g := range s.joined {
		if !groups[g] {
			if err := change(unix.PACKET_DROP_MEMBERSHIP, g); err != nil {
				return fmt.Errorf("ipoib: leave the group %v: %w", g, err)
			}
			delete(s.joined, g)
		}
	}
	for g := range groups {
		if !s.joined[g] {
			if err := change(unix.PACKET_ADD_MEMBERSHIP, g); err != nil {
				return fmt.Errorf("ipoib: join the group %v: %w", g, err)
			}
			s.joined[g] = true
		}
	}
	return nil
}
