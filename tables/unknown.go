// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"encoding/binary"
	"net/netip"

	"causeway/ibside/ib"
)

// UnknownSource reads the key of a look-up in the table sources, as a worker has it.
func UnknownSource(key [24]byte) ib.NodeKey {
	return ib.NodeKey{GID: ib.GID(key[:16]), LID: ib.LID(binary.NativeEndian.Uint64(key[16:]))}
}

// UnknownNode reads the key of a look-up in the table nodes.
func UnknownNode(key [24]byte) ib.NodeKey {
	return ib.NodeKey{IP: netip.AddrFrom16([16]byte(key[:16])).Unmap()}
}
