// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"slices"

	"causeway/ibside/ib"
)

// answerPath answers a PathRecord query: from the port of SGID or SLID, else from the one that asks, to the
// port of DGID or DLID. On this subnet every port reaches every other in one way.
func (a *SA) answerPath(r *request) answer {
	rec, _ := ib.AsPathRecord(r.data)
	want := rec.Fields()
	if r.mask&(ib.PathDGID|ib.PathDLID) == 0 {
		return refuse(ib.SAStatusInsufficientFields)
	}
	from, status := a.endOfPath(r.mask, ib.PathSGID, ib.PathSLID, want.SGID, want.SLID, r.from)
	if status != ib.SAStatusOK {
		return refuse(status)
	}
	if r.mask&ib.PathDGID != 0 && want.DGID.IsIBMulticast() {
		return a.answerGroupPath(want.DGID, from)
	}
	to, status := a.endOfPath(r.mask, ib.PathDGID, ib.PathDLID, want.DGID, want.DLID, 0)
	if status != ib.SAStatusOK {
		return refuse(status)
	}
	pkey, ok := sharedPKey(from.PKeys, to.PKeys, want.PKey, r.mask&ib.PathPKey != 0)
	mtu := min(from.MTU, to.MTU)
	if !ok || r.mask&ib.PathMTU != 0 && !selected(want.MTUSelector, int(want.MTU), int(mtu)) {
		return refuse(ib.SAStatusNoRecords)
	}
	return pathAnswer(ib.PathFields{
		DGID: to.GID, SGID: from.GID, DLID: to.LID, SLID: from.LID, PKey: pkey, MTU: mtu, Rate: subnetRate,
	})
}

// endOfPath finds the port that a query names by GID or LID. With both, they must agree.
func (a *SA) endOfPath(mask, gidBit, lidBit uint64, gid ib.GID, lid, otherwise ib.LID) (PortInfo, uint16) {
	if mask&gidBit != 0 {
		p, ok := a.fabric.portByGID(gid)
		switch {
		case !ok:
			return PortInfo{}, ib.SAStatusInvalidGID
		case mask&lidBit != 0 && lid != p.LID:
			return PortInfo{}, ib.SAStatusNoRecords
		}
		return p, ib.SAStatusOK
	}
	if mask&lidBit == 0 {
		lid = otherwise
	}
	p, ok := a.fabric.portByLID(lid)
	if !ok {
		return PortInfo{}, ib.SAStatusNoRecords
	}
	return p, ib.SAStatusOK
}

func (a *SA) answerGroupPath(mgid ib.GID, from PortInfo) answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.groups[mgid]
	if g == nil {
		return refuse(ib.SAStatusNoRecords)
	}
	return pathAnswer(ib.PathFields{
		DGID: mgid, SGID: from.GID, DLID: g.record.MLID, SLID: from.LID, PKey: g.record.PKey, SL: g.record.SL,
		MTU: g.record.MTU, Rate: g.record.Rate, FlowLabel: g.record.FlowLabel, TClass: g.record.TClass,
		HopLimit: g.record.HopLimit,
	})
}

func pathAnswer(f ib.PathFields) answer {
	f.Reversible, f.NumbPath = true, 1
	f.MTUSelector, f.RateSelector, f.LifeSelector, f.Life = ib.SelectExactly, ib.SelectExactly, ib.SelectExactly, subnetLife
	b := make([]byte, ib.PathRecordLen)
	ib.PutPathRecord(b, f)
	return answer{data: b}
}

// sharedPKey finds a P_Key that both ends may talk with: the first, or the wanted one.
func sharedPKey(from, to []ib.PKey, want ib.PKey, only bool) (ib.PKey, bool) {
	for _, k := range from {
		if (!only || k&0x7fff == want&0x7fff) && slices.ContainsFunc(to, k.Matches) {
			return k, true
		}
	}
	return 0, false
}
