// SPDX-License-Identifier: Apache-2.0

package sa

import (
	"testing"

	"causeway/ibside/ib"
)

// FuzzReceived passes any input to a client, as from the SA and as from others, while it waits for an answer and for a
// table.
func FuzzReceived(f *testing.F) {
	request := make([]byte, ib.MADLen)
	ib.PutMAD(request, ib.MADFields{Class: ib.ClassSA, ClassVersion: ib.ClassVersionSA, Method: ib.MethodGet, TID: 1, AttrID: ib.AttrPathRecord})
	f.Add(uint16(smLID), reply(request, 0, nil))
	f.Add(uint16(9), reply(request, ib.SAStatusDenied, nil))
	f.Add(uint16(smLID), report(7, 66))
	data, _ := groupRecords(9)
	ib.PutMAD(request, ib.MADFields{Class: ib.ClassSA, ClassVersion: ib.ClassVersionSA, Method: ib.MethodGetTable, TID: 2, AttrID: ib.AttrMCMemberRecord})
	s := sender{request: request, data: data, step: recordStep}
	for n := uint32(1); n <= s.segments(); n++ {
		f.Add(uint16(smLID), s.segment(n))
	}
	f.Fuzz(func(t *testing.T, from uint16, b []byte) {
		w := newWire()
		c := &Client{
			transport: w, cfg: Config{MaxTable: 1000}.withDefaults(), tries: map[uint32]*try{}, notices: make(chan ib.NoticeFields, 1), sm: smLID,
		}
		answers, progress := make(chan answer, 4), make(chan struct{}, 1)
		one := &request1
		tab := &request2
		c.tries[1] = &try{request: one, sm: smLID, table: &table{max: 1000, window: 1}, answers: answers, progress: progress}
		c.tries[2] = &try{request: tab, sm: smLID, table: &table{max: 1000, window: 1}, answers: answers, progress: progress}
		mad := make([]byte, ib.MADLen)
		for len(b) > 0 {
			n := copy(mad, b)
			b = b[n:]
			c.received(ib.LID(from), 0, mad)
		}
		s := c.stats
		if s.Received != s.Answers+s.Segments+s.Notices+s.Repeated+s.NoticesDropped+s.Late+s.Ignored+s.Lost {
			t.Errorf("not all that was received is accounted for: %+v", s)
		}
		for len(answers) > 0 {
			if a := <-answers; a.table != nil && a.err == nil {
				checkTable(t, a.table)
			}
		}
	})
}

var (
	request1 = request{method: ib.MethodGet, answer: ib.MethodGetResp, attr: ib.AttrPathRecord}
	request2 = request{method: ib.MethodGetTable, answer: ib.MethodTableResp, attr: ib.AttrMCMemberRecord}
)

// checkTable holds for each table: it is not larger than allowed, and its records are whole.
func checkTable(t *testing.T, tab *table) {
	if len(tab.data) > tab.max {
		t.Errorf("%d bytes, %d are allowed", len(tab.data), tab.max)
	}
	all, err := tab.records(ib.MCMemberRecordLen)
	if err == nil && len(all)*ib.MCMemberRecordLen > len(tab.data) {
		t.Errorf("%d records in %d bytes", len(all), len(tab.data))
	}
	for _, r := range all {
		if len(r) != ib.MCMemberRecordLen {
			t.Errorf("a record of %d bytes", len(r))
		}
	}
}
