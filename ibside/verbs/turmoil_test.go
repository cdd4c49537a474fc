// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/fabricport/porttest"
	"causeway/ibside/ib"
)

// TestTurmoil has a worker send without a pause while management makes, fails, recovers and destroys its queue pairs,
// flushes its address handles and joins groups. At the end, the counters and the mempool show whether anything was lost
// or freed twice.
func TestTurmoil(t *testing.T) {
	a, b := newSide(t, Config{ProxyQPs: 64}), newSide(t, Config{})
	_, dst := b.proxyQP(t, 0, testQKey)
	var mu sync.Mutex
	var handles []uint32
	for range 8 {
		h, _ := a.proxyQP(t, 0, testQKey)
		handles = append(handles, h)
	}
	pick := func() uint32 {
		mu.Lock()
		defer mu.Unlock()
		return handles[rand.IntN(len(handles))]
	}
	var stop atomic.Bool
	var worker sync.WaitGroup
	worker.Go(func() { playWorker(a, b, pick, dst, &stop) })
	start := time.Now()
	for n := 0; time.Since(start) < 4*time.Second; n++ {
		h := pick()
		a.qpTable.mu.Lock()
		if q := a.qps[h]; q != nil && n%3 == 0 {
			q.injectFailure()
			q.markError()
		}
		a.qpTable.mu.Unlock()
		if n%5 == 0 {
			a.handleEvent(event{Kind: eventGID, Worker: -1})
		}
		if n%7 == 0 {
			fresh, _ := a.proxyQP(t, 0, testQKey)
			mu.Lock() // not while the old one is being destroyed, which waits for the worker
			i := rand.IntN(len(handles))
			old := handles[i]
			handles[i] = fresh
			mu.Unlock()
			if err := a.DestroyProxyQP(old); err != nil {
				t.Error(err)
			}
		}
		if n%11 == 0 {
			if _, err := a.Join(t.Context(), ibside.Join{MGID: groupGID(n % 3), QKey: groupQKey, PKey: ib.PKeyDefault, Receive: true}); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Millisecond)
	}
	stop.Store(true)
	worker.Wait()
	c := a.quiet(t)
	t.Logf("%+v", c)
	if c.Sent < 100 || c.Recovered < 10 {
		t.Errorf("hardly anything happened: %+v", c)
	}
	b.poll(0, 10000, 50*time.Millisecond)
	flow(t, a, b, pick(), dst, 2*time.Second)
}

// playWorker acts as both ports' worker, in one thread.
func playWorker(a, b *side, pick func() uint32, dst ib.QPN, stop *atomic.Bool) {
	for !stop.Load() {
		var burst []porttest.Send
		for range 16 {
			m, err := a.pool.Alloc([]byte("turmoil"))
			if err != nil {
				break
			}
			s := a.to(pick(), dst, 0, porttest.SendGRH)
			s.Mbuf = m
			burst = append(burst, s)
		}
		porttest.Post(a.Pointer(0), burst)
		porttest.Free(a.Pointer(0))
		a.poll(0, 1, 100*time.Microsecond)
		b.poll(0, 64, time.Millisecond)
	}
}
