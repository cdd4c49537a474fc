// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// slowHCA is qpHardware as an HCA under load is: each call takes 50 ms. It gives the lowest number that is free.
type slowHCA struct {
	mu    sync.Mutex
	taken map[ib.QPN]bool
	most  int // queue pairs that there can be; 0: no limit
	made  int
}

const hcaTime = 50 * time.Millisecond

var errNoMore = errors.New("no more")

func (h *slowHCA) make(q *queuePair) error {
	time.Sleep(hcaTime)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.most > 0 && len(h.taken) == h.most {
		return errNoMore
	}
	for q.qpn = 0x100; h.taken[q.qpn]; {
		q.qpn++
	}
	h.taken[q.qpn] = true
	h.made++
	return nil
}

// counts returns how many queue pairs it has made, and how many there are.
func (h *slowHCA) counts() (made, there int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.made, len(h.taken)
}

func (h *slowHCA) destroy(q *queuePair) error { return h.free(q) }

func (h *slowHCA) rest(*queuePair) error {
	time.Sleep(hcaTime)
	return nil
}

func (h *slowHCA) free(q *queuePair) error {
	time.Sleep(hcaTime)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.taken, q.qpn)
	return nil
}

// stockRig is a Port of one worker on a slow HCA. Time is fake (testing/synctest).
type stockRig struct {
	*Port
	t   *testing.T
	hca *slowHCA
	log bytes.Buffer
}

// stocked runs a test with a port for so many queue pairs, whose stock is full.
func stocked(t *testing.T, qps int, test func(r *stockRig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &stockRig{t: t, hca: &slowHCA{taken: map[ib.QPN]bool{}}}
		r.Port = newTestPort(Config{Device: "mlx5_0", Port: 1, PKey: 0xffff, ProxyQPs: qps, Log: slog.New(slog.NewTextHandler(&r.log, nil))})
		r.hardware = r.hca
		r.attributes.port = PortInfo{PKeys: []ib.PKey{0xffff, 0x8001}, Info: ibside.Info{}}
		r.workers = []*worker{r.emptyWorker(0)}
		r.ended.Go(func() { r.keepStock(r.ctx) })
		time.Sleep(2 * time.Second)
		test(r)
		r.stop()
		r.ended.Wait()
	})
}

func (r *stockRig) create(pkey ib.PKey, qkey ib.QKey) (uint32, ib.QPN) {
	r.t.Helper()
	qp, qpn, err := r.CreateProxyQP(0, pkey, qkey)
	if err != nil {
		r.t.Fatal(err)
	}
	return qp, qpn
}

