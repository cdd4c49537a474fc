// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"causeway/config"
	"causeway/dpdk"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/frame/roce"
)

const (
	bridgeFile = `[bridge]
name = "bridge"
[roce]
port = "ring"
addresses = ["10.9.0.254/24"]
mtu = 4200
[ib]
port = "fabric:"
pkey = 0xffff
[workers]
lcores = [0]
idle = "sleep"
memory_mib = 64
mbufs = 2048
rx_descs = 256
tx_descs = 512
[policy]
allow = ["10.9.0.0/24"]
[[host]]
ip = "10.9.0.7"
side = "ib"
gid = "fe80::7"
[[group]]
ip = "239.1.2.3"
mgid = "rdmacm"
direction = "both"
`
	topologyFile = `[[node]]
name = "echo"
guid = 7
qpn = 0x77
role = "echo"
`
)

// bridgeGUIDText is the port GUID of a bridge of this name (ibside/fabricport).
const bridgeGUIDText = "0x9edc3637e7ce0390"

var (
	hostMAC = frame.MAC{2, 0, 0, 0, 0, 1}
	hostIP  = netip.MustParseAddr("10.9.0.1")
	nodeIP  = netip.MustParseAddr("10.9.0.7")
)

// built builds a bridge with the given configuration, unchanged, and an echo on its subnet.
func built() (*Bridge, error) { return builtAfter(bridgeFile) }

func builtAfter(text string) (*Bridge, error) {
	dir, err := os.MkdirTemp("", "bridge")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	topology := filepath.Join(dir, "fabric.toml")
	if err := os.WriteFile(topology, []byte(topologyFile), 0o600); err != nil {
		return nil, err
	}
	return build(strings.Replace(text, `"fabric:"`, `"fabric:`+topology+`"`, 1))
}

func build(text string) (*Bridge, error) {
	cfg, err := config.Parse("bridge", []byte(text))
	if err != nil {
		return nil, fmt.Errorf("the test's own configuration: %w", err)
	}
	return Build(cfg, Options{Log: slog.New(slog.DiscardHandler), NoHuge: true})
}

// running runs a bridge while f does something, and takes it down.
func running(h *Bridge, f func() error) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- h.Run(ctx, func() { close(ready) }) }()
	var err error
	select {
	case <-ready:
		err = f()
	case err = <-ended:
		return errors.Join(errors.New("it ended early"), err, h.Close())
	case <-time.After(time.Minute):
		err = errors.New("it did not become ready")
	}
	stop()
	err = errors.Join(err, <-ended, h.Close(), conserved(h.Counters()))
	if h.Workers() != nil || h.Close() != nil {
		err = errors.Join(err, errors.New("closed, and still there"))
	}
	return err
}

func conserved(c lcore.Counters) error {
	for d := range c.Direction {
		if x := &c.Direction[d]; !x.Conserved() {
			return fmt.Errorf("%v: %d received, %d sent, dropped %v", lcore.Direction(d), x.Received, x.Sent, x.Drops)
		}
	}
	return nil
}

// message is a message of the host.
func message(h *Bridge, dst netip.Addr, qpn ib.QPN, number int) roce.Packet {
	to := h.ethernet[0].mac()
	if dst.IsMulticast() {
		to = frame.GroupMAC(dst)
	}
	return roce.Packet{
		Version: 2, Src: hostMAC, Dst: to, SrcIP: hostIP, DstIP: dst, HopLimit: 64, SrcPort: 0xc123, PKey: ib.PKeyDefault,
		DestQP: qpn, PSN: uint32(number), QKey: ib.QKeyRDMAUDP, SrcQP: 0x55, Payload: stamp.Message(uint64(number), 200),
	}
}

// enter delivers frames from the host to the bridge.
func (b *Bridge) enter(frames ...[]byte) error { return b.enterBy(0, frames...) }

