// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"net"
	"slices"

	"causeway/config"
	"causeway/dpdk"
)

// A portSegment is a segment as the port has it.
type portSegment struct {
	config.RoCE
	claim  teardown // of the port with its VLAN
	shared teardown // flow rules and listener, on a port that is shared with the kernel
}

// listening returns the listeners. Any goroutine may call it.
func (p *ethernetPort) listening() []*listener {
	if l := p.listeners.Load(); l != nil {
		return *l
	}
	return nil
}

// has reports whether the port is ready for a segment.
func (p *ethernetPort) has(vlan uint16) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.segments, func(s *portSegment) bool { return s.VLAN == vlan })
}

// claim claims the port with its first VLANs.
func (p *ethernetPort) claim(undo *teardown) error {
	undo.add(func() error { return p.endAll(func(s *portSegment) error { return s.claim.run() }) })
	for _, r := range p.ownSegments() {
		s := &portSegment{RoCE: r}
		p.segments = append(p.segments, s)
		if err := p.claimSegment(s); err != nil {
			return err
		}
	}
	return nil
}

func (p *ethernetPort) endAll(end func(*portSegment) error) error {
	var errs []error
	for _, s := range p.segments {
		errs = append(errs, end(s))
	}
	return errors.Join(errs...)
}

func (p *ethernetPort) claimSegment(s *portSegment) error {
	if p.private {
		return nil
	}
	return claimVLAN(p.name, s.VLAN, &s.claim)
}

// share takes RoCE from the frames of the kernel's interface by flow rules, and listens there for management's frames.
// The bridge needs all of them: each failure is an error.
func (p *ethernetPort) share(undo *teardown) error {
	undo.add(func() error { return p.endAll(func(s *portSegment) error { return s.shared.run() }) })
	netdev, err := p.port.KernelInterface()
	if err != nil {
		return err
	}
	rules := 0
	for _, s := range p.segments {
		n, err := p.shareSegment(netdev, s)
		if err != nil {
			return err
		}
		rules += n
	}
	if err := p.takePlain(p.groupsToIB()); err != nil {
		return err
	}
	p.log.Info("port_shared", "interface", netdev.Name, "flow_rules", rules, "note", "RoCE is the bridge's, the rest the kernel's")
	return nil
}

// shareSegment makes the flow rules and the listener of a segment, and returns how many rules there are.
func (p *ethernetPort) shareSegment(netdev *net.Interface, s *portSegment) (int, error) {
	rules := p.rules(&s.RoCE)
	for _, r := range rules {
		flow, err := p.port.CreateFlow(r)
		if err != nil {
			return 0, err
		}
		s.shared.add(flow.Destroy)
	}
	return len(rules), p.listen(netdev, s)
}

// listen listens for management's frames of a segment.
func (p *ethernetPort) listen(netdev *net.Interface, s *portSegment) error {
	l, err := listen(netdev, s.VLAN, p.port.MTU(), p.learnsReports(), p.multicastMACs(p.groupsToIB()))
	if err != nil {
		return err
	}
	p.setListeners(append(p.listening(), l))
	s.shared.add(func() error {
		p.setListeners(slices.DeleteFunc(slices.Clone(p.listening()), func(o *listener) bool { return o == l }))
		if n := l.lost(); n > 0 {
			p.log.Warn("frames_missed", "interface", netdev.Name, "frames", n)
		}
		return errors.Join(p.handOver(l), l.close())
	})
	return nil
}

func (p *ethernetPort) setListeners(all []*listener) {
	all = slices.Clone(all)
	p.listeners.Store(&all)
}

// handOver makes the first of the other listeners keep the interface in the groups that one keeps it in.
func (p *ethernetPort) handOver(from *listener) error {
	left := p.listening()
	if len(left) == 0 {
		return nil
	}
	var groups [][6]byte
	for g := range from.groups {
		groups = append(groups, g)
	}
	for g := range left[0].groups {
		groups = append(groups, g)
	}
	return errors.Join(left[0].follow(groups), left[0].followAll(from.all || left[0].all))
}

// addSegments makes the port ready for segments that are to come, all of them or none.
func (p *ethernetPort) addSegments(segments []config.RoCE) (undo func() error, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var added []*portSegment
	undo = func() error {
		var errs []error
		for _, s := range added {
			errs = append(errs, p.remove(s))
		}
		return errors.Join(errs...)
	}
	for _, r := range segments {
		s := &portSegment{RoCE: r}
		p.segments, added = append(p.segments, s), append(added, s)
		if err := p.addSegment(s); err != nil {
			return nil, errors.Join(err, undo())
		}
	}
	return func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		return undo()
	}, nil
}

func (p *ethernetPort) addSegment(s *portSegment) error {
	if err := p.claimSegment(s); err != nil || !p.port.Shared() {
		return err
	}
	netdev, err := p.port.KernelInterface()
	if err != nil {
		return err
	}
	_, err = p.shareSegment(netdev, s)
	return err
}

// removeSegment takes a segment from the port. Its groups of plain UDP, and the multicast filter, follow when management
// sets those of the others.
func (p *ethernetPort) removeSegment(vlan uint16) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.received, vlan)
	for _, s := range p.segments {
		if s.VLAN == vlan {
			return p.remove(s)
		}
	}
	return nil
}

func (p *ethernetPort) remove(s *portSegment) error {
	p.segments = slices.DeleteFunc(p.segments, func(o *portSegment) bool { return o == s })
	return errors.Join(s.shared.run(), s.claim.run())
}

// allRules are those of all segments.
func (p *ethernetPort) allRules() (rules []dpdk.Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.segments {
		rules = append(rules, p.rules(&s.RoCE)...)
	}
	return rules
}

// rules take RoCEv2 of a segment, spread over the workers by source address, and RoCEv1, on the first queue, whatever the
// destination. Workers drop by name what is not the bridge's. The listener has all other frames for management.
func (p *ethernetPort) rules(r *config.RoCE) []dpdk.Rule {
	all := p.queues()
	var rules []dpdk.Rule
	vlan := p.flowVLAN(r.VLAN)
	if r.V2 {
		for _, m := range []dpdk.Match{dpdk.MatchRoCEv2IPv4, dpdk.MatchRoCEv2IPv6} {
			rules = append(rules, dpdk.Rule{Match: m, Queues: all, RSS: len(all) > 1, VLAN: vlan})
		}
	}
	if r.V1 { // RSS knows IP headers, not a GRH
		rules = append(rules, dpdk.Rule{Match: dpdk.MatchRoCEv1, Queues: all[:1], VLAN: vlan})
	}
	return rules
}
