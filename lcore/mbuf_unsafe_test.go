// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"testing"
	"unsafe"

	"causeway/dpdk"
	"causeway/ibside/fabricport"
)

// The start of struct rte_mbuf (rte_mbuf_core.h), which DPDK keeps as it is: drivers are compiled against it. The tests
// write to it for the two states that neither of the two ring ports can make.
type mbufHead struct {
	bufAddr, bufIOVA uintptr
	dataOff, refcnt  uint16
	segments, port   uint16
	flags            uint64
	packetType       uint32
	pktLen           uint32
	dataLen          uint16
	_                [22]byte
	next             unsafe.Pointer // in the second cache line
}

func headOf(m dpdk.Mbuf) *mbufHead { return (*mbufHead)(m.Pointer()) }

// setPort writes into an mbuf by which port it came, as drivers do.
func setPort(m dpdk.Mbuf, port uint16) { headOf(m).port = port }

// chain makes second the next segment of first, as a port does with a frame that does not fit one buffer.
func chain(first, second dpdk.Mbuf) {
	a := headOf(first)
	a.next = second.Pointer()
	a.segments = 2
	a.pktLen += uint32(headOf(second).dataLen)
}

// fromIBCut delivers a message at the IB port whose completion says that it has n bytes, with the GRH area.
func (s *rig) fromIBCut(msg message, n int) {
	s.t.Helper()
	s.fromIBChanged(msg, func(h *mbufHead) { h.dataLen, h.pktLen = uint16(n), uint32(n) })
}

// fromIBChanged delivers a message as a ring port cannot, so the mbuf is changed in the ring. To know which mbuf that
// is, all others are taken first.
func (s *rig) fromIBChanged(msg message, change func(h *mbufHead)) {
	s.t.Helper()
	all := make([]dpdk.Mbuf, s.pool.Size()-s.pool.InUse())
	for i := range all {
		var err error
		if all[i], err = s.pool.Alloc(nil); err != nil {
			s.t.Fatal(err)
		}
	}
	all[0].Free()
	if s.ibPort.Deliver(0, []fabricport.Received{fabricport.Received(msg)}) != 1 {
		s.t.Fatal("the port did not take the message")
	}
	h := headOf(all[0])
	if want := 40 + len(msg.Payload); int(h.dataLen) != want {
		s.t.Fatalf("the mbuf of the message has %d bytes, want %d: is it another?", h.dataLen, want)
	}
	change(h)
	for _, m := range all[1:] {
		m.Free()
	}
	s.work()
}

func TestMbufLayout(t *testing.T) {
	s := newRig(t, smallFixture())
	m, err := s.pool.Alloc(pattern(77))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	if h := headOf(m); h.dataLen != 77 || h.pktLen != 77 || h.segments != 1 || h.next != nil || h.refcnt != 1 {
		t.Errorf("struct rte_mbuf is not laid out as the tests assume: %+v", *h)
	}
}
