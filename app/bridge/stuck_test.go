// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"causeway/lcore"
)

func init() { tasks["stuck"], tasks["device-lost"] = taskStuck, taskDeviceLost }

// awaitCounted waits until so many messages have gone to the node, and all its answers are sent or dropped. Nobody
// takes these.
func (b *Bridge) awaitCounted(sent int) error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		c := b.Counters()
		in, out := &c.Direction[lcore.RoCEToIB], &c.Direction[lcore.IBToRoCE]
		if in.Sent == uint64(sent) && out.Received == uint64(sent) && out.Conserved() {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d were sent to the node; counted %+v", sent, c.Direction)
		}
	}
}

// taskStuck has nobody take what the Ethernet port sends, under messages to an echo: answers beyond what the port holds
// are dropped as eth_full and nothing else, those that it holds arrive, in order, as soon as somebody takes them, and
// messages cross as before.
func taskStuck() (string, error) {
	h, err := built()
	if err != nil {
		return "", err
	}
	const first, beyond, after = 5, 1500, 64
	full, _ := lcore.DropNamed("eth_full")
	var dropped, held uint64
	err = running(h, func() error {
		if err := h.good(1, first); err != nil { // there is a proxy QP
			return err
		}
		for i := range beyond {
			p := message(h, nodeIP, 0x77, 1+first+i)
			if err := h.enter(p.AppendTo(nil)); err != nil {
				return err
			}
		}
		if err := h.awaitCounted(first + beyond); err != nil {
			return err
		}
		c := h.Counters()
		out := &c.Direction[lcore.IBToRoCE]
		dropped, held = out.Drops[full], out.Sent-first
		if dropped == 0 || held == 0 || dropped+held != beyond {
			return fmt.Errorf("of %d answers %d are sent and %d dropped as eth_full; drops %v", beyond, held, dropped, out.Drops)
		}
		answers, err := h.leave(int(held))
		if err != nil {
			return err
		}
		for i, last := 0, uint32(0); i < len(answers); i++ {
			if answers[i].PSN <= last && i > 0 {
				return fmt.Errorf("answer %d has PSN %d, the one before %d", i, answers[i].PSN, last)
			}
			last = answers[i].PSN
		}
		return h.good(1+first+beyond, after)
	})
	c := h.Counters()
	if out := &c.Direction[lcore.IBToRoCE]; out.Drops[full] != dropped || out.Sent != first+held+after {
		err = errors.Join(err, fmt.Errorf("afterwards counted %+v", c.Direction))
	}
	return fmt.Sprintf("nobody took %d answers: %d held, %d dropped as eth_full", beyond, held, dropped), err
}

// taskDeviceLost has the IB port report, under messages that are under way, that a completion queue of its is lost: Run
// ends with the error that makes the program end with code 75, and every message is counted.
func taskDeviceLost() (string, error) {
	h, err := built()
	if err != nil {
		return "", err
	}
	const before = 300
	left := uint64(0) // in the port's queue, when the workers have ended
	h.teardown.add(func() error {
		left = uint64(h.ethernet[0].port.RingPort().ToPort(0).Len())
		return nil
	})
	err = running(h, func() error {
		if err := h.good(1, 5); err != nil {
			return err
		}
		for i := range before {
			p := message(h, nodeIP, 0x77, 6+i)
			if err := h.enter(p.AppendTo(nil)); err != nil {
				return err
			}
		}
		h.fail(fmt.Errorf("verbs: cq_error: %w", ErrDeviceGone)) // what the verbs port's OnLoss is
		return nil
	})
	if !errors.Is(err, ErrDeviceGone) || strings.Contains(err.Error(), "\n") {
		return "", fmt.Errorf("want only that the device is gone: %w", err)
	}
	c := h.Counters()
	if got := c.Direction[lcore.RoCEToIB].Received; got+left != before+5 {
		return "", fmt.Errorf("of %d messages %d were received, %d were not yet: %+v", before+5, got, left, c.Direction)
	}
	return fmt.Sprintf("%+v", c.Direction[lcore.IBToRoCE].Sent), nil
}

func TestEthernetStuck(t *testing.T) {
	logTask(t, "stuck")
}

func TestDeviceLostUnderTraffic(t *testing.T) {
	logTask(t, "device-lost")
}
