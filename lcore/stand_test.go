// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"fmt"
	"net/netip"
	"os"
	"testing"

	"causeway/dpdk"
	"causeway/ibside/fabric/door"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/tables"
)

func TestMain(m *testing.M) {
	eal, err := dpdk.Init(dpdk.EALConfig{Name: "lcoretest", MemoryMiB: 256})
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

// A stand is a bench with a ring for each door: the test is both fabrics.
type stand struct {
	t      *testing.T
	pool   *dpdk.Mempool
	port   *dpdk.RingPort
	door   *door.Door
	tables *tables.Tables
	bench  *lcore.Bench
	worker *lcore.Worker
	held   []lcore.OddFrame
}

// The world of the stand: one RoCE host with one QP, one IB node, one group. The addresses are those of
// the worked examples in testdata.
var (
	bridgeMAC = [6]byte{2, 0, 0, 0, 0, 2}
	hostMAC   = [6]byte{2, 0, 0, 0, 0, 1}
	hostIP    = netip.MustParseAddr("10.10.0.1")
	nodeIP    = netip.MustParseAddr("10.10.0.2")
	bridgeIP  = netip.MustParsePrefix("10.10.0.254/24")
	groupIP   = netip.MustParseAddr("239.1.2.3")
	hostIP6   = netip.MustParseAddr("2001:db8::1")
	nodeIP6   = netip.MustParseAddr("2001:db8::2")
	bridgeIP6 = netip.MustParsePrefix("2001:db8::fe/64")
	nodeGID   = mustGID("fe80::2:c903:0:2")
	bridgeGID = mustGID("fe80::2:c903:0:1")
	groupMGID = mustGID("ff12:4001:ffff::f01:203")
)

const (
	hostQPN    = ib.QPN(0x456)
	nodeQPN    = ib.QPN(0x123)
	standInQPN = ib.QPN(0x777)
	nodeLID    = ib.LID(7)
	bridgeLID  = ib.LID(4)
	groupMLID  = ib.LID(0xc001)
)

func mustGID(s string) ib.GID {
	g, err := ib.ParseGID(s)
	if err != nil {
		panic(err)
	}
	return g
}

func benchConfig() lcore.BenchConfig {
	return lcore.BenchConfig{
		MAC: bridgeMAC, GID: bridgeGID, LID: bridgeLID, RoCEPKey: ib.PKeyDefault,
		IBMTU: 4096, RoCEMTU: 4096, Versions: lcore.V1 | lcore.V2, TTL: 64, RewriteImm: true,
		Addresses: []netip.Prefix{bridgeIP, bridgeIP6},
		Allow:     []netip.Prefix{bridgeIP.Masked(), bridgeIP6.Masked()},
	}
}

// newStand builds a stand; at the end of the test it asserts conservation and that no mbuf is in use.
func newStand(t *testing.T, cfg lcore.BenchConfig) *stand {
	t.Helper()
	s := &stand{t: t}
	var err error
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s.pool, err = dpdk.NewMempool("stand", 4095, lcore.DataRoom, door.PrivSize)
	check(err)
	s.port, err = dpdk.OpenRingPort(dpdk.PortConfig{Pool: s.pool})
	check(err)
	check(s.port.Port.Start())
	s.door, err = door.New(s.pool, 1, 1024)
	check(err)
	s.tables, err = tables.New(tables.Config{MaxHosts: 1024, MaxStandIns: 1024, MaxNodes: 1024, MaxGroups: 64, MaxReaders: 4})
	check(err)
	s.bench, err = lcore.NewBench(cfg, s.tables.Pointer())
	check(err)
	s.worker, err = s.bench.NewWorker(lcore.WorkerConfig{Port: s.port.Port.ID(), Door: s.door.Pointer(0), MaxGroups: 64})
	check(err)
	t.Cleanup(s.close)
	return s
}

func (s *stand) close() {
	for _, o := range s.held {
		if o.Held != nil {
			o.Held.Drop(lcore.DropShutdown)
		}
	}
	final := s.bench.Close()
	for d, c := range final.Direction {
		if !c.Conserved() {
			s.t.Errorf("%v: received %d, sent %d, dropped %d: %v", lcore.Direction(d), c.Received, c.Sent, c.Dropped(), c.Drops)
		}
	}
	if o := final.Odd; o.Received != o.Handed+o.Full {
		s.t.Errorf("odd frames: received %d, handed %d, lost %d", o.Received, o.Handed, o.Full)
	}
	s.drainPort()
	for _, err := range []error{s.door.Close(), s.port.Port.Close()} {
		if err != nil {
			s.t.Error(err)
		}
	}
	s.tables.Close()
	if n := s.pool.InUse(); n != 0 {
		s.t.Errorf("%d mbufs are in use at the end", n)
	}
	if err := s.pool.Free(); err != nil {
		s.t.Error(err)
	}
}

// populate puts the host, its stand-in, the node and the group on the shelves.
func (s *stand) populate() {
	s.t.Helper()
	put := func(_ uint32, err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	for i, ip := range []netip.Addr{hostIP, hostIP6} {
		put(s.tables.PutHost(tables.Host{IP: ip, MAC: hostMAC, Version: lcore.V2}))
		put(s.tables.PutStandIn(tables.StandIn{
			Host: ip, HostQPN: hostQPN, QP: uint32(40 + i), QPN: standInQPN + ib.QPN(i), QKey: ib.QKeyRDMAUDP, Version: lcore.V2,
		}))
	}
	put(s.tables.PutNode(tables.Node{IP4: nodeIP, IP6: nodeIP6, GID: nodeGID, LID: nodeLID, SL: 2}))
	put(s.tables.PutGroup(tables.Group{
		IP: groupIP, MGID: groupMGID, MLID: groupMLID, QKey: ib.QKeyRDMAUDP, RoCEQKey: ib.QKeyRDMAUDP,
		MTUToIB: 2048, MTUToRoCE: 2048, Version: lcore.V2, ToIB: true, ToRoCE: true, RewriteImm: true,
	}))
}

// fromRoCE has frames come in at the Ethernet port, and the worker work.
func (s *stand) fromRoCE(frames ...[]byte) {
	s.t.Helper()
	for _, f := range frames {
		m, err := s.pool.Alloc(f)
		if err != nil {
			s.t.Fatal(err)
		}
		if s.port.ToPort(0).Enqueue([]dpdk.Mbuf{m}) != 1 {
			m.Free()
			s.t.Fatal("the port's ring is full")
		}
	}
	s.work()
}

// work steps until nothing moves any more.
func (s *stand) work() {
	for s.worker.Step() > 0 {
		s.held = append(s.held, s.worker.TakeOdd()...)
	}
}

// toIB takes what the worker posted.
func (s *stand) toIB() []door.Sent {
	buf := make([]door.Sent, 1024)
	for i := range buf {
		buf[i].Payload = make([]byte, 0, 4096)
	}
	return buf[:s.door.Take(0, buf)]
}

// fromIB has messages come in at the IB door, and the worker work.
func (s *stand) fromIB(msgs ...door.Received) {
	s.t.Helper()
	if n := s.door.Deliver(0, msgs); n != len(msgs) {
		s.t.Fatalf("the door took %d of %d messages", n, len(msgs))
	}
	s.work()
}

// toRoCE takes what the worker sent on Ethernet.
func (s *stand) toRoCE() [][]byte {
	var out [][]byte
	var b [64]dpdk.Mbuf
	for n := s.port.FromPort(0).Dequeue(b[:]); n > 0; n = s.port.FromPort(0).Dequeue(b[:]) {
		for _, m := range b[:n] {
			out = append(out, m.Bytes())
			m.Free()
		}
	}
	return out
}

func (s *stand) drainPort() { s.toRoCE() }

// drops returns the drops of one direction.
func (s *stand) drops(d lcore.Direction) map[lcore.Drop]uint64 {
	return s.bench.Counters().Direction[d].Drops
}
