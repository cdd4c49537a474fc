// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"net/netip"
	"testing"

	"causeway/dpdk"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame/roce"
	"causeway/tables"
)

// shapes are cases with packets of different forms.
var shapes = map[string]shape{
	"IPv4":   square(1024),
	"IPv6":   {hosts: 1024, qpns: 1, nodes: 1024, six: true},
	"VLAN":   {hosts: 1024, qpns: 1, nodes: 1024, vlan: 100},
	"QPs":    {hosts: 1, qpns: 1024, nodes: 64},
	"groups": {hosts: 64, qpns: 1, nodes: 64, groups: 128},
	"marked": {hosts: 64, qpns: 1, nodes: 64, marked: true},
	"one":    {hosts: 1, qpns: 1, nodes: 1},
}

// look returns the next packet of the lane's ring, and moves it to the ring's end. No loop may run meanwhile.
func (l *lane) look() []byte {
	var m [1]dpdk.Mbuf
	if l.ring.Dequeue(m[:]) == 0 {
		return nil
	}
	b := bytes.Clone(m[0].Bytes())
	l.ring.Enqueue(m[:])
	return b
}

// run has a loop move packets through the rig a few times; the addresses that are left are those of the last trip.
func run(t *testing.T, r *rig, l loop) {
	t.Helper()
	cfg := short()
	if _, err := cfg.read(lcores[0], l); err != nil {
		t.Fatal(err)
	}
	if err := r.verify(); err != nil {
		t.Fatal(err)
	}
}

// frames parses all packets in a lane's ring, including their ICRC.
func frames(t *testing.T, l *lane) []roce.Packet {
	t.Helper()
	var all []roce.Packet
	for i := range inFlight {
		b := l.look()
		p, err := roce.Parse(b)
		if err != nil {
			t.Fatalf("packet %d: %v: %x", i, err, b)
		}
		if !bytes.Equal(p.Payload, payload(l.rig.size)) {
			t.Fatalf("packet %d: payload %x", i, p.Payload)
		}
		all = append(all, p)
	}
	return all
}

// Readdressed frames are correct to the last bit, and the tables have entries for them: the worker drops none.
func TestReaddressedFrames(t *testing.T) {
	for name, s := range shapes {
		for _, size := range []int{64, 1024} {
			r := testRig(t, s, lcore.RoCEToIB, size)
			t.Run(name, func(t *testing.T) {
				run(t, r, r.lanes[0].worker())
				want := s.packet(0, size)
				from, to := map[any]int{}, map[netip.Addr]int{}
				for _, p := range frames(t, r.lanes[0]) {
					from[[2]any{p.SrcIP, p.SrcQP}]++
					to[p.DstIP]++
					got := p
					got.SrcIP, got.DstIP, got.SrcQP, got.OpCode, got.Payload = want.SrcIP, want.DstIP, want.SrcQP, 0, want.Payload
					if !bytes.Equal(got.AppendTo(nil), want.AppendTo(nil)) {
						t.Fatalf("more than addresses has changed: %+v", p)
					}
				}
				spread(t, "sources", len(from), s.sources())
				spread(t, "destinations", len(to), s.destinations())
			})
		}
	}
}

// spread checks how many of n equally likely values 2048 draws have hit: all but a share of e^(-2048/n).
func spread(t *testing.T, what string, got, n int) {
	t.Helper()
	if got > n || got < n*4/5 {
		t.Errorf("%d %s of %d", got, what, n)
	}
}

// Readdressed messages are converted correctly, and use all proxy QPs.
func TestReaddressedMessages(t *testing.T) {
	for name, s := range shapes {
		r := testRig(t, s, lcore.IBToRoCE, 64)
		t.Run(name, func(t *testing.T) {
			run(t, r, r.lanes[0].worker())
			from, to := map[netip.Addr]int{}, map[any]int{}
			for _, p := range frames(t, r.lanes[0]) {
				from[p.SrcIP]++
				to[[2]any{p.DstIP, p.DestQP}]++
				if p.SrcQP != nodeQPN || p.QKey != ib.QKeyRDMAUDP || (p.Tag != nil) != (s.vlan != 0) {
					t.Fatalf("%+v", p)
				}
			}
			spread(t, "sources", len(from), s.nodes)
			if s.multicast() {
				spread(t, "groups", len(to), s.groups)
			} else {
				spread(t, "proxy QPs", len(to), s.proxyQPs())
			}
		})
	}
}

// Floors and peer keep packets correct, too, and lose none.
func TestLoops(t *testing.T) {
	for _, d := range []lcore.Direction{lcore.RoCEToIB, lcore.IBToRoCE} {
		r := testRig(t, square(64), d, 256)
		t.Run(d.String(), func(t *testing.T) {
			l := r.lanes[0]
			for _, make := range []func() (loop, error){
				func() (loop, error) { return l.floor(readNothing) }, func() (loop, error) { return l.floor(readWords) }, l.peer,
			} {
				c, err := make()
				if err != nil {
					t.Fatal(err)
				}
				run(t, r, c)
				if d == lcore.RoCEToIB {
					frames(t, l)
				}
			}
			frames(t, l) // the packets of the peer
			run(t, r, l.worker())
			frames(t, l)
		})
	}
}

// Packets reach all entries of a table much larger than the ring: proxy QPs have a mark that shows their use.
func TestStreamCoversTable(t *testing.T) {
	const entries = 1 << 16
	s := square(entries)
	for _, d := range []lcore.Direction{lcore.RoCEToIB, lcore.IBToRoCE} {
		t.Run(d.String(), func(t *testing.T) {
			r := testRig(t, s, d, 64)
			w := r.lanes[0].worker()
			for w.done() < 10*entries {
				run(t, r, w)
			}
			used := 0
			for i := range entries {
				if toIB, toRoCE := r.tables.ProxyQPs.TakeUsed(tables.HostQP{Host: s.hostIP(i), HostQPN: hostQPN}); toIB || toRoCE {
					used++
				}
			}
			if used < entries*99/100 { // random draws would miss 3 of them
				t.Errorf("%d packets used %d proxy QPs of %d", w.done(), used, entries)
			}
		})
	}
}

// The steps of one packet take it to nearly all addresses: the cycle is long.
func TestStreamIsLong(t *testing.T) {
	s := square(1 << 20)
	p := s.packet(0, 64)
	all := s.layout().stream(p.AppendTo(nil), 1<<20-1, 1<<20-1)
	seen := map[uint32]bool{}
	at := uint32(0)
	for i := range len(all) {
		at ^= all[i*inFlight%len(all)].to
		seen[at] = true
	}
	if want := len(all) * 9 / 10; len(seen) < want { // draws hit some places twice
		t.Errorf("a packet came to %d places in %d trips, want %d", len(seen), len(all), want)
	}
}
