// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"causeway/dpdk"
	"causeway/lcore"
	"causeway/lcore/frame"
)

func init() { tasks["empty"] = taskEmpty }

// A thief has taken mbufs out of a bridge's mempool.
type thief struct {
	b     *Bridge
	taken []dpdk.Mbuf
}

// take takes all that there are.
func (t *thief) take() {
	for {
		m, err := t.b.pool.Alloc(nil)
		if err != nil {
			return
		}
		t.taken = append(t.taken, m)
	}
}

func (t *thief) giveBack() {
	for _, m := range t.taken {
		m.Free()
	}
	t.taken = nil
}

// answered takes what has come for the host, and returns how many RoCE frames that were. Their mbufs are not given
// back.
func (t *thief) answered() (n int) {
	var m [1]dpdk.Mbuf
	for t.b.ethernet[0].port.RingPort().FromPort(0).Dequeue(m[:]) == 1 {
		if f, fault := frame.Open(m[0].Bytes()); fault == "" && f.IPv4 != nil && f.Protocol() == frame.ProtoUDP {
			n++
		}
		t.taken = append(t.taken, m[0])
	}
	return n
}

// taskEmpty empties the mempool under messages to an echo: answers for which there is no mbuf are counted as lost by
// the port, all others arrive. When there are mbufs again, messages cross as before.
func taskEmpty() (string, error) {
	h, err := built()
	if err != nil {
		return "", err
	}
	const burst = 64
	t := &thief{b: h}
	sent, answers, gone := 5, 5, 0
	lost := func() int { return int(h.Lost()[lcore.IBToRoCE]["no_mbuf"]) }
	err = running(h, func() error {
		defer t.giveBack()
		if err := h.good(1, sent); err != nil { // there is a proxy QP
			return err
		}
		for end := time.Now().Add(time.Minute); lost() == 0; {
			if time.Now().After(end) {
				return fmt.Errorf("no answer is lost without mbufs; counted %+v", h.Counters().Direction)
			}
			t.giveBack()
			var frames []dpdk.Mbuf
			for range burst {
				sent++
				p := message(h, nodeIP, 0x77, sent)
				m, err := h.pool.Alloc(p.AppendTo(nil))
				if err != nil {
					return err
				}
				frames = append(frames, m)
			}
			t.take()
			if n := h.ethernet[0].port.RingPort().ToPort(0).Enqueue(frames); n != burst {
				return fmt.Errorf("the ring took %d of %d", n, burst)
			}
			for ; answers+lost() < sent && time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
				t.take() // what the worker has freed
				answers += t.answered()
			}
		}
		t.giveBack()
		gone = lost()
		return h.good(sent+1, burst)
	})
	c := h.Counters()
	in, out, back := &c.Direction[lcore.RoCEToIB], &c.Direction[lcore.IBToRoCE], sent-gone+burst
	if answers+gone != sent || in.Sent != uint64(sent+burst) || out.Sent != uint64(back) {
		err = errors.Join(err, fmt.Errorf("%d sent, %d answered, %d lost; counted %+v", sent, answers, gone, c.Direction))
	}
	return fmt.Sprintf("%d sent, %d answered, %d lost without mbufs", sent, answers, gone), err
}

func TestMempoolEmpty(t *testing.T) {
	logTask(t, "empty")
}
