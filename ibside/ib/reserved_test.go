// SPDX-License-Identifier: Apache-2.0

package ib

// HasReserved reports whether a reserved bit is set. Receivers ignore those bits.
func (h LRH) HasReserved() bool { return h[lrhSL]&0x0c != 0 || h[lrhPktLen]&0xf8 != 0 }

// HasReserved reports whether a reserved bit is set. Receivers ignore those bits.
func (h BTH) HasReserved() bool { return h[bthECN]&0x3f != 0 || h[bthPSN]&0x7f != 0 }

// HasReserved reports whether a reserved bit is set. Receivers ignore those bits.
func (h DETH) HasReserved() bool { return h[dethSrcQP] != 0 }

// HasReserved reports whether a reserved bit is set. Receivers ignore those bits.
func (h MAD) HasReserved() bool { return h[madReserved]|h[madReserved+1] != 0 }
