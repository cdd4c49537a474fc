// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"causeway/ibside/ib"
	"causeway/lcore"
)

// wholeTest makes a rig that ends with the test, when no mbuf may be lost.
func wholeTest(t *testing.T, d lcore.Direction, qps, size int, way string) *whole {
	t.Helper()
	w, err := newWhole(wholeShape(qps), d, size, way)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// runWhole takes readings until all that is in flight was sent: a busy machine does less in the time of one. What the worker
// received is sent or dropped, none of it dropped, and what it sent the port has posted, and the HCA carried out.
func runWhole(t *testing.T, w *whole) {
	t.Helper()
	cfg := short()
	r, err := w.read(&cfg)
	counts := func() lcore.DirectionCounters { c := w.rig.datapath.Counters(); return c.Direction[w.rig.direction] }
	for most := counts().Sent + inFlight; err == nil && counts().Sent < most; {
		r, err = w.read(&cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
	x := counts()
	if x.Received != x.Sent+x.Dropped() || x.Dropped() != 0 {
		t.Errorf("received %d, sent %d, dropped %d", x.Received, x.Sent, x.Dropped())
	}
	if err := w.verify(); err != nil {
		t.Error(err)
	}
	if r.worker <= 0 || w.hca != nil && r.device <= 0 {
		t.Errorf("%+v", r)
	}
}

// Towards InfiniBand, the HCA sends what the frames say: to each node from each proxy QP, with their payload.
func TestWholeWayToIB(t *testing.T) {
	for _, way := range []string{direct, libmlx5} {
		for _, size := range []int{64, 1024, 4096} {
			t.Run(fmt.Sprintf("%s, %d B", way, size), func(t *testing.T) {
				const n, qps = 2 * inFlight, 64
				w := wholeTest(t, lcore.RoCEToIB, qps, size, way)
				all := arrayLike(w.c.record, n)
				var pin runtime.Pinner // C writes there
				defer pin.Unpin()
				pin.Pin(&all[0])
				w.c.record, w.c.record_max = &all[0], n
				for tries := 0; w.c.record_n < n && tries < 2000; tries++ { // a busy machine sends less in the time of one
					runWhole(t, w)
				}
				w.c.record = nil
				if w.c.record_n != n {
					t.Fatalf("the HCA has carried out %d sends, want at least %d", w.c.record_n, n)
				}
				from, to := map[uint32]int{}, map[int]int{}
				for i := range all {
					s := &all[i]
					node := int(s.dgid[15]) | int(s.dgid[14])<<8
					if node >= Small || ib.LID(s.dlid) != lid(node) || s.dest_qpn != nodeQPN || ib.QKey(s.qkey) != ib.QKeyRDMAUDP || !s.grh {
						t.Fatalf("message %d: %+v", i, s)
					}
					for k, b := range nodeGID(node) {
						if byte(s.dgid[k]) != b {
							t.Fatalf("message %d: %+v", i, s)
						}
					}
					for k, b := range payload(size)[:min(size, len(s.data))] {
						if int(s.len) != size || byte(s.data[k]) != b {
							t.Fatalf("message %d, byte %d: %+v", i, k, s)
						}
					}
					from[uint32(s.qpn)]++
					to[node]++
				}
				for i := range qps {
					_, qpn := w.rig.shape.proxyQP(i)
					delete(from, uint32(qpn))
				}
				if len(from) != 0 {
					t.Errorf("sent by others than proxy QPs: %v", from)
				}
				spread(t, "nodes", len(to), Small) // the first half is as loaded, to one node
			})
		}
	}
}

// Towards Ethernet, frames are correct to the last bit, from each node to each proxy QP's host.
func TestWholeWayToRoCE(t *testing.T) {
	for _, way := range []string{direct, libmlx5} {
		for _, size := range []int{64, 4096} {
			t.Run(fmt.Sprintf("%s, %d B", way, size), func(t *testing.T) {
				const qps = 64
				w := wholeTest(t, lcore.IBToRoCE, qps, size, way)
				w.c.keep = inFlight
				cfg := short()
				if _, err := w.read(&cfg); err != nil {
					t.Fatal(err)
				}
				from, to := map[netip.Addr]int{}, map[netip.Addr]int{}
				for _, p := range frames(t, w.rig.lanes[0]) {
					if p.SrcQP != nodeQPN || p.DestQP != hostQPN || p.QKey != ib.QKeyRDMAUDP {
						t.Fatalf("%+v", p)
					}
					from[p.SrcIP]++
					to[p.DstIP]++
				}
				spread(t, "nodes", len(from), Small)
				spread(t, "hosts", len(to), qps)
			})
		}
	}
}

// The rounds of both ways and of the path alone lose nothing, with one proxy QP and with many.
func TestWholeWayLosesNothing(t *testing.T) {
	for _, way := range []string{direct, libmlx5, ""} {
		for _, qps := range []int{1, 256, 1 << 12} {
			for _, d := range []lcore.Direction{lcore.RoCEToIB, lcore.IBToRoCE} {
				t.Run(fmt.Sprintf("%s, %d, %v", way, qps, d), func(t *testing.T) {
					w := wholeTest(t, d, qps, 64, way)
					runWhole(t, w)
					runWhole(t, w)
				})
			}
		}
	}
}
