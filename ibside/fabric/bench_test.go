// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"testing"
)

// BenchmarkUnicast sends messages from one adapter to another, through the switch.
func BenchmarkUnicast(b *testing.B) {
	for _, burst := range []int{1, 64} {
		for _, size := range []int{64, 4096} {
			b.Run(fmt.Sprintf("bursts of %d, %d bytes", burst, size), func(b *testing.B) { benchmarkUnicast(b, burst, size) })
		}
	}
}

// benchmarkUnicast counts messages that came.
func benchmarkUnicast(b *testing.B, burst, size int) {
	f := newFabric(b, Config{Queue: 1 << 12})
	from, to := attachHCA(b, f, PortConfig{Name: "from", GUID: 8}), attachHCA(b, f, PortConfig{Name: "to", GUID: 9})
	recv := NewRecvQueue(1 << 12)
	q := mustQP(b, from, QPConfig{QKey: testQKey, Recv: NewRecvQueue(1)})
	mustQP(b, to, QPConfig{QPN: testQPN, QKey: testQKey, Recv: recv})
	posts, why := make([]Post, burst), make([]string, burst)
	for i := range posts {
		posts[i] = Post{q, Send{AH: AH{DLID: to.Info().LID}, DestQP: testQPN, QKey: testQKey, Payload: make([]byte, size)}}
	}
	got := make([]Received, 256)
	b.ReportAllocs()
	b.SetBytes(int64(size))
	sent, came := 0, 0
	for b.ResetTimer(); came < b.N; came += recv.Poll(got) {
		if sent-came <= 1<<11 {
			from.SendBurst(posts, why)
			sent += burst
		} else {
			_ = recv.Wait(b.Context())
		}
	}
}
