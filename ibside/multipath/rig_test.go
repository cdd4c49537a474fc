// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"causeway/dpdk"
	"causeway/ibside"
	"causeway/ibside/fabric"
	"causeway/ibside/fabricport"
	"causeway/ibside/fabricport/porttest"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
)

// TestMain has many tests wait beside each other, even on few CPUs: most of what they do is to wait.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	eal, err := dpdk.Init(dpdk.EALConfig{Name: "multipath", MemoryMiB: 1024, ForceNoHuge: true})
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
	groupQKey = ib.QKey(0x01234567)
	proxyQKey = ib.QKey(0x1111)
	holdDown  = 500 * time.Millisecond
	areaLen   = 40
)

// The second fabric has another P_Key, which is in the MGIDs of IP.
var (
	pkeys = []ib.PKey{0xffff, 0x8001}
	group = ib.GID{0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 15: 9}
)

// rig is two software subnets with a peer on each, and the test as the worker.
type rig struct {
	pool    *dpdk.Mempool
	fabrics []*fabric.Fabric
	ports   []ibside.OpenPort
	port    *Port
	peers   []*peer
	rule    Rule
	log     *events

	mu       sync.Mutex
	received []porttest.Recv // with the payload in place of the mbuf
	payloads [][]byte
	stop     chan struct{}
	ended    sync.WaitGroup
	n        int        // polled
	working  sync.Mutex // by who is the worker
}

// events are lines of the log.
type events struct {
	mu    sync.Mutex
	lines []string
}

func (e *events) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lines = append(e.lines, string(b))
	return len(b), nil
}

func (e *events) has(words ...string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, line := range e.lines {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			return true
		}
	}
	return false
}

// peer is a node on one fabric.
type peer struct {
	hca   *fabric.HCA
	qp    *fabric.QP
	recv  *fabric.RecvQueue
	group ib.MCMemberFields
}

func nodeGUID(i int) ib.GUID { return ib.GUID(0x7 + 0x100*i) }

func newPeer(t *testing.T, f *fabric.Fabric, i int) *peer {
	t.Helper()
	port, err := f.Attach(fabric.PortConfig{Name: fmt.Sprint("peer", i), GUID: nodeGUID(i)})
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{hca: fabric.NewHCA(port), recv: fabric.NewRecvQueue(1 << 16)}
	if p.qp, err = p.hca.CreateQP(fabric.QPConfig{QKey: groupQKey, Recv: p.recv}); err != nil {
		t.Fatal(err)
	}
	mgid := replacePKey(group, pkeys[0], pkeys[i])
	p.group, err = fabric.NewSAClient(p.hca).Join(t.Context(), ib.MCMemberFields{MGID: mgid, QKey: groupQKey, PKey: pkeys[i], JoinState: ib.JoinFull})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.qp.AttachMulticast(mgid); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *peer) toGroup(payload []byte, imm uint32) string {
	return p.qp.Send(&fabric.Send{AH: fabric.AH{DLID: p.group.MLID, GRH: &ib.GRHFields{DGID: p.group.MGID}},
		DestQP: ib.QPMulticast, QKey: groupQKey, Payload: payload, Imm: imm, HasImm: imm != 0})
}

// take returns what has come to the peer.
func (p *peer) take() (all []fabric.Received) {
	var burst [64]fabric.Received
	for {
		n := p.recv.Poll(burst[:])
		if all = append(all, burst[:n]...); n == 0 {
			return all
		}
	}
}

// newRig returns a rig, of which some may be there at a time.
func newRig(t *testing.T, rule Rule) *rig {
	t.Helper()
	t.Parallel()
	return newRigAlone(t, rule)
}

