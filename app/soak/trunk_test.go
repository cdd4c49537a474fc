// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"causeway/app/segment"
)

// A trunk carries two switches' frames by one cable: those of the second have a tag there.
//
//	switch ─ Far ═ the bridge's port                    a switch that filters VLANs would do the same,
//	switch ─ secondPort ─ relay, with the tag ─ Far     but not every kernel's does
type trunk struct{ far, second int } // packet sockets, which go with the process, as the namespaces do

// relay begins to relay, until ctx ends. Both interfaces are in the bridge's namespace.
func (r *rig) relay(ctx context.Context) error {
	var t trunk
	err := r.segment.Do(func() (err error) {
		if t.far, err = packetSocket(segment.Far); err != nil {
			return err
		}
		t.second, err = packetSocket(secondPort)
		return err
	})
	if err != nil {
		return err
	}
	go carry(ctx, t.far, t.second, secondVLAN, 0)
	go carry(ctx, t.second, t.far, 0, secondVLAN)
	return nil
}

// packetSocket opens a packet socket on an interface.
func packetSocket(name string) (int, error) {
	const room = 8 << 20
	netdev, err := net.InterfaceByName(name)
	if err != nil {
		return 0, err
	}
	all := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL))
	s, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	return s, errors.Join(unix.SetsockoptInt(s, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
		unix.SetsockoptInt(s, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room),
		unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: int64(200 * time.Millisecond / time.Microsecond)}),
		unix.Bind(s, &unix.SockaddrLinklayer{Protocol: all, Ifindex: netdev.Index}))
}

// carry sends on what comes by one socket with a VLAN id by the other with another; 0: without a tag. A socket whose
// interface is down for a time has an error then.
func carry(ctx context.Context, from, to int, takes, gives uint16) {
	b, aux := make([]byte, 9000), make([]byte, 128)
	const macs = 12
	for ctx.Err() == nil {
		n, more, _, who, err := unix.Recvmsg(from, b[4:], aux, 0)
		if l, ok := who.(*unix.SockaddrLinklayer); err != nil || n < macs || !ok || l.Pkttype == unix.PACKET_OUTGOING || vlanOf(aux[:more]) != takes {
			continue
		}
		frame := b[4 : 4+n]
		if gives != 0 {
			copy(b, b[4:4+macs])
			binary.BigEndian.PutUint16(b[macs:], 0x8100)
			binary.BigEndian.PutUint16(b[macs+2:], gives)
			frame = b[:4+n]
		}
		for ctx.Err() == nil {
			if _, err = unix.Write(to, frame); !errors.Is(err, unix.ENOBUFS) {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// vlanOf returns the VLAN id of a received frame, which the kernel has taken out of it (packet(7)); 0: it had no tag.
func vlanOf(aux []byte) uint16 {
	const valid, atTCI = 1 << 4, 16 // struct tpacket_auxdata
	all, err := unix.ParseSocketControlMessage(aux)
	if err != nil {
		return 0
	}
	for _, m := range all {
		if d := m.Data; m.Header.Type == unix.PACKET_AUXDATA && len(d) >= atTCI+2 && binary.NativeEndian.Uint32(d)&valid != 0 {
			return binary.NativeEndian.Uint16(d[atTCI:]) & 0xfff
		}
	}
	return 0
}
