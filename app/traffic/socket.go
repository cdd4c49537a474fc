// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"causeway/lcore/frame"
)

// A socket reads and writes whole frames of an interface (packet(7)).
type socket struct {
	*os.File
	name string
	link *net.Interface
}

// socketRoom is the receive buffer in bytes, for a reader that is not scheduled for a while.
const socketRoom = 32 << 20

// openSocket opens a socket that reads what an interface receives for its own MAC address, except on its VLANs.
func openSocket(name string) (*socket, error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("packet:%s: there is no interface %s here; \"causeway devices\" lists this machine's interfaces", name, name)
	}
	if len(link.HardwareAddr) != frame.MACLen {
		return nil, fmt.Errorf("packet:%s: the interface is not Ethernet: it has no MAC address", name)
	}
	if link.Flags&net.FlagUp == 0 {
		return nil, fmt.Errorf("packet:%s: the interface is down; ip link set %s up", name, name)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if errors.Is(err, unix.EPERM) {
		return nil, fmt.Errorf("packet:%s: a packet socket: %w; use sudo, or give the program CAP_NET_RAW and CAP_NET_ADMIN", name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("packet:%s: a packet socket: %w", name, err)
	}
	if err := prepare(fd, link.Index); err != nil {
		return nil, errors.Join(fmt.Errorf("packet:%s: %w", name, err), unix.Close(fd))
	}
	return &socket{os.NewFile(uintptr(fd), "packets of "+name), name, link}, nil
}

func prepare(fd, index int) error {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, socketRoom) != nil { // it needs CAP_NET_ADMIN
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, socketRoom); err != nil {
			return err
		}
	}
	all := uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8 // in wire order
	return errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		attach(fd, false),
		unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: index}),
	)
}

// hears has the socket read multicast frames, too, or only those to the interface's own MAC address: what a switch floods wakes nobody.
func (s *socket) hears(multicast bool) error {
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	return errors.Join(raw.Control(func(fd uintptr) { set = attach(int(fd), multicast) }), set)
}

// attach has a socket accept frames without an 802.1Q tag, which the kernel keeps beside the frame, to the host and perhaps to groups. A
// VLAN has an interface of its own. (linux/filter.h: SKF_AD_OFF, SKF_AD_VLAN_TAG_PRESENT, SKF_AD_PKTTYPE)
func attach(fd int, multicast bool) error {
	const tagPresent, packetType = 0xfffff000 + 48, 0xfffff000 + 4
	also := uint32(unix.PACKET_HOST)
	if multicast {
		also = unix.PACKET_MULTICAST
	}
	code := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: tagPresent},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 4},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: packetType},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.PACKET_HOST, Jt: 1},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: also, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0xffff},
		{Code: unix.BPF_RET | unix.BPF_K},
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]})
}

// missed returns how many frames the kernel dropped for lack of room since the last call.
func (s *socket) missed() (n uint64) {
	raw, err := s.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if x, err := unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
			n = uint64(x.Drops)
		}
	})
	return n
}
