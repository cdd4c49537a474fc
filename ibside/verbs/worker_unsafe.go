// SPDX-License-Identifier: Apache-2.0

package verbs

// #include "manage.h"
import "C"

import (
	"errors"
	"sync"
	"time"
	"unsafe"

	"causeway/ibside/ib"
)

// worker is one worker's share of the port.
type worker struct {
	id     int
	c      *C.struct_verbs_worker
	free   []uint32 // indices of queue pairs, under qpTable.mu
	used   []uint8  // how often each index has been used, under qpTable.mu
	stock  stock    // under qpTable.mu
	errors uint64   // as last seen by tick

	answering sync.Mutex      // the ring of answers has one producer
	failed    []failedAH      // under answering
	failing   map[ahPeer]bool // under answering: peers whose last address handle failed
	asks      []askedAH       // only tick uses it
	retired   []retiredAH     // only tick uses it
	resolving sync.WaitGroup  // address handles being created
}

// askedAH is an address handle that the worker has requested. The worker owns the entry again after the answer; the key
// is a copy.
type askedAH struct {
	c   *C.struct_ah_entry
	key C.struct_ah_key
}

// ahPeer is the peer of an address handle.
type ahPeer struct {
	gid ib.GID
	lid ib.LID
}

// failedAH is an address handle that could not be created, and the time from which the worker may request it again.
type failedAH struct {
	ask  askedAH
	till time.Time
}

// retiredAH is an address handle that the worker does not use any more.
type retiredAH struct {
	c    *C.struct_ibv_ah
	till time.Time
}

func (p *Port) newWorker(id int) (*worker, error) {
	w := p.emptyWorker(id)
	sizes := C.struct_verbs_sizes{
		worker: C.uint(id), qps: C.uint(p.cfg.ProxyQPs), receives: C.uint(p.cfg.Receives), sends: C.uint(p.cfg.Sends),
		ah_entries: C.uint(p.cfg.AHs), pending: C.uint(p.cfg.Pending),
	}
	if id < len(p.cfg.Lcores) {
		sizes.lcore = C.uint(p.cfg.Lcores[id])
	}
	return w, errno(C.verbs_worker_new(p.dev.c, &sizes, &w.c))
}

// emptyWorker makes a worker without its part at the device.
func (p *Port) emptyWorker(id int) *worker {
	w := &worker{id: id, used: make([]uint8, p.cfg.ProxyQPs+1), failing: map[ahPeer]bool{}}
	for i := p.cfg.ProxyQPs; i > 0; i-- {
		w.free = append(w.free, uint32(i))
	}
	w.stock = stock{wanted: qpKind{ib.QKeyRDMAUDP, p.cfg.PKey}, refills: readyMost}
	return w
}

// Pointer implements ibside.OpenPort.
func (p *Port) Pointer(worker int) unsafe.Pointer {
	return unsafe.Pointer(&p.workers[worker].c.ib_port)
}

// isPortable reports whether the worker's queues are the library's.
func (w *worker) isPortable() bool { return w.c.direct == nil }

// outsideThreadDomain reports whether the worker's queue pairs share doorbell registers and locks with others.
func (w *worker) outsideThreadDomain() bool { return w.c.td == nil }

// stopAndFree ends the worker's share, and passes its last counters to keep.
func (w *worker) stopAndFree(keep func(*counters)) error {
	w.resolving.Wait()
	if w.c == nil {
		return nil
	}
	err := errno(C.verbs_worker_stop(w.c))
	C.verbs_ah_release(w.c)
	w.collectRetired(time.Now())
	for _, r := range w.retired {
		err = errors.Join(err, errno(C.ibv_destroy_ah(r.c)))
	}
	var last counters
	w.counters(&last)
	keep(&last)
	C.verbs_worker_free(w.c)
	w.c = nil
	return err
}

