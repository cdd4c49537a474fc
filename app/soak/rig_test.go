// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"causeway/app/segment"
	"causeway/ibside/ib"
	"causeway/lcore/frame/roce"
)

// A rig is everything around the bridge, and what goes on there.
type rig struct {
	t       *testing.T
	ctx     context.Context
	random  *rand.Rand // what happens; only the test's own goroutine uses it
	bridge  *bridge
	segment *segment.Segment // in whose namespace the bridge is
	nodes   []*node          // of the first partition, then of the second
	isCut   int              // the fabric that is; -1: none

	partitions []*partition // one, or two

	mu      sync.Mutex
	flows   map[uint32]*flow // by stream
	streams uint32
	tallies map[string]tally // of flows that have ended, by kind
	faults  []string

	crossers  map[uint32]*crosser // by stream; none where there is one partition
	crossings []string            // what has crossed partitions, and is not reported yet

	stops map[uint32]context.CancelFunc // of flows

	asking   sync.WaitGroup
	began    time.Time
	silences []silence
	baseline baseline // of the bridge that runs
	last     baseline // of the last one
}

// A host is a RoCE host with flows of many queue pairs.
type host struct {
	*segment.Host
	i     int
	in    *partition
	leave map[netip.Addr]func() error
}

func (h *host) String() string { return fmt.Sprintf("host %d%s", h.i, h.in.of()) }

// addHost adds a host.
func (r *rig) addHost(in *partition, i int) error {
	ns, err := segment.NewNamespace()
	if err != nil {
		return err
	}
	h := &host{i: i, in: in, leave: map[netip.Addr]func() error{}}
	receive := func(p *roce.Packet) {
		if p.DestQP == ib.QP1 {
			in.services.datagram(h, p)
			return
		}
		if p.QKey != ib.QKeyRDMAUDP || p.PKey != ib.PKeyDefault {
			r.note("a message for QPN %v of %v has Q_Key %v and P_Key %v: its queue pair would not take it", p.DestQP, h, p.QKey, p.PKey)
			return // so that it is lost
		}
		r.deliver(in, h.at(p.DestQP, p.DstIP), p.SrcIP, p.HasImm, p.Imm, p.Payload)
	}
	// The number keeps names apart: the kernel removes an interface some time after its namespace.
	if h.Host, err = in.segment.AddHost(fmt.Sprintf("h%d-%d", i, r.stream()), ns, hostIP4(i), hostIP6(i), receive); err != nil {
		return err
	}
	for len(in.hosts) <= i {
		in.hosts = append(in.hosts, nil)
	}
	in.hosts[i] = h
	return nil
}

// at names a receiver at a host: a queue pair, or a group.
func (h *host) at(qpn ib.QPN, to netip.Addr) string {
	if to.IsMulticast() {
		return fmt.Sprintf("%v in %v", h, to)
	}
	return fmt.Sprintf("%v QPN %v at %v", h, qpn, to)
}

// newRig makes everything, starts the bridge and waits until it is ready.
func newRig(ctx context.Context, t *testing.T, seed uint64, bin string, l layout) *rig {
	t.Helper()
	r := &rig{t: t, ctx: ctx, random: rand.New(rand.NewPCG(seed, seed)), tallies: map[string]tally{}, stops: map[uint32]context.CancelFunc{}, flows: map[uint32]*flow{}, crossers: map[uint32]*crosser{}, isCut: -1, began: time.Now()}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(r.newPartitions(ctx, l))
	must(r.segment.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		return errors.Join(err, netlink.LinkSetUp(lo))
	}))
	var err error
	r.bridge, err = newBridge(r.segment, bin, t.TempDir(), l)
	must(err)
	t.Cleanup(r.close)
	must(r.bridge.writeConfig(0))
	must(r.bridge.start())
	for i := range nodes * l.segments {
		n := &node{rig: r, i: i, in: r.partitions[i/nodes]}
		if l.fabrics > 1 {
			n.second = &node{rig: r, i: i, in: n.in, fabric: 1}
		}
		r.nodes = append(r.nodes, n)
		must(n.attach())
	}
	must(r.ready())
	return r
}

func (r *rig) close() {
	for _, f := range r.all() {
		r.endFlow(f)
	}
	for _, n := range r.nodes {
		n.detach()
	}
	if r.bridge.cmd != nil && r.bridge.running() {
		_ = r.bridge.end(context.Background(), syscall.SIGKILL)
	}
	for _, p := range r.partitions {
		for _, h := range p.hosts {
			if h != nil {
				_ = h.Close() // its namespace goes with the process
			}
		}
		_ = p.segment.Close()
	}
}

// ready waits until the bridge is.
func (r *rig) ready() error {
	last := errors.New("it has not been asked")
	err := await(r.ctx, "the bridge is ready", func() bool {
		_, last = r.bridge.get(r.ctx, "/readyz")
		return last == nil || !r.bridge.running()
	})
	if err == nil && last == nil {
		return nil
	}
	return fmt.Errorf("%w: %w; it runs: %v; it logged:\n%s", err, last, r.bridge.running(), lastLines(r.bridge.readLog()))
}

// unready says why the bridge is not ready; "": it is.
func (r *rig) unready() string {
	if _, err := r.bridge.get(r.ctx, "/readyz"); err != nil {
		return err.Error()
	}
	return ""
}

// fault records what is wrong.
func (r *rig) fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
	r.t.Errorf(format, args...)
}

// all returns the flows.
func (r *rig) all() []*flow {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Values(r.flows), func(a, b *flow) int { return int(a.stream) - int(b.stream) })
}

func (r *rig) stream() uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams++
	return r.streams
}

// start begins a flow.
func (r *rig) start(f *flow) {
	ctx, stop := context.WithCancel(r.ctx)
	r.mu.Lock()
	r.flows[f.stream] = f
	r.stops[f.stream] = stop
	r.mu.Unlock()
	go f.run(ctx)
}

// endFlow ends a flow, and takes over its tally. What is under way still counts.
func (r *rig) endFlow(f *flow) {
	f.setPaused(true)
	if err := await(r.ctx, f.name+": its last messages arrive", f.idle); err != nil && r.ctx.Err() == nil {
		r.fault("%v", err)
	}
	r.mu.Lock()
	r.stops[f.stream]()
	delete(r.stops, f.stream)
	delete(r.flows, f.stream)
	r.mu.Unlock()
	r.faultsOf(f)
	t := f.count()
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := r.tallies[f.kind]
	sum.add(t)
	r.tallies[f.kind] = sum
}

// faultsOf reports what a flow has noticed since the last time.
func (r *rig) faultsOf(f *flow) {
	f.mu.Lock()
	faults := f.faults
	f.faults = nil
	f.mu.Unlock()
	for _, fault := range faults {
		r.fault("%s", fault)
	}
}

// silence is how long traffic took to come back after a disturbance, at most.
type silence struct {
	what string
	took time.Duration
}
