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
