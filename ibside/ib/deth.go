// SPDX-License-Identifier: Apache-2.0

package ib

import "encoding/binary"

// DETHLen is the length of a Datagram Extended Transport Header.
const DETHLen = 8

const (
	dethQKey  = 0
	dethSrcQP = 4 // reserved 8, SrcQP 24
)

// DETH is a view of a Datagram Extended Transport Header (IBTA vol 1 §9.3.2), in wire order. It aliases its packet.
type DETH []byte

// AsDETH returns the first DETHLen bytes of b as a DETH; false when b is too short.
func AsDETH(b []byte) (DETH, bool) {
	if len(b) < DETHLen {
		return nil, false
	}
	return DETH(b[:DETHLen:DETHLen]), true
}

// QKey returns the Q_Key the receiving queue pair must have.
func (h DETH) QKey() QKey { return QKey(binary.BigEndian.Uint32(h[dethQKey:])) }

// SrcQP returns the source QPN.
func (h DETH) SrcQP() QPN { return QPN(binary.BigEndian.Uint32(h[dethSrcQP:]) & mask24) }

// DETHFields is a DETH in host order.
type DETHFields struct {
	QKey  QKey
	SrcQP QPN
}

// PutDETH writes f into the first DETHLen bytes of b and returns the view. A SrcQP above 24 bits loses its upper bits.
func PutDETH(b []byte, f DETHFields) DETH {
	h := DETH(b[:DETHLen:DETHLen])
	binary.BigEndian.PutUint32(h[dethQKey:], uint32(f.QKey))
	binary.BigEndian.PutUint32(h[dethSrcQP:], uint32(f.SrcQP)&mask24)
	return h
}
