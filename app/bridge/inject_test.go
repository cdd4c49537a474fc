// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"causeway/lcore"
)

func TestInjectAndLatency(t *testing.T) {
	out, err := task(t, "inject")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(out)
}

// taskInject injects faults into messages to an echo and back, and checks that every message is accounted for, while
// other goroutines ask for latencies; and that both are rejected after the end.
func taskInject() (string, error) {
	h, err := built()
	if err != nil {
		return "", err
	}
	const n = 1000
	var asking sync.WaitGroup
	stop := make(chan struct{})
	asking.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				h.Latency()
			}
		}
	})
	err = running(h, func() error { return errors.Join(rejectedFaults(h), faultsBothWays(h, n), clearedLatency(h)) })
	close(stop)
	asking.Wait()
	h.ClearLatency()
	if h.Latency() != nil || h.Injections() != [2]lcore.Injection{} || h.Inject(lcore.RoCEToIB, lcore.Injection{}, 0) == nil {
		err = errors.Join(err, errors.New("closed, and it still measures and injects"))
	}
	injected, _ := lcore.DropNamed("injected")
	c := h.Counters()
	in, out := &c.Direction[lcore.RoCEToIB], &c.Direction[lcore.IBToRoCE]
	if in.Drops[injected] < n/4 || in.Drops[injected] > n*3/4 || out.Drops[injected] != 0 || out.Received < out.Sent || in.Received != n+1 {
		err = errors.Join(err, fmt.Errorf("counted %+v", c.Direction))
	}
	return fmt.Sprintf("%+v", c.Direction), err
}

func rejectedFaults(h *Bridge) error {
	if err := h.Inject(lcore.RoCEToIB, lcore.Injection{Drop: 2}, 0); err == nil {
		return errors.New("twice as many as come are dropped")
	}
	if h.Injections() != [2]lcore.Injection{} {
		return fmt.Errorf("injected: %+v", h.Injections())
	}
	return nil
}

// faultsBothWays drops half of the messages on their way in, and doubles and delays what comes back.
func faultsBothWays(h *Bridge, n int) error {
	first := message(h, nodeIP, 0x77, 1) // makes the proxy QP
	if err := h.enter(first.AppendTo(nil)); err != nil {
		return err
	}
	if _, err := h.leave(1); err != nil {
		return err
	}
	want := [2]lcore.Injection{{Drop: 0.5, Seed: 1}, {Duplicate: 1, DelayShare: 0.5, Delay: 2 * time.Millisecond}}
	for d, i := range want {
		if err := h.Inject(lcore.Direction(d), i, 0); err != nil {
			return err
		}
	}
	if h.Injections() != want {
		return fmt.Errorf("injected: %+v", h.Injections())
	}
	for from := h.Workers()[0].Loops; h.Workers()[0].Loops < from+3; { // then the worker has the new faults
		time.Sleep(time.Millisecond)
	}
	answered := 0
	for i := range n {
		p := message(h, nodeIP, 0x77, i+2)
		if err := h.enter(p.AppendTo(nil)); err != nil {
			return err
		}
		if i%20 != 19 {
			continue
		}
		lived, err := h.lived(i + 2)
		if err != nil {
			return err
		}
		if _, err := h.leave(2 * (lived - 1 - answered)); err != nil {
			return err
		}
		answered = lived - 1
	}
	for d, i := range want {
		if err := h.Inject(lcore.Direction(d), i, 10*time.Millisecond); err != nil {
			return err
		}
	}
	for end := time.Now().Add(10 * time.Second); h.Injections() != [2]lcore.Injection{} || h.InjectionsEnd() != [2]time.Time{}; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("still injected: %+v until %v", h.Injections(), h.InjectionsEnd())
		}
	}
	return nil
}

// lived waits until all n messages that came in were sent or dropped on purpose, and returns how many were sent.
func (b *Bridge) lived(in int) (int, error) {
	injected, _ := lcore.DropNamed("injected")
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Microsecond) {
		c := b.Counters().Direction[lcore.RoCEToIB]
		if c.Sent+c.Drops[injected] == uint64(in) {
			return int(c.Sent), nil
		}
		if time.Now().After(end) {
			return 0, fmt.Errorf("after %d messages, counted %+v", in, c)
		}
	}
}

// clearedLatency checks that both ways have been timed, and that clearing removes the times.
func clearedLatency(h *Bridge) error {
	for d := range 2 {
		if l := h.Latency()[0][d]; l.Count() == 0 || l.Quantile(0.5) <= 0 || l.Max() > time.Minute {
			return fmt.Errorf("%v: %d timed, %v in the middle, %v at most", lcore.Direction(d), l.Count(), l.Quantile(0.5), l.Max())
		}
	}
	h.ClearLatency()
	if l := h.Latency()[0][lcore.IBToRoCE]; l.Count() != 0 {
		return fmt.Errorf("cleared, and %d are left", l.Count())
	}
	return nil
}
