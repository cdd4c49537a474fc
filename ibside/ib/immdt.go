// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// ImmDtLen is the length of immediate data.
const ImmDtLen = 4

// ImmDt is a view of the Immediate Data header (IBTA vol 1 §9.3.6), in wire order. It aliases its packet.
// The four bytes are the applications' own. The rdma_cm sample programs put their QPN there, so a bridge
// must carry them unchanged.
type ImmDt []byte

// AsImmDt returns the first ImmDtLen bytes of b as an ImmDt; false when b is too short.
func AsImmDt(b []byte) (ImmDt, bool) {
	if len(b) < ImmDtLen {
		return nil, false
	}
	return ImmDt(b[:ImmDtLen:ImmDtLen]), true
}

// Value returns the immediate data as a number.
func (h ImmDt) Value() uint32 { return binary.BigEndian.Uint32(h) }

// PutImmDt writes v into the first ImmDtLen bytes of b and returns the view.
func PutImmDt(b []byte, v uint32) ImmDt {
	h := ImmDt(b[:ImmDtLen:ImmDtLen])
	binary.BigEndian.PutUint32(h, v)
	return h
}
