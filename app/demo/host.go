// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"

	"github.com/vishvananda/netns"

	"causeway/app/segment"
	"causeway/ibside/ib"
	"causeway/lcore/frame/roce"
)

// A host is a RoCE host with one UD QP.
type host struct {
	*segment.Host
	qpn ib.QPN

	mu      sync.Mutex
	onUD    map[ib.QPN]func(*roce.Packet) // by the sender's QPN, for unicast
	onGroup map[netip.Addr]func(*roce.Packet)
}

func newHost(s *segment.Segment, i int, ns netns.NsHandle) (_ *host, err error) {
	h := &host{qpn: ib.QPN(0x100 + rand.IntN(0x1000)), onUD: map[ib.QPN]func(*roce.Packet){}, onGroup: map[netip.Addr]func(*roce.Packet){}}
	h.Host, err = s.AddHost(fmt.Sprintf("host%d", i+1), ns, hostIP4(i), hostIP6(i), h.message)
	return h, err
}

// message passes a message to its receiver. Others are lost: the flow misses them.
func (h *host) message(p *roce.Packet) {
	h.mu.Lock()
	f := h.onGroup[p.DstIP]
	if !p.IsMulticast() {
		f = h.onUD[p.SrcQP]
		if p.DestQP != h.qpn || p.QKey != ib.QKeyRDMAUDP {
			f = nil
		}
	}
	h.mu.Unlock()
	if f != nil {
		f(p)
	}
}

// join makes the host a member of a group.
func (h *host) join(group netip.Addr, f func(*roce.Packet)) error {
	h.mu.Lock()
	h.onGroup[group] = f
	h.mu.Unlock()
	_, err := h.Join(group)
	return err
}

// send sends one UD message.
func (h *host) send(dst netip.Addr, qpn ib.QPN, imm bool, payload []byte) error {
	return h.Send(roce.Packet{
		DstIP: dst, DestQP: qpn, QKey: ib.QKeyRDMAUDP, SrcQP: h.qpn, HasImm: imm, Imm: uint32(h.qpn), Payload: payload,
	})
}