// took returns how long f takes.
func took(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// TestReady checks that proxy QPs of rdma_cm's Q_Key, and of the one that was asked for last, need no time of the
// device, that a burst beyond those ready is made side by side, and that nothing else waits meanwhile.
func TestReady(t *testing.T) {
	stocked(t, 256, func(r *stockRig) {
		for range readyMost {
			if d := took(func() { r.create(0xffff, ib.QKeyRDMAUDP) }); d != 0 {
				t.Errorf("a ready queue pair took %v", d)
			}
		}
		time.Sleep(3 * time.Second)
		if c := r.counters(); c.Ready != readyMost || c.ProxyQPs != readyMost {
			t.Errorf("%d are ready again, %d in use", c.Ready, c.ProxyQPs)
		}
		const burst = 3 * readyMost
		d := took(func() {
			var all sync.WaitGroup
			for range burst {
				all.Go(func() { r.create(0xffff, ib.QKeyRDMAUDP) })
			}
			synctest.Wait()
			if d := took(func() { r.counters() }); d != 0 {
				t.Errorf("the counters wait for the device, %v", d)
			}
			all.Wait()
		})
		if d > hcaTime {
			t.Errorf("a burst of %d took %v", burst, d)
		}
		for _, c := range []struct {
			pkey ib.PKey
			qkey ib.QKey
		}{{0xffff, 7}, {0x8001, 7}} { // another Q_Key, another partition
			if d := took(func() { r.create(c.pkey, c.qkey) }); d != hcaTime {
				t.Errorf("the first with %v, %v took %v", c.pkey, c.qkey, d)
			}
			time.Sleep(time.Second)
			for range refillsForEach {
				if d := took(func() { r.create(c.pkey, c.qkey) }); d != 0 {
					t.Errorf("a further one with %v, %v took %v", c.pkey, c.qkey, d)
				}
			}
		}
	})
}

// TestReadyGivesWay checks that ready queue pairs have nobody's place, and that a host that asks for another Q_Key each
// time does not make the device work for all that could be ready.
func TestReadyGivesWay(t *testing.T) {
	stocked(t, 2*readyMost, func(r *stockRig) {
		before, _ := r.hca.counts()
		for i := range readyMost {
			r.create(0xffff, ib.QKey(i))
			time.Sleep(time.Second)
		}
		if made, _ := r.hca.counts(); made-before > readyMost*(1+refillsForEach) {
			t.Errorf("%d queue pairs were made for %d", made-before, readyMost)
		}
		for i := range readyMost {
			r.create(0xffff, ib.QKey(100+i))
		}
		if _, _, err := r.CreateProxyQP(0, 0xffff, 1); !errors.Is(err, errAllInUse) {
			t.Errorf("one too many: %v", err)
		}
		_, there := r.hca.counts()
		if c := r.counters(); c.ProxyQPs != 2*readyMost || c.Ready != 0 || there != 2*readyMost {
			t.Errorf("%d in use, %d ready, %d at the device", c.ProxyQPs, c.Ready, there)
		}
	})
}

// TestFillingGivesWay checks that a queue pair that is being made ready takes the last place from no proxy QP.
func TestFillingGivesWay(t *testing.T) {
	const most = readyMost + 1
	stocked(t, most, func(r *stockRig) {
		r.create(0xffff, ib.QKeyRDMAUDP)
		synctest.Wait() // until the device makes one
		if len(r.workers[0].free) != 0 {
			t.Fatal("none is being made")
		}
		for range most - 1 {
			r.create(0xffff, ib.QKeyRDMAUDP)
		}
		if c := r.counters(); c.ProxyQPs != most || c.Ready != 0 {
			t.Errorf("%d in use, %d ready", c.ProxyQPs, c.Ready)
		}
	})
}

// TestRest checks that the number of a destroyed queue pair is no other's for restTime, and then is free.
func TestRest(t *testing.T) {
	stocked(t, 256, func(r *stockRig) {
		qp, old := r.create(0xffff, 7)
		if err := r.DestroyProxyQP(qp); err != nil {
			t.Fatal(err)
		}
		if err := r.DestroyProxyQP(qp); err == nil {
			t.Error("it was destroyed twice")
		}
		end := time.Now().Add(restTime - time.Second)
		for time.Now().Before(end) {
			qp, qpn := r.create(0xffff, 7)
			if qpn == old {
				t.Fatalf("%v is another's %v before its time", qpn, time.Until(end))
			}
			if err := r.DestroyProxyQP(qp); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if c := r.counters(); c.RestsCut != 0 || c.Resting < 100 {
			t.Errorf("%d rest, %d were cut", c.Resting, c.RestsCut)
		}
		time.Sleep(restTime + 20*time.Second)
		if c := r.counters(); c.Resting != 0 {
			t.Errorf("%d still rest", c.Resting)
		}
	})
}

// TestRestsCut checks that the numbers that rest are bounded, that they give way where the device has no more queue
// pairs, and that both are counted.
func TestRestsCut(t *testing.T) {
	stocked(t, 256, func(r *stockRig) {
		s := &r.workers[0].stock
		rest := func(n int) { // so many rest, the oldest with the first number that the device gives
			r.qpTable.mu.Lock()
			defer r.qpTable.mu.Unlock()
			s.resting = nil
			for i := range n {
				s.resting = append(s.resting, restingQP{&queuePair{w: r.workers[0], qpn: ib.QPN(0x100 + i)}, time.Now().Add(restTime)})
			}
		}
		rest(restMost)
		qp, _ := r.create(0xffff, 7)
		if err := r.DestroyProxyQP(qp); err != nil || r.counters().Resting != restMost || r.counters().RestsCut != 1 {
			t.Errorf("%v, %+v", err, r.counters())
		}
		r.stop() // what keeps the stock could end a ready one at this moment, and so make room in the device
		r.ended.Wait()
		rest(2)
		r.hca.mu.Lock()
		r.hca.most = len(r.hca.taken)
		r.hca.mu.Unlock()
		if _, _, err := r.CreateProxyQP(0, 0xffff, 99); err != nil || r.counters().RestsCut != 2 {
			t.Errorf("%v, %+v", err, r.counters())
		}
		synctest.Wait()
		if n := strings.Count(r.log.String(), "qpn_rest_cut"); n != 2 {
			t.Errorf("the log has it %d times: %s", n, r.log.String())
		}
	})
}

// TestShortOfQueuePairs checks that a queue pair that no one has, resting or ready, of whatever worker, makes room
// where the device makes no more, and that the error says so when there is none.
func TestShortOfQueuePairs(t *testing.T) {
	stocked(t, 256, func(r *stockRig) {
		r.stop() // nothing is made ready by itself any more
		r.ended.Wait()
		second := r.emptyWorker(1)
		r.workers = append(r.workers, second)
		for r.refill(second) {
		}
		r.hca.mu.Lock()
		r.hca.most = len(r.hca.taken)
		r.hca.mu.Unlock()
		spare := len(r.workers[0].stock.ready) + len(second.stock.ready)
		if spare != 2*readyMost {
			t.Fatalf("%d are ready", spare)
		}
		for i := range spare {
			if _, _, err := r.CreateProxyQP(0, 0xffff, ib.QKey(100+i)); err != nil {
				t.Fatalf("%d of %d: %v", i, spare, err)
			}
		}
		if _, _, err := r.CreateProxyQP(0, 0xffff, 99); !errors.Is(err, ibside.ErrNoQueuePair) || !errors.Is(err, errNoMore) {
			t.Errorf("one too many: %v", err)
		}
	})
}