// newRigAlone returns the only rig, for a test of what takes some milliseconds.
func newRigAlone(t *testing.T, rule Rule) *rig {
	t.Helper()
	r := &rig{rule: rule, stop: make(chan struct{}), log: &events{}}
	var err error
	if r.pool, err = dpdk.NewMempool(strings.ReplaceAll(t.Name()[max(0, len(t.Name())-24):], "/", "_"), 4096, dpdk.Headroom+40+4096+7, fabricport.PrivSize); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(r.log, nil))
	var members []Member
	for i, name := range []string{"a", "b"} {
		f, err := fabric.New(fabric.Config{PKeys: []ib.PKey{pkeys[i]}, MTU: []ib.MTU{ib.MTU4096, ib.MTU2048}[i]})
		if err != nil {
			t.Fatal(err)
		}
		r.peers = append(r.peers, newPeer(t, f, i))
		p, err := fabricport.Open(fabricport.Config{Subnet: f, Name: "bridge", PKey: pkeys[i], Pool: r.pool, Workers: 1, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		r.fabrics, r.ports = append(r.fabrics, f), append(r.ports, p)
		members = append(members, Member{Name: name, Fabric: name, Port: p, PKey: pkeys[i]})
	}
	r.port, err = New(Config{
		Members: members, Workers: 1, Pool: r.pool, ProxyQPs: 16, Groups: 16, Nodes: 16, HoldDown: holdDown, MaxLoss: 0.1, Log: log,
		Rule: func(ib.GID) Rule { return r.rule },
		GIDs: func(gid ib.GID) []ib.GID {
			if gid == nodeGID(0) {
				return []ib.GID{nodeGID(0), nodeGID(1)}
			}
			return []ib.GID{gid, gid}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.port.othersWait = patience
	r.ended.Go(r.poll)
	r.ended.Go(func() { // management's part, without which the ports wait
		for {
			select {
			case <-r.port.Notices():
			case <-r.stop:
				return
			}
		}
	})
	t.Cleanup(func() { r.end(t) })
	return r
}

func nodeGID(i int) ib.GID { return ib.GIDFromGUID(fabric.PrefixLinkLocal, nodeGUID(i)) }

func (r *rig) end(t *testing.T) {
	if t.Failed() {
		t.Logf("%+v\n%s", r.port.Reports(), strings.Join(r.log.lines, ""))
	}
	r.settle()
	close(r.stop)
	r.ended.Wait()
	var posted, received uint64
	for i, x := range r.port.Reports() {
		c := x.Counters
		posted += c.Posted
		received += c.Received
		if c.Posted != c.Sent+c.Full {
			t.Errorf("port %d posted %d, sent %d, and lost %d", i, c.Posted, c.Sent, c.Full)
		}
	}
	if received != uint64(r.n) {
		t.Errorf("the ports brought %d messages, and the worker polled %d", received, r.n)
	}
	if err := r.port.Close(); err != nil {
		t.Error(err)
	}
	for i, f := range r.fabrics {
		if err := r.peers[i].hca.Close(); err != nil {
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if s, _ := f.Stats(); s.In+s.Copies != s.Out+s.Drops.Sum() {
			t.Errorf("the switch of fabric %d does not balance: %+v", i, s)
		}
	}
	if n := r.pool.InUse(); n != 0 {
		t.Errorf("%d mbufs are in use at the end", n)
	}
	if err := r.pool.Free(); err != nil {
		t.Error(err)
	}
}

// poll is the worker's loop, without posts.
func (r *rig) poll() {
	for {
		select {
		case <-r.stop:
			return
		default:
		}
		r.working.Lock()
		n := r.take()
		r.working.Unlock()
		if n == 0 {
			time.Sleep(200 * time.Microsecond)
		}
	}
}

// asWorker makes the test the worker.
func (r *rig) asWorker(t *testing.T) {
	r.working.Lock()
	t.Cleanup(r.working.Unlock) // before the rig's
}

// take polls once.
func (r *rig) take() int {
	got := porttest.Poll(r.port.Pointer(0), 64)
	porttest.Free(r.port.Pointer(0))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n += len(got)
	for _, g := range got {
		r.received = append(r.received, g)
		r.payloads = append(r.payloads, append([]byte(nil), g.Mbuf.Bytes()...))
		g.Mbuf.Free()
	}
	return len(got)
}

// taken returns what came since the last call: numbers of messages that may cross in order, and how many others there are.
func (r *rig) taken(t *testing.T) (numbers []uint64, standby, duplicate int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, g := range r.received {
		switch g.Arrival {
		case porttest.Standby:
			standby++
		case porttest.Duplicate:
			duplicate++
		default:
			s, verdict := stamp.Read(r.payloads[i][areaLen:])
			if !verdict.Intact() {
				t.Errorf("message %d is damaged", i)
			}
			numbers = append(numbers, s.Number)
		}
	}
	r.received, r.payloads = nil, nil
	return numbers, standby, duplicate
}

// last returns the last message that came, with its area.
func (r *rig) last(t *testing.T) (last porttest.Recv, text []byte) {
	t.Helper()
	within(t, patience, "a message", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		n := len(r.received)
		if n > 0 {
			last, text = r.received[n-1], r.payloads[n-1]
			r.received, r.payloads = nil, nil
		}
		return n > 0
	})
	return last, text
}

func (r *rig) join(t *testing.T) ibside.Membership {
	t.Helper()
	m, err := r.port.Join(t.Context(), ibside.Join{MGID: group, QKey: groupQKey, PKey: pkeys[0], Receive: true})
	if err != nil {
		t.Fatal(err)
	}
	within(t, patience, "joined on both", func() bool {
		x := r.port.Reports()
		return x[0].Missing+x[1].Missing == 0
	})
	return m
}

// meet has the peers be one node, which has one name on both fabrics.
func (r *rig) meet(t *testing.T) {
	t.Helper()
	if _, err := r.port.Path(t.Context(), nodeGID(0), pkeys[0]); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "both ways", func() bool { return r.port.Reports()[1].Nodes == 1 })
}

// send posts one message of the worker's. Only one goroutine of a test may.
func (r *rig) send(t *testing.T, s porttest.Send, payload []byte) {
	t.Helper()
	var err error
	if s.Mbuf, err = r.pool.Alloc(payload); err != nil {
		t.Error(err)
		return
	}
	if porttest.Post(r.port.Pointer(0), []porttest.Send{s}) != 1 {
		t.Error("post took nothing")
	}
}

// active returns the index of the active port of the group.
func (r *rig) active() int {
	for i, x := range r.port.Reports() {
		if x.ActiveGroups > 0 {
			return i
		}
	}
	return -1
}
