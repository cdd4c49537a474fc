// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"

	"causeway/ibside/ib"
)

const portActive = 4 // the state of a port that all packets may pass

// pathFinder answers queries for paths between ports, and to groups, and for the LIDs of ports.
type pathFinder struct {
	ports  ports
	groups interface{ find(mgid ib.GID) *group }
}

// answer answers a PathRecord query: from the port of SGID or SLID, else from the one that asks, to the
// port of DGID or DLID; in a table without one, to all. On this subnet there is one path between two ports.
func (p *pathFinder) answer(r *request) answer {
	rec, _ := ib.AsPathRecord(r.data)
	want := rec.Fields()
	to := r.mask & (ib.PathDGID | ib.PathDLID)
	if to == 0 && r.mad.Method() == ib.MethodGet {
		return reject(ib.SAStatusInsufficientFields)
	}
	found := &records{}
	from, ok := p.endOfPath(r.mask, ib.PathSGID, ib.PathSLID, want.SGID, want.SLID, r.from.LID)
	switch {
	case !ok:
	case to == 0:
		for _, port := range p.ports.Ports() {
			found.addPath(r, want, from, port)
		}
	case to&ib.PathDGID != 0 && want.DGID.IsIBMulticast():
		if g := p.groups.find(want.DGID); g != nil {
			found.addGroupPath(from, &g.record)
		}
	default:
		if port, ok := p.endOfPath(r.mask, ib.PathDGID, ib.PathDLID, want.DGID, want.DLID, 0); ok {
			if r.mask&ib.PathDLID != 0 {
				port.LID = want.DLID
			}
			found.addPath(r, want, from, port)
		}
	}
	return answer{found: found}
}

// addPath adds the path between two ports if they share a partition and the path matches the query. The record has the
// GIDs of the query, which may be aliases.
func (f *records) addPath(r *request, want ib.PathFields, from, to PortInfo) {
	pkey, ok := sharedPKey(from.PKeys, to.PKeys, want.PKey, r.mask&ib.PathPKey != 0)
	mtu := min(from.MTU, to.MTU)
	if !ok || r.differs(ib.PathMTU, selected(want.MTUSelector, int(want.MTU), int(mtu))) {
		return
	}
	path := ib.PathFields{DGID: to.GID, SGID: from.GID, DLID: to.LID, SLID: from.LID, PKey: pkey, MTU: mtu, Rate: PortRate}
	if r.mask&ib.PathDGID != 0 {
		path.DGID = want.DGID
	}
	if r.mask&ib.PathSGID != 0 {
		path.SGID = want.SGID
	}
	f.addPathRecord(path)
}

func (f *records) addGroupPath(from PortInfo, g *ib.MCMemberFields) {
	f.addPathRecord(ib.PathFields{
		DGID: g.MGID, SGID: from.GID, DLID: g.MLID, SLID: from.LID, PKey: g.PKey, SL: g.SL,
		MTU: g.MTU, Rate: g.Rate, FlowLabel: g.FlowLabel, TClass: g.TClass, HopLimit: g.HopLimit,
	})
}

func (f *records) addPathRecord(p ib.PathFields) {
	p.Reversible, p.NumbPath = true, 1
	p.MTUSelector, p.RateSelector, p.LifeSelector, p.Life = ib.SelectExactly, ib.SelectExactly, ib.SelectExactly, subnetLife
	b := make([]byte, ib.PathRecordLen)
	ib.PutPathRecord(b, p)
	f.add(b)
}

// endOfPath finds the port that a query names by GID or LID. With both, they must agree.
func (p *pathFinder) endOfPath(mask, gidBit, lidBit uint64, gid ib.GID, lid, otherwise ib.LID) (PortInfo, bool) {
	if mask&gidBit != 0 {
		port, ok := p.ports.portOf(gid)
		return port, ok && (mask&lidBit == 0 || lid.Base(port.LMC) == port.LID)
	}
	if mask&lidBit == 0 {
		lid = otherwise
	}
	return p.ports.portByLID(lid)
}

// sharedPKey finds a P_Key that both ports have: the first, or the wanted one.
func sharedPKey(from, to []ib.PKey, want ib.PKey, only bool) (ib.PKey, bool) {
	for _, k := range from {
		if (!only || k&0x7fff == want&0x7fff) && slices.ContainsFunc(to, k.Matches) {
			return k, true
		}
	}
	return 0, false
}

// answerPort answers a PortInfoRecord query: for the port of a LID, any of its own, or for all.
func (p *pathFinder) answerPort(r *request) answer {
	rec, _ := ib.AsPortInfoRecord(r.data)
	asked, found := rec.Fields(), &records{}
	for _, port := range p.ports.Ports() {
		if r.differs(ib.PortInfoLID, asked.LID.Base(port.LMC) == port.LID) || r.differs(ib.PortInfoPortNum, asked.PortNum == 1) {
			continue
		}
		b := make([]byte, ib.PortInfoRecordLen)
		ib.PutPortInfoRecord(b, ib.PortInfoFields{
			LID: port.LID, PortNum: 1, Prefix: port.GID.Prefix(), BaseLID: port.LID, SMLID: port.SMLID, State: portActive, LMC: port.LMC,
		})
		found.add(b)
	}
	return answer{found: found}
}
