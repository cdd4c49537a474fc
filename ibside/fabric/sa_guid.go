// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"causeway/ibside/ib"
)

// guidCap is how many GUIDs a port has room for, its own included.
const guidCap = 4 * ib.GUIDsPerBlock

// guidBook is the alias GUIDs of ports. An alias leads to its port's LID wherever the administrator is asked; the port's
// adapter knows nothing of it, and takes no message whose GRH names it.
type guidBook struct {
	tables map[ib.LID]*[guidCap]ib.GUID // of ports that have set any; entry 0 is unused
	owner  map[ib.GUID]ib.LID
	chosen uint32 // given so far
}

func newGUIDBook() guidBook {
	return guidBook{tables: map[ib.LID]*[guidCap]ib.GUID{}, owner: map[ib.GUID]ib.LID{}}
}

func (b *guidBook) forgetPort(lid ib.LID) {
	for guid, owner := range b.owner {
		if owner == lid {
			delete(b.owner, guid)
		}
	}
	delete(b.tables, lid)
}

// block returns the record of one block of a port's table.
func (b *guidBook) block(p PortInfo, n int) ib.GUIDInfoFields {
	f := ib.GUIDInfoFields{LID: p.LID, Block: uint8(n)}
	if t := b.tables[p.LID]; t != nil {
		copy(f.GUIDs[:], t[n*ib.GUIDsPerBlock:])
	}
	if n == 0 {
		f.GUIDs[0] = p.GUID
	}
	return f
}

// answerGUIDs answers a GUIDInfoRecord request (IBTA vol 1 §15.2.5.18).
func (a *SA) answerGUIDs(r *request) answer {
	rec, _ := ib.AsGUIDInfoRecord(r.data)
	want := rec.Fields()
	method := r.mad.Method()
	if method == ib.MethodGet || method == ib.MethodGetTable {
		return answer{found: a.findGUIDs(r, want)}
	}
	port, ok := a.fabric.portByLID(r.from.LID)
	switch {
	case !r.has(ib.GUIDInfoLID | ib.GUIDInfoBlock):
		return refuse(ib.SAStatusInsufficientFields)
	case !ok || want.LID != r.from.LID:
		return refuse(ib.SAStatusRequestInvalid)
	case int(want.Block) >= guidCap/ib.GUIDsPerBlock:
		return refuse(ib.SAStatusNoRecords)
	case want.Block == 0 && r.mask&ib.GUIDInfoGUID0 != 0: // the port's own
		return refuse(ib.SAStatusRequestInvalid)
	}
	if !a.mayReplace(r, want, method == ib.MethodDelete) {
		return refuse(ib.SAStatusDenied)
	}
	return guidAnswer(a.setGUIDs(r, port, want, method == ib.MethodDelete))
}

func guidAnswer(f ib.GUIDInfoFields) answer {
	b := make([]byte, ib.GUIDInfoRecordLen)
	ib.PutGUIDInfoRecord(b, f)
	return one(b)
}

func (a *SA) findGUIDs(r *request, want ib.GUIDInfoFields) *records {
	found := &records{}
	for _, p := range a.fabric.Ports() {
		if r.differs(ib.GUIDInfoLID, want.LID == p.LID) {
			continue
		}
		for n := range guidCap / ib.GUIDsPerBlock {
			if !r.differs(ib.GUIDInfoBlock, int(want.Block) == n) {
				b := make([]byte, ib.GUIDInfoRecordLen)
				ib.PutGUIDInfoRecord(b, a.guids.block(p, n))
				found.add(b)
			}
		}
	}
	return found
}

// mayReplace reports whether none of the aliases that would go is a member of a group.
func (a *SA) mayReplace(r *request, want ib.GUIDInfoFields, deletes bool) bool {
	t := a.guids.tables[r.from.LID]
	for i, guid := range want.GUIDs {
		if t == nil || r.mask&(ib.GUIDInfoGUID0<<i) == 0 {
			continue
		}
		old := t[int(want.Block)*ib.GUIDsPerBlock+i]
		if old == 0 || !deletes && (guid == 0 || guid == old) {
			continue
		}
		for _, g := range a.groups {
			if g.members[ib.GIDFromGUID(a.fabric.cfg.Prefix, old)] != nil {
				return false
			}
		}
	}
	return true
}

// setGUIDs sets or empties the entries that the request names, and returns the block. A GUID that somebody else has is
// not set, and its entry comes back as zero, which is all that OpenSM says of it.
func (a *SA) setGUIDs(r *request, port PortInfo, want ib.GUIDInfoFields, deletes bool) ib.GUIDInfoFields {
	b := &a.guids
	t := b.tables[port.LID]
	if t == nil {
		t = &[guidCap]ib.GUID{}
		b.tables[port.LID] = t
	}
	var taken []int
	for i, guid := range want.GUIDs {
		entry := &t[int(want.Block)*ib.GUIDsPerBlock+i]
		named := r.mask&(ib.GUIDInfoGUID0<<i) != 0
		switch {
		case !named || !deletes && *entry != 0 && (guid == *entry || guid == 0):
			continue
		case deletes:
			guid = 0
		case guid == 0:
			guid = a.chooseGUID()
		case a.hasGUID(guid):
			taken = append(taken, i)
			continue
		}
		delete(b.owner, *entry)
		if *entry = guid; guid != 0 {
			b.owner[guid] = port.LID
		}
	}
	f := b.block(port, int(want.Block))
	for _, i := range taken {
		f.GUIDs[i] = 0
	}
	return f
}

// hasGUID reports whether a GUID is a port's, or its alias.
func (a *SA) hasGUID(guid ib.GUID) bool {
	_, ok := a.portOf(ib.GIDFromGUID(a.fabric.cfg.Prefix, guid))
	return ok
}

// chooseGUID makes a GUID that nobody has.
func (a *SA) chooseGUID() ib.GUID {
	const assigned = ib.GUID(0x001405) << 40 // of OpenSM's vendor, which gives its own from there
	for {
		a.guids.chosen++
		if guid := assigned | ib.GUID(a.guids.chosen); !a.hasGUID(guid) {
			return guid
		}
	}
}
