// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"

	"causeway/ibside/ib"
)

// ErrClosed is what a closed port or fabric returns.
var ErrClosed = errors.New("fabric: closed")

// Port is one end of a link to the switch: of this process (Fabric.Attach) or of another (Dial). An HCA
// attaches to it.
type Port interface {
	// Info says what the subnet assigned to the port. It does not change.
	Info() PortInfo

	// Send gives a packet, LRH to VCRC, to the switch. The caller must not change it afterwards. Send does
	// not wait for the packet's receivers. It reports false when the port is closed.
	Send(packet []byte) bool

	// Recv waits for packets and fills at most len(packets) in. The caller must not change them. Its next
	// call tells that it is done with those of the last. It returns ErrClosed after Close.
	Recv(packets [][]byte) (int, error)

	// Close takes the port off the subnet; its group memberships end.
	Close() error
}

// PortInfo is what the subnet manager gives a port.
type PortInfo struct {
	Name  string
	GUID  ib.GUID
	GID   ib.GID
	LID   ib.LID
	SMLID ib.LID // of the subnet administrator
	MTU   ib.MTU
	PKeys []ib.PKey
}

// PortConfig is what a port asks for.
type PortConfig struct {
	Name  string
	GUID  ib.GUID   // not zero, and unique on the subnet
	MTU   ib.MTU    // zero: the subnet's; a larger one is cut to it
	PKeys []ib.PKey // nil: the subnet's table; each must match an entry of it
	Queue int       // packets on the way to the port; zero: the subnet's
}
