// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// Bridges find each other by ServiceRecords of this name. Their numbers are in the range that is anybody's (IBTA vol 1
// annex A3). A record's data, in network byte order:
//
//	 0  version: other versions' records only tell the GID
//	 1  MAC addresses that follow, at most bridgeMACs; a bridge with more has several records, by number
//	 2  instance 8, LID 2, LMC 1, reserved 3
//	16  MAC addresses
//	40  in a fleet, where at most fleetMACs are before it: the fleet's name 8, when it was founded 8
//
// OpenSM on ibsim writes two bytes of its own into the last 8, which are not used.
const (
	bridgeName       = "Causeway bridge"
	bridgeID         = ib.ServiceID(0x02_43617573_6577_00)
	bridgeVersion    = 1
	bridgeMACs       = 6
	fleetMACs        = 4 // in a fleet, in place of bridgeMACs
	bridgeRecords    = 16
	bridgeInstanceAt = 2
	bridgeLIDAt      = 10
	bridgeLMCAt      = 12
	bridgeMACsAt     = 16
	bridgeNameAt     = 40
	bridgeFoundedAt  = 48
	bridgeLease      = 120 // seconds: registered again four times meanwhile
	macLen           = 6
)

var errManyMACs = errors.New("sa: a bridge has more MAC addresses than it can announce")

// A bridgeList is the list of bridges at the SA.
type bridgeList struct {
	client    *Client
	registrar *Registrar
	fleet     atomic.Pointer[ibside.Fleet] // that of the bridge, as it was announced last
}

// Announce implements ibside.Announcer.
func (b *bridgeList) Announce(ctx context.Context, own ibside.Bridge) error {
	b.fleet.Store(&own.Fleet)
	most := bridgeMACs
	if own.Fleet.Founded != 0 {
		most = fleetMACs
	}
	macs := own.MACs
	if len(macs) > bridgeRecords*most {
		return errManyMACs
	}
	for n := 0; n == 0 || len(macs) > 0; n++ {
		some := macs[:min(len(macs), most)]
		macs = macs[len(some):]
		err := b.registrar.Offer(ctx, bridgeID+ib.ServiceID(n), func(p ib.PortState) ib.ServiceRecordFields {
			x := ibside.Bridge{Instance: own.Instance, GID: p.GID, LID: p.LID, LMC: p.LMC, MACs: some, Fleet: own.Fleet}
			return ib.ServiceRecordFields{PKey: ib.PKeyDefault, Lease: bridgeLease, Name: ib.ServiceNameOf(bridgeName), Data: bridgeData(&x)}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func bridgeData(x *ibside.Bridge) (b [ib.ServiceDataLen]byte) {
	b[0], b[1] = bridgeVersion, byte(len(x.MACs))
	binary.BigEndian.PutUint64(b[bridgeInstanceAt:], x.Instance)
	binary.BigEndian.PutUint16(b[bridgeLIDAt:], uint16(x.LID))
	b[bridgeLMCAt] = x.LMC
	for i, m := range x.MACs {
		copy(b[bridgeMACsAt+macLen*i:], m[:])
	}
	if x.Fleet.Founded != 0 {
		binary.BigEndian.PutUint64(b[bridgeNameAt:], x.Fleet.Name)
		binary.BigEndian.PutUint64(b[bridgeFoundedAt:], x.Fleet.Founded)
	}
	return b
}

// bridgeOf reads a record. What it says is no more than a hint: anybody on the subnet can write it.
func bridgeOf(f *ib.ServiceRecordFields) ibside.Bridge {
	x, b := ibside.Bridge{GID: f.GID}, &f.Data
	if b[0] != bridgeVersion {
		return x
	}
	x.Instance = binary.BigEndian.Uint64(b[bridgeInstanceAt:])
	if lid, lmc := ib.LID(binary.BigEndian.Uint16(b[bridgeLIDAt:])), b[bridgeLMCAt]; lid.IsUnicast() && lmc <= ib.MaxLMC {
		x.LID, x.LMC = lid, lmc
	}
	for i := range min(int(b[1]), bridgeMACs) {
		x.MACs = append(x.MACs, [6]byte(b[bridgeMACsAt+macLen*i:]))
	}
	if founded := binary.BigEndian.Uint64(b[bridgeFoundedAt:]); b[1] <= fleetMACs && founded != 0 {
		x.Fleet = ibside.Fleet{Name: binary.BigEndian.Uint64(b[bridgeNameAt:]), Founded: founded}
	}
	return x
}

// Bridges implements ibside.Announcer.
func (b *bridgeList) Bridges(ctx context.Context) (all []ibside.Bridge, err error) {
	found, err := b.client.Services(ctx, bridgeName)
	for i := range found {
		if id := found[i].ID; id >= bridgeID && id < bridgeID+bridgeRecords && !found[i].GID.IsZero() && !found[i].GID.IsMulticast() {
			all = append(all, bridgeOf(&found[i]))
		}
	}
	return all, err
}

// fellows returns the LIDs of the other bridges of the fleet.
func (b *bridgeList) fellows(ctx context.Context) (lids []ib.LID, err error) {
	fleet := b.fleet.Load()
	if fleet == nil || fleet.Founded == 0 {
		return nil, nil
	}
	p, err := b.client.PortState()
	if err != nil {
		return nil, err
	}
	all, err := b.Bridges(ctx)
	for _, x := range all {
		if x.Fleet == *fleet && x.LID != 0 && x.LID != p.LID && !slices.Contains(lids, x.LID) {
			lids = append(lids, x.LID)
		}
	}
	return lids, err
}
