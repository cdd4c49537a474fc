// SPDX-License-Identifier: Apache-2.0

package ibside

import (
	"context"

	"causeway/ibside/ib"
)

// A Bridge is a port of a bridge, as it says to the others on its subnet.
type Bridge struct {
	Instance uint64 // of the process; the same on all its ports
	GID      ib.GID
	LID      ib.LID // the first of 1<<LMC; 0: not known
	LMC      uint8
	MACs     [][6]byte // by which it sends on Ethernet
	Fleet    Fleet     // of which it is a member
}

// A Fleet tells fleets from each other: two of one name differ in when they were founded, each in an etcd of its own.
type Fleet struct {
	Name    uint64 // the first bytes of its name's SHA-256
	Founded uint64 // Unix time in nanoseconds; 0: there is no fleet, or it is not known yet
}

// An Announcer is a Port whose subnet administrator lists the bridges on the subnet. Both methods may take as long as
// their context allows, and are called from goroutines of their own.
type Announcer interface {
	// Announce puts the bridge on the list, for as long as the Port is open. The Port knows its GID, LID and LMC.
	Announce(ctx context.Context, b Bridge) error
	// Bridges returns the list, the bridge itself included. With an error it may lack some.
	Bridges(ctx context.Context) ([]Bridge, error)
}
