// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"causeway/app/slowtest"
	"causeway/lcore"
	"causeway/lcore/frame"
)

func init() { tasks["moves"] = taskMoves }

// sendFrom sends a message of the host's queue pair from a MAC address until n have crossed in all.
func (b *Bridge) sendFrom(mac frame.MAC, n uint64) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		b.discard()
		c := b.Counters().Direction[lcore.RoCEToIB]
		if c.Sent >= n {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("from %v: %+v", mac, c)
		}
		p := message(b, nodeIP, 0x78, int(c.Received)+1) // a QP that nobody has, so that no echo comes back
		p.Src = mac
		if err := b.enter(p.AppendTo(nil)); err != nil {
			return err
		}
	}
}

// taskMoves has a second station send with a host's address and QPN. While the bridge asks the host, nothing of it
// crosses. The host does not answer: it has moved, the station's messages cross, and the host's do not any more.
func taskMoves() (string, error) {
	h, err := built()
	if err != nil {
		return "", err
	}
	var took time.Duration
	var rejected uint64
	err = running(h, func() error {
		if err := h.sendFrom(hostMAC, 1); err != nil {
			return err
		}
		crossed := h.Counters().Direction[lcore.RoCEToIB].Sent
		start := time.Now()
		if err := h.sendFrom(frame.MAC{2, 0, 0, 0, 0, 9}, crossed+1); err != nil {
			return err
		}
		took = time.Since(start)
		rejected = h.Counters().Direction[lcore.RoCEToIB].Drops[lcore.DropSourceRefused]
		if s := h.Status().Counters; rejected == 0 || took < 500*time.Millisecond || slowtest.Late(took, 3*time.Second) || s.ProxyQPsMade != 1 {
			return fmt.Errorf("moved after %v, %d rejected, %+v", took, rejected, s)
		}
		return h.rejectsHost()
	})
	return fmt.Sprintf("moved after %v, %d messages rejected", took.Round(time.Millisecond), rejected), err
}

// rejectsHost sends a message from where the host was.
func (b *Bridge) rejectsHost() error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // until all have settled
		if c := b.Counters().Direction[lcore.RoCEToIB]; c.Conserved() {
			break
		}
		if time.Now().After(deadline) {
			return errors.New("messages are under way")
		}
	}
	before := b.Counters().Direction[lcore.RoCEToIB]
	p := message(b, nodeIP, 0x78, 1)
	if err := b.enter(p.AppendTo(nil)); err != nil {
		return err
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		c := b.Counters().Direction[lcore.RoCEToIB]
		if c.Sent == before.Sent && c.Drops[lcore.DropSourceRefused] == before.Drops[lcore.DropSourceRefused]+1 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("before %+v, after %+v", before, c)
		}
	}
}

func TestMoves(t *testing.T) {
	t.Parallel()
	out, err := task(t, "moves")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(out)
}
