// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"bytes"
	"slices"
	"testing"
	"time"
)

// TestBondOrder checks that frames that came by a member that leaves are received before those that came by another since,
// and those by one that joins after those by another, in whichever order members are polled.
func TestBondOrder(t *testing.T) {
	ownNetwork(t)
	cables(t, "1500")
	p := open(t, bondOfVeths, PortConfig{Pool: newPool(t), RxDescs: 64, TxDescs: 64})
	wires := []end{kernelEnd(t, "theirs0"), kernelEnd(t, "theirs1")}
	for i := range 16 {
		older, newer, joins := i%2, 1-i%2, i%4 < 2
		setMembers(t, p.Bond(), true, true)
		changes := older
		if joins {
			changes = newer
			setMembers(t, p.Bond(), older == 0, older == 1)
		}
		for range i / 4 { // net_bonding begins with another member each time
			receiveUpTo(p, 1)
		}
		first, second := testFrame(200, 1), testFrame(300, 2)
		if err := wires[older].send(first); err != nil {
			t.Fatal(err)
		}
		if err := p.Bond().Set(changes, true, false); err != nil {
			t.Fatal(err)
		}
		if err := wires[newer].send(second); err != nil {
			t.Fatal(err)
		}
		var got [][]byte
		for end := time.Now().Add(3 * time.Second); len(got) < 2 && time.Now().Before(end); {
			got = append(got, receiveUpTo(p, 8)...)
		}
		if !slices.EqualFunc(got, [][]byte{first, second}, bytes.Equal) {
			t.Errorf("%d: member %d changes, and %d frames are not in the order of sending", i, changes, len(got))
		}
	}
}

// receiveUpTo polls once.
func receiveUpTo(p *Port, most int) (frames [][]byte) {
	burst := make([]Mbuf, most)
	for _, m := range burst[:p.Rx(0, burst)] {
		frames = append(frames, bytes.Clone(m.Bytes()))
		m.Free()
	}
	return frames
}

// TestBondFlowLeaves has the other end send a flow by another member, without a word, while frames of it still wait on the
// one before: those are received first, in whichever order members are polled. UDP ports are part of what a flow is.
func TestBondFlowLeaves(t *testing.T) {
	ownNetwork(t)
	cables(t, "1500")
	p := open(t, bondOfVeths, PortConfig{Pool: newPool(t), RxDescs: 64, TxDescs: 64})
	setMembers(t, p.Bond(), true, true)
	wires := []end{kernelEnd(t, "theirs0"), kernelEnd(t, "theirs1")}
	datagram := func(sport, n int) []byte {
		frame := make([]byte, 80)
		copy(frame, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 9, 0x88, 0xb5})
		if sport != 0 {
			copy(frame[12:], []byte{8, 0, 0x45, 0, 0, 66, byte(n), byte(n), 0, 0, 64, 17, byte(n), 0, 10, 0, 0, 1, 10, 0, 0, 2, byte(sport >> 8), byte(sport)})
		}
		frame[79] = byte(n)
		return frame
	}
	seen := func(want ...[]byte) {
		t.Helper()
		var got [][]byte
		for end := time.Now().Add(3 * time.Second); len(got) < len(want) && time.Now().Before(end); {
			for _, f := range receiveUpTo(p, 8) {
				if f[79] != 0 { // not the kernel's own
					got = append(got, f)
				}
			}
		}
		if !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("%d frames, not in the order of sending: % x", len(got), got)
		}
	}
	send := func(wire int, frame []byte) []byte {
		t.Helper()
		if err := wires[wire].send(frame); err != nil {
			t.Fatal(err)
		}
		return frame
	}
	for i := range 32 {
		sport, from := []int{0, 4000, 5000}[i%3], i/2%2
		seen(send(from, datagram(sport, 1)))
		for range i { // net_bonding begins with another member each time
			receiveUpTo(p, 1)
		}
		seen(send(from, datagram(sport, 2)), send(from, datagram(sport, 3)), send(1-from, datagram(sport, 4)), send(1-from, datagram(sport, 5)))
	}
}
