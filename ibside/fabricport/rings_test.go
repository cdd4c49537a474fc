// SPDX-License-Identifier: Apache-2.0

package fabricport

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"causeway/dpdk"
	"causeway/ibside/fabricport/porttest"
	"causeway/ibside/ib"
)

func TestMain(m *testing.M) {
	eal, err := dpdk.Init(dpdk.EALConfig{Name: "fabricport", MemoryMiB: 128, ForceNoHuge: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := eal.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

const (
	testMbufs = 1024
	testRoom  = dpdk.Headroom + 40 + 4096 + 7
)

// newPool makes a pool to which all mbufs must have returned when the test ends.
func newPool(t *testing.T, n, room, priv int) *dpdk.Mempool {
	t.Helper()
	name := strings.ReplaceAll(t.Name(), "/", "_")
	pool, err := dpdk.NewMempool(name[max(0, len(name)-24):], n, room, priv)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Free(); err != nil {
			t.Error(err)
		}
	})
	return pool
}

func newRings(t *testing.T, pool *dpdk.Mempool, workers, depth int) *Rings {
	t.Helper()
	d, err := NewRings(pool, workers, depth)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() }) // before the pool is freed
	return d
}

func alloc(t *testing.T, pool *dpdk.Mempool, payload []byte) dpdk.Mbuf {
	t.Helper()
	m, err := pool.Alloc(payload)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTake(t *testing.T) {
	pool := newPool(t, testMbufs, testRoom, PrivSize)
	d := newRings(t, pool, 2, 256)
	long := bytes.Repeat([]byte{7}, 4096)
	for _, c := range []struct {
		name string
		send porttest.Send
		want Sent
	}{
		{"nothing set", porttest.Send{}, Sent{Payload: []byte{}}},
		{"all fields", porttest.Send{
			DGID: ib.GID{0xff, 0x12, 15: 9}, DLID: 0xc001, SL: 3, HopLimit: 4, TClass: 5, Source: 6, Rate: 7, FlowLabel: 0xfffff,
			QP: 0xffffffff, DestQP: 0xffffff, QKey: 0x81234567, Imm: 0xfedcba98,
			Flags: porttest.SendImm | porttest.SendSolicited | porttest.SendGRH | porttest.SendFECN,
		}, Sent{
			DGID: ib.GID{0xff, 0x12, 15: 9}, DLID: 0xc001, SL: 3, HopLimit: 4, TClass: 5, Source: 6, Rate: 7, FlowLabel: 0xfffff,
			QP: 0xffffffff, DestQP: 0xffffff, QKey: 0x81234567, Imm: 0xfedcba98,
			HasImm: true, Solicited: true, HasGRH: true, FECN: true, Len: 4096, Payload: long,
		}},
		{"solicited only", porttest.Send{Flags: porttest.SendSolicited}, Sent{Solicited: true, Len: 3, Payload: []byte("abc")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.send.Mbuf = alloc(t, pool, c.want.Payload)
			if n := porttest.Post(d.Pointer(1), []porttest.Send{c.send}); n != 1 {
				t.Fatalf("post took %d", n)
			}
			got := make([]Sent, 4)
			if n := d.Take(0, got); n != 0 {
				t.Errorf("worker 0 has %d messages; they are worker 1's", n)
			}
			if n := d.Take(1, got); n != 1 || !reflect.DeepEqual(got[0], c.want) {
				t.Errorf("Take = %d, %+v\nwant 1, %+v", n, got[0], c.want)
			}
			if n := pool.InUse(); n != 0 {
				t.Errorf("%d mbufs in use after Take", n)
			}
		})
	}
}

func TestTakeSegments(t *testing.T) {
	pool := newPool(t, 64, testRoom, PrivSize)
	d := newRings(t, pool, 1, 16)
	for _, c := range []struct {
		name    string
		a, b    int // bytes in the two segments
		payload int
	}{
		{"fit", 1000, 3096, 4096},
		{"first empty", 0, 7, 7},
		{"more than a datagram holds", 4000, 4000, 4096},
	} {
		a, b := bytes.Repeat([]byte{1}, c.a), bytes.Repeat([]byte{2}, c.b)
		head := alloc(t, pool, a)
		if !porttest.Chain(head, alloc(t, pool, b)) {
			t.Fatal("rte_pktmbuf_chain")
		}
		got := make([]Sent, 1)
		if porttest.Post(d.Pointer(0), []porttest.Send{{Mbuf: head}}) != 1 || d.Take(0, got) != 1 {
			t.Fatal("post and Take")
		}
		if got[0].Len != c.a+c.b || !bytes.Equal(got[0].Payload, append(a, b...)[:c.payload]) {
			t.Errorf("%s: Len %d, %d bytes of payload", c.name, got[0].Len, len(got[0].Payload))
		}
	}
}

func TestPostFull(t *testing.T) {
	pool := newPool(t, testMbufs, testRoom, PrivSize)
	d := newRings(t, pool, 1, 100)
	sends := make([]porttest.Send, 150)
	for i := range sends {
		sends[i] = porttest.Send{Mbuf: alloc(t, pool, []byte{byte(i)}), DestQP: ib.QPN(i)}
	}
	took := porttest.Post(d.Pointer(0), sends)
	if took != 100 {
		t.Fatalf("a ring of 100 took %d", took)
	}
	for _, s := range sends[took:] {
		s.Mbuf.Free() // the worker still owns it
	}
	if n := d.pending(); n != 100 {
		t.Errorf("Pending = %d", n)
	}
	got := make([]Sent, 90)
	if n := d.Take(0, got); n != 90 {
		t.Fatalf("Take of 90 = %d", n)
	}
	for i, s := range got {
		if int(s.DestQP) != i || s.Payload[0] != byte(i) {
			t.Fatalf("message %d is %+v: out of order", i, s)
		}
	}
	porttest.Free(d.Pointer(0))
	if n := pool.InUse(); n != 10 {
		t.Errorf("%d mbufs in use; 10 lie in the ring, and Close must free them", n)
	}
}

func TestPostForeignMbuf(t *testing.T) {
	pool := newPool(t, 64, testRoom, PrivSize)
	bare, err := dpdk.NewMempool("bare", 64, testRoom, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := bare.Free(); err != nil {
			t.Error(err)
		}
	}()
	d := newRings(t, pool, 1, 16)
	good, bad := alloc(t, pool, nil), alloc(t, bare, nil)
	if n := porttest.Post(d.Pointer(0), []porttest.Send{{Mbuf: good}, {Mbuf: bad}}); n != 1 {
		t.Errorf("post took %d; the second mbuf has no room for its descriptor", n)
	}
	bad.Free()
}

func TestDeliver(t *testing.T) {
	pool := newPool(t, testMbufs, testRoom, PrivSize)
	d := newRings(t, pool, 1, 256)
	area := [40]byte{0: 0x60, 39: 0xee}
	msgs := []Received{
		{Payload: []byte{}},
		{
			QPN: 0x123456, SrcQP: 0xabcdef, SLID: 0xbfff, SL: 15, Imm: 0x89abcdef, HasImm: true, HasGRH: true,
			Solicited: true, FECN: true, GRH: area, Payload: bytes.Repeat([]byte{9}, 4096),
		},
		{QPN: 2, FECN: true, Payload: []byte("x")},
	}
	if n := d.Deliver(0, msgs); n != 3 {
		t.Fatalf("Deliver = %d", n)
	}
	got := porttest.Poll(d.Pointer(0), 64)
	if len(got) != 3 {
		t.Fatalf("poll = %d", len(got))
	}
	flags := []uint8{0, porttest.RecvImm | porttest.RecvGRH | porttest.RecvSolicited | porttest.RecvFECN, porttest.RecvFECN}
	for i, m := range msgs {
		if b := got[i].Mbuf.Bytes(); !bytes.Equal(b, m.Buffer()) {
			t.Errorf("message %d: %d bytes, want area and payload, %d", i, len(b), len(m.Payload)+40)
		}
		got[i].Mbuf.Free()
		got[i].Mbuf = dpdk.Mbuf{}
		want := porttest.Recv{
			QPN: m.QPN, SrcQP: m.SrcQP, Imm: m.Imm, SLID: m.SLID, SL: m.SL, Flags: flags[i],
		}
		if got[i] != want {
			t.Errorf("message %d: %+v\nwant %+v", i, got[i], want)
		}
	}
}

func TestDeliverStops(t *testing.T) {
	many := make([]Received, 300)
	for i := range many {
		many[i].Imm = uint32(i)
	}
	for _, c := range []struct {
		name        string
		mbufs, room int
		depth, want int
		why         string
	}{
		{"ring full", testMbufs, testRoom, 200, 200, DropRingFull},
		{"pool empty", 128, testRoom, 256, 128, DropNoMbuf},
		{"payload too long", testMbufs, dpdk.Headroom + areaLen + 1024, 256, 250, DropTooLong},
		{"all", testMbufs, testRoom, 300, 300, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool := newPool(t, c.mbufs, c.room, PrivSize)
			d := newRings(t, pool, 1, c.depth)
			many[250].Payload = make([]byte, 1025)
			n, why := d.deliver(0, many)
			if n != c.want || why != c.why {
				t.Fatalf("took %d (%s), want %d (%s)", n, why, c.want, c.why)
			}
			for i := 0; i < n; {
				got := porttest.Poll(d.Pointer(0), 64)
				if len(got) == 0 {
					t.Fatalf("only %d of %d came", i, n)
				}
				for _, r := range got {
					if r.Imm != uint32(i) {
						t.Fatalf("message %d is number %d", i, r.Imm)
					}
					r.Mbuf.Free()
					i++
				}
			}
			if p := d.pending(); p != 0 {
				t.Errorf("Pending = %d", p)
			}
		})
	}
}

func TestNewRingsRejects(t *testing.T) {
	for _, c := range []struct {
		name           string
		room, priv     int
		workers, depth int
		want           string
	}{
		{"no private area", testRoom, 0, 1, 16, "make it with 128"},
		{"small private area", testRoom, 120, 1, 16, "120 private bytes"},
		{"tiny mbufs", dpdk.Headroom + 200, PrivSize, 1, 16, "hold 153 bytes"},
		{"no worker", testRoom, PrivSize, 0, 16, "0 workers"},
		{"no depth", testRoom, PrivSize, 1, 0, "depth 0"},
		{"too deep for the memory", testRoom, PrivSize, 64, 1 << 20, "no memory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool := newPool(t, 16, c.room, c.priv)
			if d, err := NewRings(pool, c.workers, c.depth); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("NewRings = %v, %v; want %q", d, err, c.want)
			}
		})
	}
}
