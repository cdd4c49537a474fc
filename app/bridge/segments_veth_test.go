// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"causeway/lcore"
	"causeway/lcore/frame/roce"
)

func init() { tasks["segments-veth"] = taskSegmentsVeth }

// taskSegmentsVeth has two hosts of one address at the other end of the bridge's cable, one on each VLAN.
func taskSegmentsVeth() (string, error) {
	text := strings.ReplaceAll(strings.ReplaceAll(segmentsFile, `"ring"`, `"af_packet:shared"`), "mtu = 4200", "mtu = 1500")
	x, err := newSegmented(text, Options{Around: func(open func() error) error { return open() }})
	if err != nil {
		return "", err
	}
	return "", x.run(x.talkByVLAN)
}

// talkByVLAN sends to both nodes from both VLANs: each is answered by its own.
func (b *Bridge) talkByVLAN() error {
	wire, err := rawSocket("wire")
	if err != nil {
		return err
	}
	defer unix.Close(wire)
	const n = 20
	for k := 1; k <= n; k++ {
		for vlan, to := range map[uint16][2]netip.Addr{0: {nodeIP, node2IP}, segmentVLAN: {node2IP, nodeIP}} {
			for _, ip := range to {
				p := message(b, ip, 0x77, 2*k)
				if vlan != 0 {
					p = onSegment(p)
				}
				if _, err := unix.Write(wire, p.AppendTo(nil)); err != nil {
					return err
				}
			}
			a, tag, err := nextRoCE(wire)
			if err != nil {
				return fmt.Errorf("VLAN %d, message %d: %w; counters %+v", vlan, k, err, b.Counters().Direction)
			}
			if a.SrcIP != to[0] || a.DestQP != 0x55 || tag != vlan {
				return fmt.Errorf("VLAN %d is answered on VLAN %d by %+v", vlan, tag, a)
			}
		}
	}
	wrong, _ := lcore.DropNamed("wrong_partition")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		c := b.Counters().Direction
		if c[lcore.RoCEToIB].Drops[wrong] == 2*n && c[lcore.RoCEToIB].Sent == 2*n && c[lcore.IBToRoCE].Sent == 2*n {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("counted %+v", c)
		}
	}
}

// rawSocket opens a packet socket on an interface.
func rawSocket(name string) (int, error) {
	netdev, err := net.InterfaceByName(name)
	if err != nil {
		return 0, err
	}
	s, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	return s, errors.Join(unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 20}),
		unix.SetsockoptInt(s, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
		unix.Bind(s, &unix.SockaddrLinklayer{Protocol: wireOrder(unix.ETH_P_ALL), Ifindex: netdev.Index}))
}

// nextRoCE waits for a RoCE frame of the bridge's, and returns its VLAN, which the kernel has taken out (packet(7)).
func nextRoCE(s int) (p roce.Packet, vlan uint16, err error) {
	const vlanValid, atTCI = 1 << 4, 16 // struct tpacket_auxdata
	b, aux := make([]byte, 4096), make([]byte, 128)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		n, more, _, from, err := unix.Recvmsg(s, b, aux, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return p, 0, err
		}
		if l, ok := from.(*unix.SockaddrLinklayer); ok && l.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		if p, err = roce.Parse(b[:n]); err != nil {
			continue
		}
		all, err := unix.ParseSocketControlMessage(aux[:more])
		if err != nil {
			return p, 0, err
		}
		for _, m := range all {
			if d := m.Data; m.Header.Type == unix.PACKET_AUXDATA && len(d) >= atTCI+2 && binary.NativeEndian.Uint32(d)&vlanValid != 0 {
				vlan = binary.NativeEndian.Uint16(d[atTCI:]) & 0xfff
			}
		}
		return p, vlan, nil
	}
	return p, 0, errors.New("nothing came")
}

func TestSegmentsOverVeth(t *testing.T) {
	sharedInterface(t)
	logTask(t, "segments-veth")
}