// collectAsks takes the worker's requests for address handles.
func (w *worker) collectAsks() {
	for {
		e := C.verbs_ah_next_request(w.c)
		if e == nil {
			return
		}
		w.asks = append(w.asks, askedAH{e, e.key})
	}
}

// collectRetired takes the address handles that the worker has retired.
func (w *worker) collectRetired(now time.Time) {
	for {
		ah := C.verbs_ah_next_retired(w.c)
		if ah == nil {
			return
		}
		w.retired = append(w.retired, retiredAH{ah, now.Add(graceForAHs)})
	}
}

// destroyRetired destroys the retired handles whose time is up. They are in order of time.
func (w *worker) destroyRetired(now time.Time) {
	for len(w.retired) > 0 && now.After(w.retired[0].till) {
		C.ibv_destroy_ah(w.retired[0].c)
		w.retired = w.retired[1:]
	}
}

// dropFailed lets the worker request failed handles again, when their time has come.
func (w *worker) dropFailed(now time.Time) {
	w.answering.Lock()
	defer w.answering.Unlock()
	for len(w.failed) > 0 && now.After(w.failed[0].till) {
		C.verbs_ah_answer(w.c, w.failed[0].ask.c, nil)
		w.failed = w.failed[1:]
	}
}

func (a askedAH) dgid() ib.GID    { return gidOf(&a.key.ah.dgid) }
func (a askedAH) source() uint8   { return uint8(a.key.ah.source) }
func (a askedAH) hasGRH() bool    { return a.key.grh != 0 }
func (a askedAH) dlid() ib.LID    { return ib.LID(a.key.ah.dlid) }
func (r retiredAH) destroy() bool { return C.ibv_destroy_ah(r.c) == 0 }

// createAH may take a second.
func (d *device) createAH(a askedAH, sgidIndex int) (retiredAH, error) {
	var ah *C.struct_ibv_ah
	err := errno(C.verbs_ah_create(d.c, &a.key, C.uint(sgidIndex), &ah))
	return retiredAH{c: ah}, err
}

// answer passes the address handle, or the failure, to the worker, unless the handle is stale. Staleness is checked
// under the lock. After a change of the port, the lock is taken before the worker is made to flush its handles, so that
// no stale one stays. first reports that the peer's last try had not failed, or that there was none.
func (w *worker) answer(a askedAH, ah retiredAH, retryAt time.Time, stale func() bool) (done, first bool) {
	w.answering.Lock()
	defer w.answering.Unlock()
	if stale() {
		return false, false
	}
	peer := ahPeer{a.dgid(), a.dlid()}
	failing := w.failing[peer]
	if ah.c == nil {
		w.failed = append(w.failed, failedAH{a, retryAt})
		w.failing[peer] = true
	} else {
		delete(w.failing, peer)
	}
	C.verbs_ah_answer(w.c, a.c, ah.c)
	return true, !failing
}

// retryFailed lets the worker request failed handles again at once, because the port has changed.
func (w *worker) retryFailed() {
	w.answering.Lock()
	defer w.answering.Unlock()
	for i := range w.failed {
		w.failed[i].till = time.Time{}
	}
}

// dropAHs makes the worker request all its address handles again.
func (w *worker) dropAHs() { C.verbs_ah_flush(w.c) }

// sawErrors reports whether the worker has marked queue pairs since the last call.
func (w *worker) sawErrors() bool {
	n := uint64(C.verbs_errors(w.c))
	changed := n != w.errors
	w.errors = n
	return changed
}

// lookAgain makes the next sawErrors report true.
func (w *worker) lookAgain() { w.errors-- }

// queuePair is a proxy QP, one that is ready to be one, or one that receives groups.
type queuePair struct {
	kind   qpKind
	place  uint16 // of its P_Key in the port's table
	groups bool   // it receives groups
	c      *C.struct_verbs_qp
	w      *worker
	handle uint32
	qpn    ib.QPN
	recovery
}

// index is the place of the queue pair among its worker's.
func (q *queuePair) index() uint32 { return q.handle & (C.HANDLE_INDICES - 1) }

