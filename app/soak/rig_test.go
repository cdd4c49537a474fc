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
	segment *segment.Segment
	hosts   []*host // nil: not there now
	nodes   [nodes]*node
	isCut   int // the fabric that is; -1: none

	mu      sync.Mutex
	flows   map[uint32]*flow // by stream
	streams uint32
	tallies map[string]tally // of flows that have ended, by kind
	faults  []string

	stops map[uint32]context.CancelFunc // of flows

	services *services
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
	leave map[netip.Addr]func() error
}

// addHost adds a host.
func (r *rig) addHost(i int) error {
	ns, err := segment.NewNamespace()
	if err != nil {
		return err
	}
	h := &host{i: i, leave: map[netip.Addr]func() error{}}
	receive := func(p *roce.Packet) {
		if p.DestQP == ib.QP1 {
			r.services.datagram(h, p)
			return
		}
		if p.QKey != ib.QKeyRDMAUDP || p.PKey != ib.PKeyDefault {
			r.note("a message for QPN %v of host %d has Q_Key %v and P_Key %v: its queue pair would not take it", p.DestQP, i, p.QKey, p.PKey)
			return // so that it is lost
		}
		r.deliver(atHost(i, p.DestQP, p.DstIP), p.SrcIP, p.HasImm, p.Imm, p.Payload)
	}
	// The number keeps names apart: the kernel removes an interface some time after its namespace.
	if h.Host, err = r.segment.AddHost(fmt.Sprintf("h%d-%d", i, r.stream()), ns, hostIP4(i), hostIP6(i), receive); err != nil {
		return err
	}
	for len(r.hosts) <= i {
		r.hosts = append(r.hosts, nil)
	}
	r.hosts[i] = h
	return nil
}

// atHost names a receiver at a host: a queue pair, or a group.
func atHost(i int, qpn ib.QPN, to netip.Addr) string {
	if to.IsMulticast() {
		return fmt.Sprintf("host %d in %v", i, to)
	}
	return fmt.Sprintf("host %d QPN %v at %v", i, qpn, to)
}

// newRig makes everything, starts the bridge and waits until it is ready.
func newRig(ctx context.Context, t *testing.T, seed uint64, bin string, fabrics int) *rig {
	t.Helper()
	r := &rig{t: t, ctx: ctx, random: rand.New(rand.NewPCG(seed, seed)), tallies: map[string]tally{}, stops: map[uint32]context.CancelFunc{}, flows: map[uint32]*flow{}, services: newServices(fabrics), isCut: -1, began: time.Now()}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	r.segment, err = segment.New()
	must(err)
	must(r.segment.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		return errors.Join(err, netlink.LinkSetUp(lo))
	}))
	r.bridge, err = newBridge(r.segment, bin, t.TempDir(), fabrics)
	must(err)
	t.Cleanup(r.close)
	must(r.bridge.writeConfig(0))
	must(r.bridge.start())
	for i := range r.nodes {
		r.nodes[i] = &node{rig: r, i: i}
		if fabrics > 1 {
			r.nodes[i].second = &node{rig: r, i: i, fabric: 1}
		}
		must(r.nodes[i].attach())
	}
	must(r.ready())
	return r
}

func (r *rig) close() {
	for _, f := range r.all() {
		r.endFlow(f)
	}
	for i := range r.bridge.fabrics {
		r.services.close(i)
	}
	for _, n := range r.nodes {
		if n != nil {
			n.detach()
		}
	}
	if r.bridge.cmd != nil && r.bridge.running() {
		_ = r.bridge.end(context.Background(), syscall.SIGKILL)
	}
	for _, h := range r.hosts {
		if h != nil {
			_ = h.Close() // its namespace goes with the process
		}
	}
	_ = r.segment.Close()
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
