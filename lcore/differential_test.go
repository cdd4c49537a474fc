// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"strconv"
	"testing"

	"causeway/ibside/ib"
	"causeway/lcore"
)

// The C is compared with the reference model. CAUSEWAY_PACKETS sets how many packets each way, CAUSEWAY_SEED which: the
// same number gives the same ones, and without it they are those of 0. A difference is printed as the frame in hex with
// both verdicts, and should become a case in drops_*_test.go or conversion_test.go.

const (
	differentialPackets = 2_000_000
	differentialBatch   = 256
)

// drawn returns how many packets a differential test takes, and the seed that they are drawn by, which it logs.
func drawn(t *testing.T) (packets int, seed uint64) {
	t.Helper()
	otherwise := differentialPackets
	if testing.Short() {
		otherwise /= 20
	}
	packets, seed = int(fromEnvironment(t, "CAUSEWAY_PACKETS", uint64(otherwise))), fromEnvironment(t, "CAUSEWAY_SEED", 0)
	t.Logf("CAUSEWAY_PACKETS=%d CAUSEWAY_SEED=%d", packets, seed)
	return packets, seed
}

func fromEnvironment(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	s := os.Getenv(variable)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		t.Fatalf("%s=%s is not a number", variable, s)
	}
	return n
}

// fixtures are the changes of smallFixture that the differential tests run with.
var fixtures = []struct {
	name   string
	change func(*fixture)
}{
	{"default", nil},
	{"VLAN", func(w *fixture) { w.onVLAN(100) }},
	{"narrow", func(w *fixture) {
		c := &w.config
		w.nodes[0].MTU, c.RoCEMTU, c.RewriteImm, c.TTL, c.RoCEPKey = 1024, 256, false, 9, 0x7fff
		c.Allow, c.Versions = []netip.Prefix{netip.MustParsePrefix("10.10.0.0/29")}, lcore.V2
		c.SLOfDSCP = [64]ib.SL{}
	}},
	{"unknown sources bridged", func(w *fixture) { w.config.BridgeUnknown, w.own.LID = true, 0 }},
	{"stale LIDs", staleLIDs},
	{"RoCE port", func(w *fixture) { nodeByIPv4(w); w.config.Versions = lcore.V1 }},
}

// judged is what the C or the model does with a batch.
type judged struct {
	drops map[string]uint64
	sent  []posted
}

func (s *rig) judge(frames [][]byte) judged {
	before := s.counters(lcore.RoCEToIB)
	s.fromRoCE(frames...)
	j := judged{drops: map[string]uint64{}}
	for d, n := range s.droppedSince(lcore.RoCEToIB, before) {
		j.drops[d.String()] = n
	}
	served := j.drops["mad_served"]
	for _, o := range s.takePunted() {
		if o.Pending == nil && served > 0 {
			served--
			continue
		}
		if o.Pending == nil {
			j.drops[isPunted]++
			continue
		}
		j.drops[isPending]++
		o.Pending.Drop(lcore.DropShutdown)
	}
	if served > 0 {
		j.drops["served, and not punted to management"] = served
	}
	for _, m := range s.toIB(0) {
		j.sent = append(j.sent, postedOf(m))
	}
	return j
}

func (r *reference) judge(frames [][]byte) judged {
	j := judged{drops: map[string]uint64{}}
	for _, f := range frames {
		m, why := r.fromRoCE(f)
		if why != "" {
			j.drops[why]++
		} else {
			j.sent = append(j.sent, m)
		}
	}
	return j
}

func (j *judged) equal(o *judged) bool {
	if !maps.Equal(j.drops, o.drops) || len(j.sent) != len(o.sent) {
		return false
	}
	for i := range j.sent {
		if !j.sent[i].equal(&o.sent[i]) {
			return false
		}
	}
	return true
}

func (j judged) String() string { return fmt.Sprintf("drops %v, sent %+v", j.drops, j.sent) }

// compare runs a batch through both. When they differ, it finds the frames at which they do.
func compare(t *testing.T, s, r interface{ judge([][]byte) judged }, frames [][]byte) {
	t.Helper()
	if c, model := s.judge(frames), r.judge(frames); c.equal(&model) {
		return
	}
	for _, f := range frames {
		if c, model := s.judge([][]byte{f}), r.judge([][]byte{f}); !c.equal(&model) {
			t.Errorf("frame %s\nthe C:     %v\nthe model: %v", hex.EncodeToString(f), c, model)
		}
	}
	if !t.Failed() {
		t.Errorf("a burst of %d frames and the same frames one by one have different results", len(frames))
	}
}

func TestDifferentialFromRoCE(t *testing.T) {
	packets, seed := drawn(t)
	n := packets / len(fixtures)
	total := map[string]uint64{}
	for i, x := range fixtures {
		t.Run(x.name, func(t *testing.T) {
			w := smallFixture().with(x.change)
			s, r, g := newRig(t, w), newReference(w), newGenerator(w, seed, uint64(i))
			frames := make([][]byte, differentialBatch)
			for range n / differentialBatch {
				for i := range frames {
					frames[i] = g.frame()
				}
				if compare(t, s, r, frames); t.Failed() {
					break
				}
			}
			c := s.counters(lcore.RoCEToIB)
			for d, n := range c.Drops {
				total[d.String()] += n
			}
			t.Logf("%d packets: %d sent, drops %v", c.Received, c.Sent, c.Drops)
			if c.Sent < c.Received/20 {
				t.Errorf("only %d of %d packets were good: the generator is too destructive", c.Sent, c.Received)
			}
		})
	}
	if t.Failed() || n < 100_000 {
		return
	}
	for _, c := range roceCases() {
		if c.drop == "wrong_partition" { // takes a bound segment: TestDifferentialSegments provokes it
			continue
		}
		if c.drop != "" && total[c.drop] == 0 {
			t.Errorf("no packet was dropped by %s: the generator does not provoke it", c.drop)
		}
	}
}

