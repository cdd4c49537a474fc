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
}

// An Announcer is a Port whose subnet administrator lists the bridges on the subnet. Both methods may take as long as
// their context allows, and are called from goroutines of their own.
type Announcer interface {
	// Announce puts the bridge on the list, for as long as the Port is open.
	Announce(ctx context.Context, instance uint64, macs [][6]byte) error
	// Bridges returns the list, the bridge itself included. With an error it may lack some.
	Bridges(ctx context.Context) ([]Bridge, error)
}
