// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"

	"causeway/ibside/ib"
)

// ErrClosed is the error of a closed port or fabric.
var ErrClosed = errors.New("fabric: closed")

// Port is the adapter's end of a link to the switch, in this process (Fabric.Attach) or in another (Dial, Follow).
type Port interface {
	// Info returns what the subnet assigned to the port. Only a port of Follow attaches again, and gets it anew.
	Info() PortInfo

	// Down returns why the port carries nothing; "": it does.
	Down() string

	// Send passes packets, LRH to VCRC, to the switch, in order. The caller must not modify them afterwards, but may
	// use the slice of them again. Send does not wait for the receivers. It returns how many it took, always the first
	// ones: fewer than all when the port is closed or has no link.
	Send(packets ...[]byte) int

	// Sent reports whether the subnet has all packets that Send took before. Without a link they are lost.
	Sent() bool

	// Recv waits for packets, whose VCRCs are right, and returns at most len(packets). The caller must not modify them.
	// Calling Recv again means that the caller has processed the last ones. It returns none when Down or Info may have
	// changed, and ErrClosed after Close.
	Recv(packets [][]byte) (int, error)

	// Drained reports whether Recv's caller has processed all that had come when Drained was called.
	Drained() bool

	// Close removes the port from the subnet; its group memberships end.
	Close() error
}

// PortInfo is what the subnet assigns to a port.
type PortInfo struct {
	Name  string
	GUID  ib.GUID
	GID   ib.GID
	LID   ib.LID // the first of 1<<LMC
	LMC   uint8
	SMLID ib.LID // of the subnet administrator
	MTU   ib.MTU
	PKeys []ib.PKey
}

// PortConfig describes a port to attach.
type PortConfig struct {
	Name  string
	GUID  ib.GUID   // not zero, and unique on the subnet
	MTU   ib.MTU    // zero: the subnet's; a larger one is reduced to it
	PKeys []ib.PKey // nil: the subnet's table; each must match an entry of it
	Queue int       // depth of the receive queue, packets; zero: the subnet's
}
