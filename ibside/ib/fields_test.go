// SPDX-License-Identifier: Apache-2.0

package ib

// Getters that only tests use.

// MigReq returns M. It means nothing for datagrams, and real senders set it.
func (h BTH) MigReq() bool { return h[bthFlags]&0x40 != 0 }

// AckReq returns A, which is 0 in datagrams.
func (h BTH) AckReq() bool { return h[bthPSN]&0x80 != 0 }

// Fields returns all that PutBTH writes.
func (h BTH) Fields() BTHFields {
	return BTHFields{
		OpCode: h.OpCode(), Solicited: h.Solicited(), MigReq: h.MigReq(), PadCnt: h.PadCnt(), PKey: h.PKey(),
		FECN: h.FECN(), BECN: h.BECN(), DestQP: h.DestQP(), AckReq: h.AckReq(), PSN: h.PSN(),
	}
}

// Fields returns all that PutDETH writes.
func (h DETH) Fields() DETHFields { return DETHFields{QKey: h.QKey(), SrcQP: h.SrcQP()} }

// Fields returns all that PutLRH writes.
func (h LRH) Fields() LRHFields {
	return LRHFields{VL: h.VL(), SL: h.SL(), LNH: h.LNH(), DLID: h.DLID(), SLID: h.SLID(), PktLenWords: h.PktLenWords()}
}
