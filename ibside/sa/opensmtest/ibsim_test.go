// SPDX-License-Identifier: Apache-2.0

package opensmtest

import (
	"testing"

	"causeway/ibside/ib"
)

// FuzzIbsim parses any input as from the simulator's data socket and as its PortInfo.
func FuzzIbsim(f *testing.F) {
	b := make([]byte, ibsimLen)
	ib.PutMAD(b[ibsimMAD:], ib.MADFields{Class: ib.ClassSA, ClassVersion: ib.ClassVersionSA, Method: ib.MethodReport, TID: 7, AttrID: ib.AttrNotice})
	ib.PutNotice(b[ibsimMAD+ib.MADHdrLen+ib.SAHdrLen:], ib.NoticeFields{IsGeneric: true, Trap: 66, IssuerLID: 1})
	f.Add(append([]byte(nil), b...))
	b[ibsimStatus] = 1
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		in := make([]byte, ibsimLen)
		copy(in, b)
		if from, err := ibsimReceived(in); err != nil && from != 0 {
			t.Errorf("%v and from %v", err, from)
		}
		if p := portStateOf(in[:ibsimCtlData], 1); p.GID.GUID() != 1 || p.SMSL > 15 || p.LMC > 7 {
			t.Errorf("%+v", p)
		}
	})
}