// enterBy delivers them by a port.
func (b *Bridge) enterBy(port int, frames ...[]byte) error {
	for _, x := range frames {
		m, err := b.pool.Alloc(x)
		if err != nil {
			return err
		}
		for deadline := time.Now().Add(time.Minute); b.ethernet[port].port.RingPort().ToPort(0).Enqueue([]dpdk.Mbuf{m}) != 1; {
			if time.Now().After(deadline) {
				m.Free()
				return errors.New("the worker takes nothing")
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// leave waits for n RoCE frames towards the host; reports and ARP are ignored.
func (b *Bridge) leave(n int) ([]roce.Packet, error) { return b.leaveBy(0, n) }

// leaveBy waits for those that leave by a port.
func (b *Bridge) leaveBy(port, n int) ([]roce.Packet, error) {
	var out []roce.Packet
	var m [1]dpdk.Mbuf
	for deadline := time.Now().Add(time.Minute); len(out) < n; {
		if b.ethernet[port].port.RingPort().FromPort(0).Dequeue(m[:]) == 0 {
			if time.Now().After(deadline) {
				return out, fmt.Errorf("%d of %d frames came; counters %+v", len(out), n, b.Counters().Direction)
			}
			time.Sleep(time.Millisecond)
			continue
		}
		x := m[0].Bytes()
		m[0].Free()
		if f, fault := frame.Open(x); fault != "" || f.IPv4 == nil || f.Protocol() != frame.ProtoUDP {
			continue
		}
		p, err := roce.Parse(x)
		if err != nil {
			return out, err
		}
		out = append(out, p)
	}
	return out, nil
}

// taskCarry checks that each of many messages to an echo comes back once and unchanged; and that messages that are not
// allowed to cross are dropped by name.
func taskCarry() (string, error) {
	h, err := built()
	if err != nil {
		return "", err
	}
	const n, window = 2000, 50
	err = running(h, func() error {
		stranger := message(h, nodeIP, 0x77, 1)
		stranger.SrcIP = netip.MustParseAddr("10.10.0.1")
		if err := h.enter(stranger.AppendTo(nil)); err != nil {
			return err
		}
		for first := 1; first <= n; first += window {
			for i := range window {
				p := message(h, nodeIP, 0x77, first+i)
				if err := h.enter(p.AppendTo(nil)); err != nil {
					return err
				}
			}
			answers, err := h.leave(window)
			if err != nil {
				return err
			}
			if err := answersTo(first, answers); err != nil {
				return err
			}
		}
		return nil
	})
	c := h.Counters()
	in, out := &c.Direction[lcore.RoCEToIB], &c.Direction[lcore.IBToRoCE]
	acl, _ := lcore.DropNamed("acl")
	if in.Received != n+1 || in.Sent != n || in.Drops[acl] != 1 || out.Received != n || out.Sent != n {
		err = errors.Join(err, fmt.Errorf("counted %+v", c.Direction))
	}
	return fmt.Sprintf("%d there and back", n), err
}

// answersTo checks that there is one answer to each message from first on, in any order: those that wait for the proxy
// QP may be overtaken by those that come when it exists.
func answersTo(first int, answers []roce.Packet) error {
	seen := map[uint64]bool{}
	for _, a := range answers {
		s, verdict := stamp.Read(a.Payload)
		number := s.Number
		if number < uint64(first) || number >= uint64(first+len(answers)) || seen[number] || verdict != stamp.Whole || len(a.Payload) != 200 ||
			a.SrcIP != nodeIP || a.SrcQP != 0x77 || a.DestQP != 0x55 || a.Dst != hostMAC {
			return fmt.Errorf("after %d, an answer is %+v", first, a)
		}
		seen[number] = true
	}
	return nil
}

// taskPending stops the bridge while frames come in: each is sent, or dropped by name, and no mbuf is left.
func taskPending() (string, error) {
	h, err := built()
	if err != nil {
		return "", err
	}
	err = running(h, func() error {
		for i := range 300 {
			p := message(h, nodeIP, 0x77, i+1)
			p.SrcQP = ib.QPN(0x100 + i) // a new proxy QP each, until the limit
			if err := h.enter(p.AppendTo(nil)); err != nil {
				return err
			}
		}
		return nil
	})
	c := h.Counters()
	return fmt.Sprintf("%+v", c.Direction[lcore.RoCEToIB]), err
}

// taskIdle checks that a bridge without traffic joins and leaves its group, and does nothing else.
func taskIdle() (string, error) {
	h, err := built()
	if err != nil {
		return "", err
	}
	err = running(h, func() error {
		if s := h.Status(); !s.Ready || s.Groups != 1 || s.Nodes != 1 || len(h.Workers()) != 1 {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
	if s := h.Status(); s.Counters.GroupReports < 2 {
		err = errors.Join(err, fmt.Errorf("a join and a leave are %d reports", s.Counters.GroupReports))
	}
	return "joined and left", err
}

func taskNeverRun() (string, error) {
	h, err := built()
	if err != nil {
		return "", err
	}
	return "built and taken down", h.Close()
}

// taskLeak takes three mbufs and does not free them.
func taskLeak() (string, error) {
	h, err := built()
	if err != nil {
		return "", err
	}
	for range 3 {
		if _, err := h.pool.Alloc([]byte("lost")); err != nil {
			return "", err
		}
	}
	return "nobody noticed", h.Close()
}

// taskAgain checks that a second bridge in the process is rejected, and that this does not disturb the first.
func taskAgain() (string, error) {
	h, err := built()
	if err != nil {
		return "", err
	}
	_, second := built()
	if second == nil || strings.Contains(second.Error(), "\n") {
		return "", fmt.Errorf("a second bridge: %w", second)
	}
	return second.Error(), running(h, func() error { return nil })
}

// taskFail builds with a wrong configuration and checks that the failure leaves nothing running or open.
func taskFail() (string, error) {
	before, sockets := runtime.NumGoroutine(), openSockets()
	from, to := os.Getenv("FROM"), os.Getenv("TO")
	if !strings.Contains(bridgeFile, from) {
		return "", fmt.Errorf("the configuration does not contain %q", from)
	}
	h, err := build(strings.Replace(bridgeFile, from, to, 1))
	if err == nil {
		return "", errors.Join(errors.New("it was built"), h.Close())
	}
	for deadline := time.Now().Add(2 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return "", fmt.Errorf("%w\n%d goroutines, %d before", err, runtime.NumGoroutine(), before)
		}
	}
	if n := openSockets(); n > sockets {
		return "", fmt.Errorf("%w\n%d sockets are open, %d before", err, n, sockets)
	}
	return "", err
}

// openSockets counts what a port or a subnet holds open. DPDK keeps files of other kinds for the rest of the process.
func openSockets() int {
	n := 0
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}
