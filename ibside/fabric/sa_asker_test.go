// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"testing"
	"time"

	"causeway/ibside/ib"
)

// saAsker sends any request to the administrator, once.
type saAsker struct {
	hca  *HCA
	port *MADPort
	tid  uint64
}

func newSAAsker(h *HCA) *saAsker { return &saAsker{hca: h, port: NewMADPort(h, ib.ClassSA)} }

// query sends one request and returns the status and the record of its answer. Other datagrams are ignored.
func (c *saAsker) query(t testing.TB, method uint8, attr uint16, mask uint64, data []byte) (uint16, []byte) {
	t.Helper()
	c.send(t, method, attr, mask, data)
	got := make(chan []byte, 1)
	go func() {
		defer close(got)
		b := make([]byte, ib.MADLen)
		for {
			if _, _, err := c.port.ReceiveMAD(b); err != nil {
				return
			}
			if mad, _ := ib.AsMAD(b); mad.TID() == c.tid && mad.IsResponse() {
				got <- b
				return
			}
		}
	}()
	select {
	case b := <-got:
		mad, _ := ib.AsMAD(b)
		return mad.Status(), b[ib.MADHdrLen+ib.SAHdrLen:]
	case <-time.After(waitLimit):
		t.Fatal("the SA does not answer")
		return 0, nil
	}
}

// send sends a request.
func (c *saAsker) send(t testing.TB, method uint8, attr uint16, mask uint64, data []byte) {
	t.Helper()
	c.tid++
	b := make([]byte, ib.MADLen)
	ib.PutMAD(b, ib.MADFields{Class: ib.ClassSA, ClassVersion: ib.ClassVersionSA, Method: method, TID: c.tid, AttrID: attr})
	ib.PutSAHeader(b[ib.MADHdrLen:], ib.SAFields{Components: mask})
	copy(b[ib.MADHdrLen+ib.SAHdrLen:], data)
	if err := c.port.SendMAD(c.hca.Info().SMLID, 0, b); err != nil {
		t.Fatal(err)
	}
}

// ask sends one MCMemberRecord request and returns the status and the record.
func ask(t testing.TB, c *saAsker, method uint8, mask uint64, f ib.MCMemberFields) (uint16, ib.MCMemberFields) {
	t.Helper()
	data := make([]byte, ib.MCMemberRecordLen)
	ib.PutMCMemberRecord(data, f)
	status, data := c.query(t, method, ib.AttrMCMemberRecord, mask, data)
	rec, _ := ib.AsMCMemberRecord(data)
	return status, rec.Fields()
}

// create joins a group as a full member, which creates it.
func (c *saAsker) create(t testing.TB, mgid ib.GID, qkey ib.QKey) (uint16, ib.MCMemberFields) {
	t.Helper()
	return ask(t, c, ib.MethodSet, createMask, ib.MCMemberFields{
		MGID: mgid, PortGID: c.hca.Info().GID, QKey: qkey, PKey: 0xffff, JoinState: ib.JoinFull,
	})
}
