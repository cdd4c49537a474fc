// SPDX-License-Identifier: Apache-2.0

package lcore_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"causeway/dpdk"
	"causeway/ibside/fabricport"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/pgm"
	"causeway/tables"
)

// workerLcores are the lcores on which a worker can run; none on a machine with one CPU.
var workerLcores []uint

// spareCPU returns the last CPU that this process may use, if it is not the only one.
func spareCPU() []int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil
	}
	_, list, _ := strings.Cut(string(status), "Cpus_allowed_list:")
	list, _, _ = strings.Cut(strings.TrimSpace(list), "\n")
	last := list[strings.LastIndexAny(list, ",-")+1:]
	cpu, err := strconv.Atoi(last)
	if err != nil || last == list {
		return nil
	}
	return []int{cpu}
}

func TestMain(m *testing.M) {
	eal, err := dpdk.Init(dpdk.EALConfig{Name: "lcoretest", MemoryMiB: 256, Workers: spareCPU(), ForceNoHuge: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	workerLcores = eal.WorkerLcores()
	code := m.Run()
	if err := eal.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

const (
	rigMbufs   = 4095
	rigRing    = 2048 // of the port, each way, and of the port's queues
	puntedMost = 2048 // frames of one host that may lie on the punt ring: half of it
	puntClass  = 2730 // frames of one class: two thirds
	handed     = 2048 // the requeue ring: setup.c; DPDK's rings hold one less than their size
)

// rigs numbers the rigs, because DPDK's pools need different names.
var rigs atomic.Int32

// A rig is a datapath between ring ports: the test acts as both fabrics, and as management.
//
//	fromRoCE ─▶ port ─▶ worker ─▶ port ─▶ toIB          punt ring ─▶ takePunted
//	toRoCE   ◀─ port ◀─ worker ◀─ port ◀─ fromIB
//
// Nothing runs by itself: fromRoCE and fromIB step the workers until nothing moves any more.
type rig struct {
	t           testing.TB
	fixture     *fixture
	pool        *dpdk.Mempool
	port        *dpdk.RingPort
	more        []*dpdk.RingPort // further ports
	ibPort      *fabricport.Rings
	fabrics     *fabrics // the InfiniBand ports, of which ibPort is the first; nil: it is alone
	tables      *tables.Tables
	datapath    *lcore.Datapath
	pgm         *pgm.Tracker
	workers     []*lcore.Worker
	ignorePunts bool                // management does not take frames from the punt rings
	punted      []lcore.PuntedFrame // what it took
	sent        []fabricport.Sent   // reused by toIB
}

// newRig builds a rig for a fixture; at the end of the test it asserts conservation and that no mbuf is in use.
func newRig(t testing.TB, w *fixture) *rig {
	t.Helper()
	s := &rig{t: t, fixture: w}
	workers := max(1, w.workers)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	s.pool, err = dpdk.NewMempool(fmt.Sprintf("rig%d", rigs.Add(1)), rigMbufs, lcore.DataRoom, fabricport.PrivSize)
	must(err)
	s.port, err = dpdk.OpenRingPort(dpdk.PortConfig{
		Pool: s.pool, RxQueues: workers, TxQueues: workers, RxDescs: rigRing, TxDescs: rigRing,
	})
	must(err)
	must(s.port.Port.Start())
	var ids []uint16
	for range w.config.MoreMACs {
		p, err := dpdk.OpenRingPort(dpdk.PortConfig{Pool: s.pool, RxQueues: workers, TxQueues: workers, RxDescs: rigRing, TxDescs: rigRing})
		must(err)
		must(p.Port.Start())
		s.more, ids = append(s.more, p), append(ids, p.Port.ID())
	}
	s.ibPort, err = fabricport.NewRings(s.pool, workers, rigRing)
	must(err)
	ibPort := s.ibPort.Pointer
	if s.fabrics = w.fabrics; s.fabrics != nil {
		s.fabrics.open(t, s, w)
		ibPort = s.fabrics.port.Pointer
	}
	s.tables, err = tables.New(tables.Config{MaxHosts: 1024, MaxProxyQPs: 1024, MaxNodes: 1024, MaxGroups: 64, MaxReaders: 4})
	must(err)
	s.datapath, err = lcore.NewDatapath(w.config, s.tables.Pointer())
	must(err)
	s.pgm, err = pgm.New(pgm.Config{Streams: 64})
	must(err)
	t.Cleanup(s.pgm.Close)
	for i := range workers {
		worker, err := s.datapath.NewWorker(lcore.WorkerConfig{
			Port: s.port.Port.ID(), MorePorts: ids, Queue: uint16(i), IBPort: ibPort(i), MaxGroups: 64, PGM: s.pgm.Pointer(),
		})
		must(err)
		s.workers = append(s.workers, worker)
	}
	s.sent = make([]fabricport.Sent, rigRing)
	must(w.populate(s.tables))
	t.Cleanup(s.close)
	return s
}

// close takes the rig down. Every packet that came in must have left by exactly one way.
func (s *rig) close() {
	for _, o := range s.punted {
		if o.Pending != nil {
			o.Pending.Drop(lcore.DropShutdown)
		}
	}
	final := s.datapath.Close()
	s.checkConserved(final)
	for i := range s.workers {
		s.toRoCE(i)
	}
	for i := range s.more {
		for q := range s.workers {
			s.sentBy(i+1, q)
		}
		if err := s.more[i].Port.Close(); err != nil {
			s.t.Error(err)
		}
	}
	closeIB := s.ibPort.Close
	if s.fabrics != nil {
		closeIB = s.fabrics.port.Close
	}
	for _, err := range []error{closeIB(), s.port.Port.Close()} {
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

func (s *rig) checkConserved(c lcore.Counters) {
	s.t.Helper()
	for d, c := range c.Direction {
		if !c.Conserved() {
			s.t.Errorf("%v: received %d, sent %d, dropped %d: %v", lcore.Direction(d), c.Received, c.Sent, c.Dropped(), c.Drops)
		}
	}
	all := append(c.Ports, c.GonePorts)
	for i := range all {
		for d, own := range all[i] {
			if !own.Conserved() {
				s.t.Errorf("port %d, %v: received %d, sent %d, dropped %d: %v", i, lcore.Direction(d), own.Received, own.Sent, own.Dropped(), own.Drops)
			}
			c.Direction[d].Sent -= own.Sent
			c.Direction[d].SentBytes -= own.SentBytes
			if d == int(lcore.RoCEToIB) {
				c.Direction[d].Received -= own.Received
			}
		}
	}
	if d := c.Direction; len(c.Ports) > 0 && (d[0].Sent != 0 || d[0].SentBytes != 0 || d[0].Received != 0 || d[1].Sent != 0 || d[1].SentBytes != 0) {
		s.t.Errorf("the ports have not counted what all have: %+v", d)
	}
	if o := c.Punt; o.Received != o.Handed+o.Full {
		s.t.Errorf("punted frames: received %d, handed %d, lost %d", o.Received, o.Handed, o.Full)
	}
}

// fromRoCE delivers frames at the Ethernet port, for the first worker, and runs the workers.
func (s *rig) fromRoCE(frames ...[]byte) {
	s.t.Helper()
	s.arrive(0, frames...)
	s.work()
}

// portAt returns a port by its index.
func (s *rig) portAt(i int) *dpdk.RingPort {
	return append([]*dpdk.RingPort{s.port}, s.more...)[i]
}

// arrive puts frames into a queue of the port.
func (s *rig) arrive(queue int, frames ...[]byte) {
	s.t.Helper()
	s.arriveBy(0, queue, frames...)
}

// arriveBy puts them into one of a port.
func (s *rig) arriveBy(port, queue int, frames ...[]byte) {
	s.t.Helper()
	burst := make([]dpdk.Mbuf, len(frames))
	for i, f := range frames {
		m, err := s.pool.Alloc(f)
		if err != nil {
			s.t.Fatal(err)
		}
		burst[i] = m
	}
	s.arriveMbufs(port, queue, burst)
}

func (s *rig) arriveMbufs(port, queue int, burst []dpdk.Mbuf) {
	s.t.Helper()
	if n := s.portAt(port).ToPort(queue).Enqueue(burst); n != len(burst) {
		for _, m := range burst[n:] {
			m.Free()
		}
		s.t.Fatalf("the port's ring took %d of %d frames", n, len(burst))
	}
}

// work steps until nothing moves any more.
func (s *rig) work() {
	for moved := 1; moved > 0; {
		moved = 0
		for _, w := range s.workers {
			moved += w.Step()
			if !s.ignorePunts {
				taken := w.TakePunted() // a burst at most: a step with several ports may punt more
				s.punted = append(s.punted, taken...)
				moved += len(taken)
			}
		}
	}
}

// takePunted returns the frames that management took since the last call; the caller ends the pending ones.
func (s *rig) takePunted() []lcore.PuntedFrame {
	punted := s.punted
	s.punted = nil
	return punted
}

// toIB takes the messages that a worker posted. The slice is valid until the next call.
func (s *rig) toIB(worker int) []fabricport.Sent { return s.sent[:s.ibPort.Take(worker, s.sent)] }

// fromIB delivers messages at the IB port, for the first worker, and runs the workers.
func (s *rig) fromIB(msgs ...message) {
	s.t.Helper()
	in := make([]fabricport.Received, len(msgs))
	for i, m := range msgs {
		in[i] = fabricport.Received(m)
	}
	if n := s.ibPort.Deliver(0, in); n != len(in) {
		s.t.Fatalf("the port took %d of %d messages", n, len(in))
	}
	s.work()
}

// toRoCE takes the frames that a worker sent on Ethernet.
func (s *rig) toRoCE(worker int) [][]byte { return s.sentBy(0, worker) }

// sentBy takes those that a worker sent by a port.
func (s *rig) sentBy(port, worker int) [][]byte {
	var out [][]byte
	var b [64]dpdk.Mbuf
	ring := s.portAt(port).FromPort(worker)
	for n := ring.Dequeue(b[:]); n > 0; n = ring.Dequeue(b[:]) {
		for _, m := range b[:n] {
			out = append(out, m.Bytes())
			m.Free()
		}
	}
	return out
}

// counters returns the sum over all workers of one direction.
func (s *rig) counters(d lcore.Direction) lcore.DirectionCounters {
	return s.datapath.Counters().Direction[d]
}

// droppedSince returns what was dropped since before.
func (s *rig) droppedSince(d lcore.Direction, before lcore.DirectionCounters) map[lcore.Drop]uint64 {
	drops := maps.Clone(s.counters(d).Drops)
	for reason, n := range before.Drops {
		if drops[reason] -= n; drops[reason] == 0 {
			delete(drops, reason)
		}
	}
	return drops
}

// message is a message that the IB port receives.
type message fabricport.Received

// grh writes the GRH of a message.
func (m *message) grh(f ib.GRHFields) {
	f.PayLen = ib.BTHLen + ib.DETHLen + (len(m.Payload)+3)&^3 + ib.ICRCLen
	ib.PutGRH(m.GRH[:], f)
}

// reopen gives the rig a new datapath, after a test has closed its own.
func (s *rig) reopen() {
	s.t.Helper()
	datapath, err := lcore.NewDatapath(s.fixture.config, s.tables.Pointer())
	if err != nil {
		s.t.Fatal(err)
	}
	s.datapath = datapath
}

// dirtyMbufs leaves ones in all mbufs, so that bytes that a packet does not write are not zero by chance.
func (s *rig) dirtyMbufs() {
	s.t.Helper()
	ones := bytes.Repeat([]byte{0xff}, lcore.DataRoom-lcore.Headroom)
	all := make([]dpdk.Mbuf, s.pool.Size()-s.pool.InUse())
	for i := range all {
		var err error
		if all[i], err = s.pool.Alloc(ones); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, m := range all {
		m.Free()
	}
}
