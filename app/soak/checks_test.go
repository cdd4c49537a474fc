// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"causeway/app/segment"
)

// A baseline is what the kernel and the bridge had counted at the port when both were quiet first.
type baseline struct {
	there         bool
	kernel, port  passed
	first, latest *usage
}

// passed is how many frames have passed an interface, lost ones included: in is those that came, out those that were
// sent. unsent is those of which it is not known whether they were: the kernel did not take them at once, and may have
// later.
type passed struct{ in, out, unsent uint64 }

func (p passed) less(o passed) passed { return passed{p.in - o.in, p.out - o.out, p.unsent - o.unsent} }

// atKernel returns what the kernel has counted at the interfaces of the ports.
func (r *rig) atKernel() (p passed, err error) {
	err = r.segment.Do(func() error {
		for _, name := range r.bridge.interfaces() {
			l, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			s := l.Attrs().Statistics
			p.in += s.RxPackets
			p.out += s.TxPackets + s.TxDropped
		}
		return nil
	})
	return p, err
}

// interfaces are those of the bridge's ports.
func (l layout) interfaces() []string { return []string{segment.Port, secondPort}[:l.ports] }

// patiently waits until nothing is missing. When that takes long, it notes what the bridge says.
func (r *rig) patiently(what string, missing func() string) {
	const long = 5 * time.Second
	last, began, noted := "", time.Now(), false
	err := await(r.ctx, what, func() bool {
		last = missing()
		if last != "" && !noted && time.Since(began) > long {
			noted = true
			r.note("%s: still waiting after %v: %s; the bridge has counted %v", what, long, last, r.counted())
		}
		return last == ""
	})
	if err != nil && r.ctx.Err() == nil {
		r.fault("%v: %s; the bridge has counted %v", err, last, r.counted())
	}
}

// counted returns the bridge's counters that tell why traffic does not cross.
func (r *rig) counted() []string {
	var all []string
	m, err := r.bridge.metrics(r.ctx)
	if err != nil {
		return []string{err.Error()}
	}
	for name, n := range m {
		name = strings.TrimPrefix(name, "causeway_")
		for _, prefix := range []string{"packets_dropped", "proxy_qps", "sidr", "hosts", "nodes", "groups", "port_", "waiting", "ib_port_lost"} {
			if n > 0 && strings.HasPrefix(name, prefix) {
				all = append(all, fmt.Sprintf("%s %.0f", name, n))
			}
		}
	}
	slices.Sort(all)
	return all
}

// quiet stops all flows, and checks that every packet is accounted for, that nothing has grown, and that the bridge is
// ready: while something was wrong it may have said that it is not.
func (r *rig) quiet() {
	for _, f := range r.all() {
		f.setPaused(true)
	}
	r.setStill(true)
	r.patiently("the last messages arrive", func() string {
		for _, f := range r.all() {
			if !f.idle() {
				return f.name
			}
		}
		return ""
	})
	r.patiently("every packet is counted", r.uncounted)
	r.patiently("nothing has grown", r.grown)
	r.patiently("the bridge is ready", r.unready)
	for _, f := range r.all() {
		r.faultsOf(f)
		f.setPaused(false)
	}
	r.setStill(false)
	for _, p := range r.partitions {
		for _, wrong := range p.services.faults() {
			r.fault("%s", wrong)
		}
	}
	r.checkCrossings()
}

// setStill has nobody ask for services, nor try to cross, or lets them: on a slow machine frames would else come all the
// time.
func (r *rig) setStill(still bool) {
	for _, p := range r.partitions {
		p.services.still.Store(still)
	}
}

