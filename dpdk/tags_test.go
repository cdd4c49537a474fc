// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"bytes"
	"slices"
	"testing"
	"time"
)

// TestAFPacketTags checks that a tag of 802.1Q comes as it was sent, and that of another protocol's frame there is left what
// no frame of a wire is like.
func TestAFPacketTags(t *testing.T) {
	ownNetwork(t)
	veth(t, "ours", "theirs", "1500")
	p := open(t, "af_packet:ours", PortConfig{Pool: newPool(t), RxDescs: 64, TxDescs: 64, MTU: 1500})
	wire := kernelEnd(t, "theirs")
	frame := func(tag ...byte) []byte {
		macs := []byte{2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1}
		return slices.Concat(macs, tag, []byte{0x89, 0x15}, bytes.Repeat([]byte{'x'}, 64))
	}
	for _, c := range []struct {
		name string
		tag  []byte
		len  int
	}{
		{"no tag", nil, 78},
		{"802.1Q", []byte{0x81, 0, 0, 100}, 82},
		{"802.1Q, priority", []byte{0x81, 0, 0xa0, 0}, 82},
		{"802.1ad", []byte{0x88, 0xa8, 0, 100}, 17},
		{"802.1ad and 802.1Q", []byte{0x88, 0xa8, 0, 100, 0x81, 0, 0, 100}, 17},
	} {
		sent := frame(c.tag...)
		if err := wire.send(sent); err != nil {
			t.Fatal(err)
		}
		var came []byte
		for deadline := time.Now().Add(time.Minute); came == nil && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			var burst [1]Mbuf
			for _, m := range burst[:p.Rx(0, burst[:])] {
				came = bytes.Clone(m.Bytes())
				m.Free()
			}
		}
		if len(came) != c.len || c.len > 17 && !bytes.Equal(came, sent) {
			t.Errorf("%s: %d bytes came, want %d: % x", c.name, len(came), c.len, came)
		}
	}
}
