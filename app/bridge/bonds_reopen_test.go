// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"causeway/ibside/stamp"
)

// A stream sends numbered messages by a cable to the node of its partition, at a rate, and takes the answers.
type stream struct {
	*Bridge
	wire int
	stop chan struct{}
	over chan struct{}
	ends sync.WaitGroup

	mu      sync.Mutex
	sent    int
	came    int
	longest time.Duration // between two answers
	err     error
}

const streamEvery = time.Millisecond

// stream begins one, of the port at the far end of the interface, until the returned function ends it: none may be lost.
func (b *Bridge) stream(name string, port int) (end func() (longest time.Duration, err error), err error) {
	wire, err := rawSocket(name)
	if err != nil {
		return nil, err
	}
	const room = 8 << 20
	if err := errors.Join(unix.SetsockoptInt(wire, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room),
		unix.SetsockoptTimeval(wire, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50000})); err != nil {
		return nil, errors.Join(err, unix.Close(wire))
	}
	s := &stream{Bridge: b, wire: wire, stop: make(chan struct{}), over: make(chan struct{})}
	s.ends.Go(func() { s.send(port) })
	received := make(chan struct{})
	go func() { defer close(received); s.receive() }()
	return func() (time.Duration, error) {
		time.Sleep(50 * time.Millisecond)
		close(s.stop)
		s.ends.Wait()
		for range 1000 {
			if s.done() {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		close(s.over)
		<-received
		_ = unix.Close(wire)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.came != s.sent {
			s.err = errors.Join(s.err, fmt.Errorf("%s: %d of %d answers came: %+v %+v", name, s.came, s.sent, s.EthernetPorts(), s.Counters()))
		}
		return s.longest, s.err
	}, nil
}

func (s *stream) done() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil || s.came == s.sent
}

func (s *stream) send(port int) {
	runtime.LockOSThread() // never unlocked: the thread is on one CPU, because a veth has a queue for each
	var cpu unix.CPUSet
	cpu.Set(0)
	if err := unix.SchedSetaffinity(0, &cpu); err != nil {
		s.fail(err)
		return
	}
	to, _ := nodesOf(port)
	mac := s.ports.list()[port].mac()
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.stop:
			return
		}
		if s.sent == 1 && !s.first() { // the others would overtake it while its proxy QP is made
			continue
		}
		s.mu.Lock()
		s.sent++
		p := message(s.Bridge, to, 0x77, s.sent)
		s.mu.Unlock()
		p.Dst = mac
		if _, err := unix.Write(s.wire, p.AppendTo(nil)); err != nil {
			s.fail(err)
			return
		}
	}
}

func (s *stream) first() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.came > 0
}

func (s *stream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = errors.Join(s.err, err)
}

func (s *stream) receive() {
	var last time.Time
	for {
		p, _, err := nextRoCE(s.wire)
		select {
		case <-s.over: // what is lacking is counted there
			return
		default:
		}
		if err != nil || p.Src == hostMAC {
			continue
		}
		number, verdict := stamp.Read(p.Payload)
		s.mu.Lock()
		if s.came++; verdict != stamp.Whole || number.Number != uint64(s.came) {
			s.err = errors.Join(s.err, fmt.Errorf("answer %d is message %d", s.came, number.Number))
		}
		now := time.Now()
		if s.came > 2 { // the first has waited for its proxy QP
			s.longest = max(s.longest, now.Sub(last))
		}
		last = now
		s.mu.Unlock()
	}
}

func init() { tasks["bonds-reopen"] = taskBondsReopen }

// taskBondsReopen deletes and makes anew the interface of a member of a bond, and that of a port, while messages cross by
// another port: they do not wait for it.
func taskBondsReopen() (string, error) {
	var said []string
	for _, second := range strings.Fields(os.Getenv("SECOND")) {
		cfg, err := bondsWith(second)
		if err != nil {
			return "", err
		}
		x, err := newSegmentedBy(cfg, Options{Around: func(open func() error) error { return open() }})
		if err != nil {
			return "", err
		}
		err = x.run(func() error {
			for range 5 {
				end, err := x.stream("wire", 0)
				if err != nil {
					return err
				}
				time.Sleep(50 * time.Millisecond)
				err = x.madeAnew("0")
				longest, lost := end()
				if err := errors.Join(err, lost); err != nil {
					return err
				}
				said = append(said, fmt.Sprintf("%s: the longest pause is %v", second, longest))
			}
			return nil
		})
		if err != nil {
			return strings.Join(said, "\n"), err
		}
	}
	return strings.Join(said, "\n"), nil
}

// madeAnew deletes a cable and makes it anew, and returns when the second port is whole again.
func (b *segmented) madeAnew(i string) error {
	for _, x := range []struct {
		script string
		up     bool
	}{{"ip link del oursM", false}, {cableScript, true}} {
		if out, err := exec.Command("sh", "-c", strings.ReplaceAll(x.script, "M", i)).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			_, all := b.Bond()
			if is := b.EthernetPorts()[1]; len(all) > 0 && all[0].Up == x.up || len(all) == 0 && is.Link.Up() == x.up {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("after %q: %+v", x.script, all)
			}
		}
	}
	return nil
}

const cableScript = "ip link add wireM type veth peer name oursM && ip link set wireM up && ip link set oursM up"

// TestBondsReopen needs root.
func TestBondsReopen(t *testing.T) {
	t.Parallel()
	sharedInterface(t)
	for i := range 2 {
		shell(t, strings.ReplaceAll(cableScript, "M", fmt.Sprint(i)))
	}
	for _, second := range []string{"bond:active-backup,af_packet:ours0,af_packet:ours1", "af_packet:ours0"} {
		logTask(t, "bonds-reopen", "SECOND="+second)
	}
}
