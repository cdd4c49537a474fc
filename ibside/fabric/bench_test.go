// SPDX-License-Identifier: Apache-2.0

package fabric

import "testing"

// BenchmarkUnicast sends messages of 64 bytes from one adapter to another, through the switch.
func BenchmarkUnicast(b *testing.B) {
	f := newFabric(b, Config{Queue: 1 << 16})
	from, to := attachHCA(b, f, PortConfig{Name: "from", GUID: 8}), attachHCA(b, f, PortConfig{Name: "to", GUID: 9})
	recv := NewRecvQueue(256)
	q := mustQP(b, from, QPConfig{QKey: testQKey, Recv: NewRecvQueue(1)})
	mustQP(b, to, QPConfig{QPN: testQPN, QKey: testQKey, Recv: recv})
	s := Send{AH: AH{DLID: to.Info().LID}, DestQP: testQPN, QKey: testQKey, Payload: make([]byte, 64)}
	got := make([]Received, 256)
	b.ReportAllocs()
	for b.Loop() {
		q.Send(&s)
		recv.Poll(got)
	}
}