// uncounted says which packets are missing in the counters; "": none is.
func (r *rig) uncounted() string {
	before, err := r.atKernel()
	if err != nil {
		return err.Error()
	}
	s, err := r.bridge.status(r.ctx)
	if err != nil {
		return err.Error()
	}
	after, err := r.atKernel()
	switch {
	case err != nil:
		return err.Error()
	case before != after:
		return "frames arrive, or leave, all the time"
	}
	if missing := s.uncounted(); missing != "" {
		return missing
	}
	if r.bridge.fabrics > 1 {
		m, err := r.bridge.metrics(r.ctx)
		if err != nil {
			return err.Error()
		}
		if missing := s.uncountedByPorts(m); missing != "" {
			return missing
		}
	}
	port := passed{s.Port.RxFrames + s.Port.RxMissed, s.Port.TxFrames, s.Port.TxErrors}
	if !r.baseline.there {
		r.baseline = baseline{there: true, kernel: after, port: port}
	}
	return r.baseline.differs(after, port)
}

// uncounted says in which direction packets are missing in the counters; "": in none.
func (s *status) uncounted() string {
	for name, d := range s.Directions {
		sum := d.Sent
		for _, n := range d.Drops {
			sum += n
		}
		if d.Received != sum {
			return fmt.Sprintf("%s: %d packets received, %d sent, dropped %v", name, d.Received, d.Sent, d.Drops)
		}
	}
	return ""
}

// differs says what the kernel and the bridge have counted differently since both were quiet first; "": nothing.
func (b *baseline) differs(kernel, port passed) string {
	kernel, port = kernel.less(b.kernel), port.less(b.port)
	switch {
	case kernel.in != port.in:
		return fmt.Sprintf("the kernel has counted %d frames in, the bridge %d", kernel.in, port.in)
	case kernel.out != port.out:
		return fmt.Sprintf("the kernel has counted %d frames out, the bridge %d, and %d that could not be sent", kernel.out, port.out, port.unsent)
	}
	return ""
}

// A usage is what the bridge's process has.
type usage struct {
	at                                                         time.Time
	resident, virtual, descriptors, threads, goroutines, mbufs uint64
	asks                                                       uint64 // goroutines that may wait for answers of a fabric that is cut
}

// usage reads it.
func (r *rig) usage() (*usage, error) {
	u := &usage{at: time.Now()}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.bridge.pid()))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		to := map[string]*uint64{"VmRSS:": &u.resident, "VmSize:": &u.virtual, "Threads:": &u.threads}[words[0]]
		if to == nil {
			continue
		}
		if *to, err = strconv.ParseUint(words[1], 10, 64); err != nil {
			return nil, err
		}
	}
	u.resident *= 1024
	u.virtual *= 1024
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.bridge.pid()))
	if err != nil {
		return nil, err
	}
	u.descriptors = uint64(len(open))
	m, err := r.bridge.metrics(r.ctx)
	u.goroutines, u.mbufs = uint64(m["go_goroutines"]), uint64(m["causeway_mbufs_used"])
	if r.isCut >= 0 { // one for each group that is to be joined there, and each node that is to be found
		u.asks = uint64(m["causeway_groups"] + m["causeway_nodes"])
	}
	return u, err
}

// What may be in use more than at first: connections of this test that end, buffers of the runtime and of the C
// library, and pages of DPDK's memory that no mbuf has touched before.
const (
	moreDescriptors = 2
	moreGoroutines  = 8
	moreThreads     = 16
	moreMbufs       = 128
	moreResident    = 64 << 20
)

// grown says what the bridge has more of than at first; "": nothing.
func (r *rig) grown() string {
	u, err := r.usage()
	if err != nil {
		return err.Error()
	}
	if r.baseline.first == nil {
		r.baseline.first = u
	}
	r.baseline.latest = u
	return r.baseline.first.grown(u)
}

// grown says what there is more of than at first; "": nothing.
func (b *usage) grown(u *usage) string {
	for _, x := range []struct {
		what            string
		was, is, atMost uint64
	}{
		{"file descriptors", b.descriptors, u.descriptors, moreDescriptors},
		{"goroutines", b.goroutines, u.goroutines, moreGoroutines + u.asks},
		{"threads", b.threads, u.threads, moreThreads},
		{"mbufs", b.mbufs, u.mbufs, moreMbufs},
		{"bytes resident", b.resident, u.resident, moreResident},
	} {
		if x.is > x.was+x.atMost {
			return fmt.Sprintf("%d %s, %d at first", x.is, x.what, x.was)
		}
	}
	return ""
}
