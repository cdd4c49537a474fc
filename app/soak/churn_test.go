// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
)

// The bounds of what comes and goes.
const (
	mostHosts   = permanent + 4
	mostFlows   = 40
	mostLearned = 6
)

// churn has something come or go. No other traffic may notice.
func (r *rig) churn() error {
	switch r.random.IntN(4) {
	case 0:
		return r.churnHost()
	case 1:
		return r.churnGroup()
	case 2:
		h := r.anyHost()
		if len(r.all()) < mostFlows {
			r.note("%v has another queue pair", h)
			r.echoed(h, h.in.first()+r.random.IntN(nodes), r.random.IntN(2) == 0 && h.IP6.IsValid())
			return nil
		}
	}
	return r.churnFlow()
}

// anyHost draws a host that is there.
func (r *rig) anyHost() *host {
	for p := r.anyPartition(); ; {
		if h := p.hosts[r.random.IntN(len(p.hosts))]; h != nil {
			return h
		}
	}
}

// churnHost has a host come, with a flow, or go.
func (r *rig) churnHost() error {
	p, i := r.anyPartition(), permanent+r.random.IntN(mostHosts-permanent)
	if i >= len(p.hosts) || p.hosts[i] == nil {
		r.note("host %d%s comes", i, p.of())
		if err := r.addHost(p, i); err != nil {
			return err
		}
		r.echoed(p.hosts[i], p.first()+r.random.IntN(nodes), r.random.IntN(2) == 0 && p.hosts[i].IP6.IsValid())
		return nil
	}
	h := p.hosts[i]
	r.note("%v goes", h)
	for _, f := range r.all() {
		if f.host == i && f.in == p {
			if err := r.stopFlow(f); err != nil {
				return err
			}
		}
	}
	p.hosts[i] = nil
	return h.Close()
}

// churnFlow ends a flow that need not stay.
func (r *rig) churnFlow() error {
	all := r.all()
	f := all[r.random.IntN(len(all))]
	if f.stays {
		return nil
	}
	r.note("%s ends", f.name)
	return r.stopFlow(f)
}

// churnGroup has a host and a node join a group of the range, with traffic each way; or ends that.
func (r *rig) churnGroup() error {
	k, h := r.random.IntN(mostLearned), r.anyHost()
	group := learned(k)
	for _, f := range r.all() {
		if f.group == group && f.in == h.in {
			r.note("%s ends", f.name)
			return r.stopFlow(f)
		}
	}
	n := h.in.first() + r.random.IntN(nodes)
	r.note("%v and node %d join %v", h, n, group)
	if err := h.join(group); err != nil {
		return err
	}
	if err := r.nodes[n].join(group, true); err != nil {
		return err
	}
	if k%2 == 0 {
		r.published(h, group, n, "learned group to InfiniBand")
	} else {
		r.received(n, group, "learned group to RoCE", h)
	}
	return nil
}

// stopFlow ends a flow, and the memberships of one in a learned group.
func (r *rig) stopFlow(f *flow) error {
	r.endFlow(f)
	if !f.group.IsValid() {
		return nil
	}
	if err := f.in.hosts[f.host].quit(f.group); err != nil {
		return fmt.Errorf("host %d%s leaves %v: %w", f.host, f.in.of(), f.group, err)
	}
	return r.nodes[f.node].quit(f.group)
}