// seeds are the packets that TestEveryMutation damages in every way.
func seeds() [][]byte {
	return [][]byte{
		v4(), v6(), v1(), v4(to(group4), imm(uint32(hostQPN))), v6(to(group6)), v1(to(group1)), v4(payload(0)), v4(checksummed),
		v6(checksummed, imm(7), payload(2)), plain4(group4, plainPort, 5), plain6(plainPort, 5), plain4(plainOnly, plainPort, 0), cnp(0x81), short(v4(), 0x11, 4), short(v6(), 0x11, 4), short(v1(), 0x11, 4), v4(toQP1(0x80010000, 256)), v6(sidr(ib.AttrSIDRReq)),
		toOwn(), v6(bridgeMessage(), peer6, own6),
	}
}

// mutations cuts f at each byte, puts the extremes and their neighbours into each 16-bit field, and flips each bit,
// with and without making the checksums good.
func mutations(f []byte) [][]byte {
	var out [][]byte
	add := func(m []byte) {
		out = append(out, m, sign(m))
		if f[atEthType] == 8 && len(m) >= at4UDP {
			out = append(out, sum(m), sign(sum(m)))
		}
	}
	for n := range f {
		out = append(out, f[:n])
	}
	for i := range f {
		for bit := byte(1); bit != 0; bit <<= 1 {
			add(patch(f, i, f[i]^bit))
		}
	}
	for i := atNet; i+1 < min(len(f), 80); i++ {
		for _, by := range []int{1, -1, 4, -4} {
			m := bytes.Clone(f)
			change(m[i:], by)
			add(m)
		}
		add(patch(f, i, 0, 0))
		add(patch(f, i, 255, 255))
	}
	for n := range 70 {
		out = append(out, append(bytes.Clone(f), pattern(n)...))
	}
	return out
}

func TestEveryMutation(t *testing.T) {
	w := smallFixture()
	s, r := newRig(t, w), newReference(w)
	n := 0
	for _, seed := range seeds() {
		all := mutations(seed)
		for ; len(all) > differentialBatch; all = all[differentialBatch:] {
			compare(t, s, r, all[:differentialBatch])
			n += differentialBatch
		}
		compare(t, s, r, all)
		n += len(all)
	}
	t.Logf("%d packets", n)
}

func TestDifferentialFromIB(t *testing.T) {
	packets, seed := drawn(t)
	n := packets / len(fixtures)
	for i, x := range fixtures {
		t.Run(x.name, func(t *testing.T) {
			w := smallFixture().with(x.change)
			s, r, g := newRig(t, w), newReference(w), newGenerator(w, seed, uint64(i))
			for range n / differentialBatch {
				compareFromIB(t, s, r, g.message)
				if t.Failed() {
					break
				}
			}
			c := s.counters(lcore.IBToRoCE)
			t.Logf("%d messages: %d sent, drops %v", c.Received, c.Sent, c.Drops)
			if c.Sent < c.Received/20 {
				t.Errorf("only %d of %d messages were good: the generator is too destructive", c.Sent, c.Received)
			}
		})
	}
}

func compareFromIB(t *testing.T, s *rig, r interface {
	fromIB(*message) ([]byte, string)
}, draw func() message) {
	t.Helper()
	before := s.counters(lcore.IBToRoCE)
	msgs := make([]message, differentialBatch)
	drops := map[lcore.Drop]uint64{}
	var frames [][]byte
	var sent []int // the index of the frame of each message
	for i := range msgs {
		msgs[i] = draw()
		f, why := r.fromIB(&msgs[i])
		if why == "" {
			frames, sent = append(frames, f), append(sent, i)
			continue
		}
		d, ok := lcore.DropNamed(why)
		if !ok {
			t.Fatalf("the model drops by %q, which is not in drop.def", why)
		}
		drops[d]++
	}
	s.fromIB(msgs...)
	got := s.toRoCE(0)
	if d := s.droppedSince(lcore.IBToRoCE, before); !maps.Equal(d, drops) {
		t.Errorf("the C drops %v, the model %v", d, drops)
	}
	for i := range min(len(got), len(frames)) {
		if !bytes.Equal(got[i], frames[i]) {
			t.Errorf("message %+v\nthe C:     %x\nthe model: %x", msgs[sent[i]], got[i], frames[i])
			return
		}
	}
	if len(got) != len(frames) {
		t.Errorf("the C sent %d frames, the model %d", len(got), len(frames))
	}
}

// FuzzFromRoCE does the same, guided by the coverage of the reference model; options says which checksums are made
// right.
func FuzzFromRoCE(f *testing.F) {
	for _, seed := range seeds() {
		f.Add(uint8(0), seed)
		f.Add(uint8(3), seed)
	}
	w := smallFixture()
	s, r := newRig(f, w), newReference(w)
	f.Fuzz(func(t *testing.T, options uint8, b []byte) {
		if len(b) > lcore.DataRoom-lcore.Headroom {
			return
		}
		if options&1 != 0 && len(b) > at4UDP+60 {
			b = sum(b)
		}
		if options&2 != 0 {
			b = sign(b)
		}
		s.t = t // f may not be used in here
		defer func() { s.t = f }()
		compare(t, s, r, [][]byte{b})
	})
}