// nextHandle returns a handle for a place of the worker's queue pairs, which no queue pair there has had for long.
func (w *worker) nextHandle(index uint32) uint32 {
	w.used[index]++
	return uint32(w.id)<<26 | uint32(w.used[index])<<C.HANDLE_INDEX_BITS | index
}

// hardware makes and ends queue pairs at the device.
type hardware struct{ cfg *Config }

func (h hardware) make(q *queuePair) error {
	err := errno(C.verbs_qp_new(q.w.c, C.uint32_t(q.handle), C.uint32_t(q.kind.qkey), C.uint16_t(q.place), C.uint(h.cfg.SendDepth), &q.c))
	if err == nil {
		q.qpn = ib.QPN(q.c.qp.qp_num)
	}
	return err
}

func (hardware) destroy(q *queuePair) error { return errno(C.verbs_qp_destroy(q.w.c, q.c)) }
func (hardware) rest(q *queuePair) error    { return errno(C.verbs_qp_rest(q.w.c, q.c)) }
func (hardware) free(q *queuePair) error    { return errno(C.verbs_qp_free(q.c)) }

func (q *queuePair) takeError() bool { return bool(C.verbs_qp_take_error(q.c)) }
func (q *queuePair) markError()      { C.verbs_mark_error(q.w.c, q.c) }
func (q *queuePair) drain()          { C.verbs_qp_drain(q.w.c, q.c) }
func (q *queuePair) drained() bool   { return bool(C.verbs_qp_drained(q.w.c, q.c)) }

// pends reports whether messages of the worker wait for their address handles.
func (w *worker) pends() bool { return bool(C.verbs_pends(w.c)) }

// sends reports whether sends have not ended, and until which number they are to.
func (q *queuePair) sends() (until uint32, under bool) {
	under = bool(C.verbs_qp_sends(q.c, (*C.uint32_t)(&until)))
	return until, under
}

func (q *queuePair) endedUntil(n uint32) bool {
	return bool(C.verbs_qp_ended_until(q.c, C.uint32_t(n)))
}

// cycle brings the queue pair up with its P_Key at a place in the port's table.
func (q *queuePair) cycle(place uint16) error {
	q.place = place
	return errno(C.verbs_qp_cycle(q.w.c, q.c, C.uint16_t(place)))
}

// setPKeyLost says whether the queue pair is down because its P_Key is not in the port's table.
func (q *queuePair) setPKeyLost(lost bool) { C.verbs_qp_set_pkey_lost(q.c, C.bool(lost)) }

// dropNames are the drops' names and sentences, in the order of their enums.
var sendDropNames, recvDropNames = dropNames()

func dropNames() (send, recv []string) {
	for i := range C.SEND_DROPS {
		send = append(send, C.GoString(C.verbs_send_drop_name(C.uint(i))))
	}
	for i := range C.RECV_DROPS {
		recv = append(recv, C.GoString(C.verbs_recv_drop_name(C.uint(i))))
	}
	return send, recv
}

// counters adds the worker's to sum.
func (w *worker) counters(sum *counters) {
	if w.c == nil {
		return
	}
	var c C.struct_verbs_counters
	C.verbs_counters_read(w.c, &c)
	sum.Posted += uint64(c.posted)
	sum.Sent += uint64(c.sent)
	sum.Received += uint64(c.received)
	sum.Delivered += uint64(c.delivered)
	for i, name := range sendDropNames {
		sum.SendDrops.add(name, uint64(c.send_drops[i]))
	}
	for i, name := range recvDropNames {
		sum.Drops.add(name, uint64(c.recv_drops[i]))
	}
	sum.Lists += uint64(c.lists)
	sum.Inlined += uint64(c.inlined)
	sum.AHsAsked += uint64(c.asked)
	sum.AHsEvicted += uint64(c.evicted)
	sum.NoBuffers += uint64(c.no_buffers)
}
