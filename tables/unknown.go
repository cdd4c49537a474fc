// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"encoding/binary"
	"net/netip"

	"causeway/ibside/ib"
)

// An Unknown is what a worker knows of a node that no table has. One of the fields is set.
type Unknown struct {
	GID ib.GID     // it has sent a message with a GRH
	LID ib.LID     // it has sent a message without one
	IP  netip.Addr // a RoCE host has sent to it
}

// UnknownSource reads the key of a look-up in the table sources, as a worker has it.
func UnknownSource(key [24]byte) Unknown {
	return Unknown{GID: ib.GID(key[:16]), LID: ib.LID(binary.NativeEndian.Uint64(key[16:]))}
}

// UnknownNode reads the key of a look-up in the table nodes.
func UnknownNode(key [24]byte) Unknown {
	return Unknown{IP: netip.AddrFrom16([16]byte(key[:16])).Unmap()}
}
