// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// The kernel's ring of frames (packet(7), PACKET_RX_RING). The PMD walks it as one array, so a block must be a
// whole number of frames, and the kernel wants it to be a whole number of pages: 64 frames of a multiple of 64
// bytes are both, and waste least.
const (
	afFrameUnit   = 64
	afBlockFrames = 64
	// afDataOffset is where the kernel puts the Ethernet header in a frame of TPACKET_V2.
	afDataOffset = 66
	// afHeaderLen is what the PMD thinks the header takes (TPACKET2_HDRLEN less a sockaddr_ll); it wants mbufs for
	// all the rest of a frame.
	afHeaderLen = 32
)

// planAFPacket takes over an interface's frames by a packet socket per queue. Several queues share the frames by
// the kernel's flow hash (PACKET_FANOUT_HASH), which takes in ports: workers must sort hosts themselves.
func planAFPacket(arg string, config *PortConfig) (portPlan, error) {
	if err := interfaceName(arg, formAFPacket); err != nil {
		return portPlan{}, err
	}
	netdev, err := net.InterfaceByName(arg)
	if err != nil {
		return portPlan{}, noInterface{fmt.Errorf("there is no interface %s; there are %s", arg, interfaceNames())}
	}
	mtu := mtuOr(config.MTU, netdev.MTU)
	if mtu > netdev.MTU {
		return portPlan{}, fmt.Errorf("MTU %d: the interface has %d; ip link set %s mtu %d", mtu, netdev.MTU, arg, mtu)
	}
	if config.RxQueues != config.TxQueues {
		return portPlan{}, fmt.Errorf("%d Rx and %d Tx queues: af_packet has them in pairs; use as many of each", config.RxQueues, config.TxQueues)
	}
	frame := afFrame(mtu)
	var mac [6]byte
	copy(mac[:], netdev.HardwareAddr)
	wanted := roundUp(max(config.RxDescs, config.TxDescs), afBlockFrames)
	frames := afRing(wanted, frame, config.RxQueues, lockableBytes())
	args := fmt.Sprintf("iface=%s,qpairs=%d,blocksz=%d,framesz=%d,framecnt=%d", arg, config.RxQueues,
		frame*afBlockFrames, frame, frames)
	plan := portPlan{args: args, mtu: mtu, mbufRoom: afMbufRoom(mtu), needs: capNetRaw, misses: missesBySockets, rxWakes: rxWakesBySockets, captured: netdev.Index, carriers: []string{arg},
		waits: netdev.Flags&net.FlagUp == 0, mac: mac,
		rings: Rings{Frames: frames, Bytes: 2 * config.RxQueues * frames * frame}}
	if frames < wanted {
		plan.caveat = fmt.Sprintf("the rings have %d frames each, not %d, because the process may lock no more memory: ulimit -l unlimited, "+
			"LimitMEMLOCK=infinity or CAP_IPC_LOCK", frames, wanted)
	}
	return plan, nil
}

// Rings are the kernel's rings of a port's packet sockets, one to receive and one to send for each queue.
type Rings struct{ Frames, Bytes int } // frames of each, bytes of all

// Rings returns the rings of an af_packet port; of other ports the zero Rings.
func (p *Port) Rings() Rings { return p.plan.rings }

// afRing is how many frames each ring has: as many as wanted, or what can be locked in memory, as the PMD locks both
// rings of each queue. The least is a block, whether it can be locked or not: the PMD says so.
func afRing(wanted, frame, queues int, lockable uint64) int {
	const rings = 2
	most := lockable / uint64(rings*queues*frame*afBlockFrames) * afBlockFrames
	return max(afBlockFrames, int(min(uint64(wanted), most)))
}

// afFrame is the size of a frame in the kernel's ring.
func afFrame(mtu int) int { return roundUp(afDataOffset+frameRoom(mtu), afFrameUnit) }

// afMbufRoom is what the PMD wants to find in an mbuf after the headroom.
func afMbufRoom(mtu int) int { return afFrame(mtu) - afHeaderLen }

// ErrNoInterface is in the error of OpenPort when the kernel's interface is not there, or not yet.
var ErrNoInterface = errors.New("dpdk: there is no such interface")

// noInterface is an error that is ErrNoInterface as well.
type noInterface struct{ error }

func (noInterface) Is(target error) bool { return target == ErrNoInterface }

func interfaceNames() string {
	all, err := net.Interfaces()
	if err != nil {
		return "none that can be listed: " + err.Error()
	}
	var names []string
	for _, i := range all {
		names = append(names, i.Name)
	}
	return strings.Join(names, ", ")
}
