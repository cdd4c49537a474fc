// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"strings"

	"causeway/ibside/ib"
)

// A Report is what operators read of a member.
type Report struct {
	Name, Fabric string
	Down         string // why it carries nothing; "": it does
	SMSilent     bool   // its subnet administrator does not answer
	Preferred    bool
	Loss         float64 // share of messages that the port lost
	Groups       int     // joined on it
	ActiveGroups int     // that it is the active one of
	Nodes        int     // that it reaches
	ActiveNodes  int
	Missing      int // groups that are wanted and not joined on it
	Counters     Counters
}

// Reports returns what there is to know of each member.
func (p *Port) Reports() []Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]Report, len(p.cfg.Members))
	for i, m := range p.cfg.Members {
		h := &p.health[i]
		out[i] = Report{Name: m.Name, Fabric: m.Fabric, Down: h.down, SMSilent: h.silent, Preferred: i == p.preferred, Loss: h.loss, Counters: p.tables.counters(i)}
	}
	for _, d := range p.byGID {
		for i := range out {
			d.report(i, &out[i])
		}
	}
	return out
}

func (d *destination) report(member int, r *Report) {
	has := d.has(member)
	active := has && (d.current == member || d.view.group && d.rule.Mode == Both)
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	if !d.view.group {
		count(&r.Nodes, has)
		count(&r.ActiveNodes, active)
		return
	}
	count(&r.Groups, has)
	count(&r.Missing, !has)
	count(&r.ActiveGroups, active)
}

// Switches returns how often a destination has changed its member.
func (p *Port) Switches() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.switches
}

// Sent says how messages to a destination are sent: by which members, and the addresses of the first of them.
type Sent struct {
	Ports      string // names, joined by "+"; "": there is no such destination
	SLID, DLID ib.LID
	SGID, DGID ib.GID
}

// Sent looks a destination up by the Port's own LID.
func (p *Port) Sent(lid ib.LID) (out Sent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	d := p.byLID[lid]
	for i, m := range p.cfg.Members {
		if d == nil || d.chosen.send&bit(i) == 0 {
			continue
		}
		if len(names) == 0 {
			own := m.Port.Own()
			out.SLID, out.DLID, out.DGID = own.LID, d.view.ways[i].lid, d.view.ways[i].dgid
			if len(own.Sources) > 0 {
				out.SGID = own.Sources[0].GID
			}
		}
		names = append(names, m.Name)
	}
	out.Ports = strings.Join(names, "+")
	return out
}

// Name returns a member's name; "": there is none.
func (s *state) Name(member int) string {
	if member >= len(s.cfg.Members) {
		return ""
	}
	return s.cfg.Members[member].Name
}
