// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"causeway/ibside/ib"
)

// guidCap is the size of a port's GUID table, with its own GUID.
const guidCap = 4 * ib.GUIDsPerBlock

// guidTable has the alias GUIDs of the subnet's ports. The administrator resolves an alias to its port's LID; the
// port's adapter does not have the alias, and drops messages with it in the GRH.
type guidTable struct {
	subnet
	isMember func(ib.GID) bool // of a group

	tables map[ib.LID]*[guidCap]ib.GUID // of ports that have set any; entry 0 is unused
	owner  map[ib.GUID]ib.LID
	chosen uint32 // assigned so far
}

func newGUIDTable(s subnet, isMember func(ib.GID) bool) *guidTable {
	return &guidTable{subnet: s, isMember: isMember, tables: map[ib.LID]*[guidCap]ib.GUID{}, owner: map[ib.GUID]ib.LID{}}
}

// portOf returns the port with a GID, which may be an alias.
func (g *guidTable) portOf(gid ib.GID) (PortInfo, bool) {
	if p, ok := g.portByGID(gid); ok {
		return p, true
	}
	if lid, ok := g.owner[gid.GUID()]; ok && gid.Prefix() == g.prefix() {
		return g.portByLID(lid)
	}
	return PortInfo{}, false
}

func (g *guidTable) removePort(lid ib.LID) {
	for guid, owner := range g.owner {
		if owner == lid {
			delete(g.owner, guid)
		}
	}
	delete(g.tables, lid)
}

// block returns the record of one block of a port's table.
func (g *guidTable) block(p PortInfo, n int) ib.GUIDInfoFields {
	f := ib.GUIDInfoFields{LID: p.LID, Block: uint8(n)}
	if t := g.tables[p.LID]; t != nil {
		copy(f.GUIDs[:], t[n*ib.GUIDsPerBlock:])
	}
	if n == 0 {
		f.GUIDs[0] = p.GUID
	}
	return f
}

// answer answers a GUIDInfoRecord request (IBTA vol 1 §15.2.5.18).
func (g *guidTable) answer(r *request) answer {
	rec, _ := ib.AsGUIDInfoRecord(r.data)
	want := rec.Fields()
	method := r.mad.Method()
	if method == ib.MethodGet || method == ib.MethodGetTable {
		return answer{found: g.find(r, want)}
	}
	port, ok := g.portByLID(r.from.LID)
	switch {
	case !r.has(ib.GUIDInfoLID | ib.GUIDInfoBlock):
		return reject(ib.SAStatusInsufficientFields)
	case !ok || want.LID != r.from.LID:
		return reject(ib.SAStatusRequestInvalid)
	case int(want.Block) >= guidCap/ib.GUIDsPerBlock:
		return reject(ib.SAStatusNoRecords)
	case want.Block == 0 && r.mask&ib.GUIDInfoGUID0 != 0: // the port's own
		return reject(ib.SAStatusRequestInvalid)
	}
	if !g.mayReplace(r, want, method == ib.MethodDelete) {
		return reject(ib.SAStatusDenied)
	}
	return guidAnswer(g.set(r, port, want, method == ib.MethodDelete))
}

func guidAnswer(f ib.GUIDInfoFields) answer {
	b := make([]byte, ib.GUIDInfoRecordLen)
	ib.PutGUIDInfoRecord(b, f)
	return one(b)
}

func (g *guidTable) find(r *request, want ib.GUIDInfoFields) *records {
	found := &records{}
	for _, p := range g.Ports() {
		if r.differs(ib.GUIDInfoLID, want.LID == p.LID) {
			continue
		}
		for n := range guidCap / ib.GUIDsPerBlock {
			if !r.differs(ib.GUIDInfoBlock, int(want.Block) == n) {
				b := make([]byte, ib.GUIDInfoRecordLen)
				ib.PutGUIDInfoRecord(b, g.block(p, n))
				found.add(b)
			}
		}
	}
	return found
}

// mayReplace reports whether none of the aliases to be replaced is a member of a group.
func (g *guidTable) mayReplace(r *request, want ib.GUIDInfoFields, deletes bool) bool {
	t := g.tables[r.from.LID]
	for i, guid := range want.GUIDs {
		if t == nil || r.mask&(ib.GUIDInfoGUID0<<i) == 0 {
			continue
		}
		old := t[int(want.Block)*ib.GUIDsPerBlock+i]
		if old == 0 || !deletes && (guid == 0 || guid == old) {
			continue
		}
		if g.isMember(ib.GIDFromGUID(g.prefix(), old)) {
			return false
		}
	}
	return true
}

// set sets or clears the entries that the request names, and returns the block. A GUID that is in use is not set, and
// its entry is zero in the answer, as with OpenSM.
func (g *guidTable) set(r *request, port PortInfo, want ib.GUIDInfoFields, deletes bool) ib.GUIDInfoFields {
	t := g.tables[port.LID]
	if t == nil {
		t = &[guidCap]ib.GUID{}
		g.tables[port.LID] = t
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
			guid = g.choose()
		case g.has(guid):
			taken = append(taken, i)
			continue
		}
		delete(g.owner, *entry)
		if *entry = guid; guid != 0 {
			g.owner[guid] = port.LID
		}
	}
	f := g.block(port, int(want.Block))
	for _, i := range taken {
		f.GUIDs[i] = 0
	}
	return f
}

// has reports whether a GUID is in use, by a port or as an alias.
func (g *guidTable) has(guid ib.GUID) bool {
	_, ok := g.portOf(ib.GIDFromGUID(g.prefix(), guid))
	return ok
}

// choose returns an unused GUID.
func (g *guidTable) choose() ib.GUID {
	const assigned = ib.GUID(0x001405) << 40 // the range that OpenSM assigns GUIDs from
	for {
		g.chosen++
		if guid := assigned | ib.GUID(g.chosen); !g.has(guid) {
			return guid
		}
	}
}
