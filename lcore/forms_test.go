// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"bytes"
	"encoding/hex"
	"slices"
	"testing"

	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

// forms returns a packet as machines may write it: with and without a UDP checksum, with a priority tag or other priorities, and with
// padding behind it.
func forms(g *generator, p *roce.Packet) (all [][]byte) {
	tags := []*frame.VLANFields{p.Tag}
	switch {
	case p.Tag == nil && g.w.config.VLAN == 0:
		tags = append(tags, &frame.VLANFields{}, &frame.VLANFields{PCP: uint8(g.IntN(8)), DEI: true})
	case p.Tag != nil:
		tags = append(tags, &frame.VLANFields{VID: p.Tag.VID, PCP: p.Tag.PCP ^ 5, DEI: !p.Tag.DEI})
	}
	for _, tag := range tags {
		for _, checksum := range []bool{false, true} {
			x := *p
			x.Tag, x.UDPChecksum = tag, checksum
			f := x.AppendTo(nil)
			all = append(all, f, append(bytes.Clone(f), make([]byte, 1+g.IntN(20))...))
		}
	}
	return slices.DeleteFunc(all, func(f []byte) bool { return len(f) > lcore.DataRoom-lcore.Headroom }) // what fits one mbuf
}

// TestOneVerdict: whatever the form of a packet, and whatever came before, the same becomes of it.
func TestOneVerdict(t *testing.T) {
	packets, seed := drawn(t)
	n := packets / 10 / len(fixtures)
	for i, x := range fixtures {
		t.Run(x.name, func(t *testing.T) {
			w := smallFixture().with(x.change)
			s, r, g := newRig(t, w), newReference(w), newGenerator(w, seed, uint64(100+i))
			var batch [][]byte
			for range n {
				p := g.packet()
				all := forms(g, &p)
				if len(all) == 0 {
					continue
				}
				want, why := r.fromRoCE(all[0])
				for _, f := range all[1:] {
					if got, reason := r.fromRoCE(f); reason != why || why == "" && !got.equal(&want) {
						t.Fatalf("%s\nis %q, %+v, and in another form\n%s\n%q, %+v", hex.EncodeToString(all[0]), why, want, hex.EncodeToString(f), reason, got)
					}
				}
				if batch = append(batch, all...); len(batch) < differentialBatch {
					continue
				}
				g.Shuffle(len(batch), func(a, b int) { batch[a], batch[b] = batch[b], batch[a] })
				if compare(t, s, r, batch[:differentialBatch]); t.Failed() {
					return
				}
				batch = batch[:0]
			}
			c := s.counters(lcore.RoCEToIB)
			t.Logf("%d frames: %d sent, drops %v", c.Received, c.Sent, c.Drops)
		})
	}
}
