// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// cables makes pairs of interfaces, of the bond's ends ours0, ours1 and the other ends theirs0, theirs1.
func cables(t *testing.T, mtu string) {
	t.Helper()
	for i := range 2 {
		veth(t, fmt.Sprintf("ours%d", i), fmt.Sprintf("theirs%d", i), mtu)
	}
}

// setMembers says which members carry frames, as soon as net_bonding takes it.
func setMembers(t *testing.T, b *Bond, carry ...bool) {
	t.Helper()
	for i, c := range carry {
		err := b.Set(i, c, c)
		for n := 0; errors.Is(err, ErrNoLinkYet) && n < 3000; n++ {
			time.Sleep(time.Millisecond)
			err = b.Set(i, c, c)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

const bondOfVeths = "bond:active-backup,af_packet:ours0,af_packet:ours1"

// TestBondCarries checks that frames of all lengths pass the member that is to carry them, either of them, and no other;
// that members have one address while they are a bond; and that their MTU stays.
func TestBondCarries(t *testing.T) {
	ownNetwork(t)
	cables(t, "4200")
	ip(t, "link set ours1 down") // a bond sets its members up
	before := addressOf(t, "ours1")
	for _, queues := range []int{1, 2} {
		p, err := OpenPort(bondOfVeths, PortConfig{Pool: newPool(t), RxQueues: queues, TxQueues: queues, RxDescs: 64, TxDescs: 64, MTU: 4200})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		b := p.Bond()
		if p.MTU() != 4200 || p.MAC() != addressOf(t, "ours0") || p.MAC() != addressOf(t, "ours1") || !flagged(t, "ours1", "mtu 4200") {
			t.Errorf("MTU %d, MAC %x, of the second member %x", p.MTU(), p.MAC(), addressOf(t, "ours1"))
		}
		if how, err := p.SetMulticast([][6]byte{{0x33, 0x33, 0, 0, 0, 1}}); err != nil || how != MulticastPromiscuous {
			t.Errorf("multicast by %v, %v", how, err)
		}
		wires := []end{kernelEnd(t, "theirs0"), kernelEnd(t, "theirs1")}
		for on := range wires {
			setMembers(t, b, on == 0, on == 1)
			if !flagged(t, fmt.Sprintf("ours%d", on), "PROMISC") {
				t.Errorf("member %d does not receive groups", on)
			}
			crossBothWays(t, portEnd(p), wires[on], 4200)
			was := b.Count(1 - on).Inactive
			if err := wires[1-on].send(testFrame(200, 1)); err != nil {
				t.Fatal(err)
			}
			if frame := receiveOne(p, 50*time.Millisecond); frame != nil {
				t.Errorf("a frame came by member %d, which is to carry none", 1-on)
			}
			if got := b.Count(1 - on).Inactive; got != was+1 {
				t.Errorf("%d frames were dropped at member %d; want 1", got-was, 1-on)
			}
			if frame := wires[1-on].recv(); frame != nil {
				t.Errorf("a frame of %d bytes was sent by member %d, which is to carry none", len(frame), 1-on)
			}
		}
		if s, want := stats(t, p), len(frameLens)*2; s.TxPackets != uint64(want) {
			t.Errorf("%d frames were sent; want %d", s.TxPackets, want)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if addressOf(t, "ours1") != before || flagged(t, "ours1", "PROMISC") || !flagged(t, "ours1", "mtu 4200") {
			t.Errorf("after Close, the second member has the address %x; before it had %x", addressOf(t, "ours1"), before)
		}
	}
}

func addressOf(t *testing.T, name string) [6]byte {
	t.Helper()
	netdev, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return [6]byte(netdev.HardwareAddr)
}

// receiveOne polls for a test frame for some time.
func receiveOne(p *Port, most time.Duration) []byte {
	e := portEnd(p)
	for end := time.Now().Add(most); time.Now().Before(end); {
		if frame := e.recv(); frame != nil {
			return frame
		}
	}
	return nil
}

// TestBondSpreads checks that with two members every flow has one of them, and that both have some.
func TestBondSpreads(t *testing.T) {
	ownNetwork(t)
	cables(t, "1500")
	p := open(t, strings.Replace(bondOfVeths, "active-backup", "lacp", 1), PortConfig{Pool: newPool(t), RxDescs: 64, TxDescs: 64})
	setMembers(t, p.Bond(), true, true)
	all := []end{rawEnd(t, "theirs0"), rawEnd(t, "theirs1")}
	used := map[int]bool{}
	for flow := range byte(32) {
		on := -1
		for range 3 {
			frame := ipv4Fragment(0, false, flow)
			frame[29], frame[35] = flow, flow // its source address and port
			if err := portEnd(p).send(frame); err != nil {
				t.Fatal(err)
			}
			at := -1
			for n := 0; at < 0 && n < 4000; n++ {
				if got := all[n%2].recv(); bytes.Equal(got, frame) {
					at = n % 2
				} else if n%2 == 1 {
					time.Sleep(time.Millisecond)
				}
			}
			if at < 0 || on >= 0 && at != on {
				t.Fatalf("flow %d: a frame left by member %d, one before by %d", flow, at, on)
			}
			on = at
		}
		used[on] = true
	}
	if len(used) != 2 {
		t.Error("all flows left by one member")
	}
}

// TestBondSlow checks that frames of slow protocols come with their member, are told of, and leave by the member that is
// named, whether it carries others or not; and that those that nobody takes are counted.
func TestBondSlow(t *testing.T) {
	ownNetwork(t)
	cables(t, "1500")
	p := open(t, bondOfVeths, PortConfig{Pool: newPool(t), RxDescs: 64, TxDescs: 64})
	b := p.Bond()
	setMembers(t, b, true, false)
	for i := range 2 {
		for len(b.SlowCame()) > 0 { // of those before
			<-b.SlowCame()
		}
		wire := rawEnd(t, fmt.Sprintf("theirs%d", i))
		frame := append([]byte{1, 0x80, 0xc2, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0x09, 1, 1}, make([]byte, 108)...)
		frame[20] = byte(i)
		sent := frame
		if i == 1 { // a priority tag changes nothing
			sent = slices.Insert(slices.Clone(frame), 12, 0x81, 0, 0xa0, 0)
		}
		if err := wire.send(sent); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(3 * time.Second); len(b.SlowCame()) == 0 && time.Now().Before(end); {
			receiveOne(p, time.Millisecond)
		}
		<-b.SlowCame()
		from, got := b.TakeSlow()
		if from != i || !bytes.Equal(got, frame) {
			t.Errorf("member %d: %x, want %x of member %d", from, got, frame, i)
		}
		if _, got := b.TakeSlow(); got != nil {
			t.Errorf("%x besides", got)
		}
		frame[21] = 7
		if err := b.SendSlow(i, frame); err != nil {
			t.Fatal(err)
		}
		receiveOne(p, time.Millisecond)
		if got := await(wire); !bytes.Equal(got, frame) {
			t.Errorf("sent by member %d: %x, want %x", i, got, frame)
		}
		for range 100 {
			if err := wire.send(frame); err != nil {
				t.Fatal(err)
			}
			receiveOne(p, 100*time.Microsecond)
		}
		receiveOne(p, 20*time.Millisecond)
		n := 0
		for _, got := b.TakeSlow(); got != nil; _, got = b.TakeSlow() {
			n++
		}
		if lost := int(b.Count(i).SlowLost); n == 0 || n+lost != 100 {
			t.Errorf("of 100 frames %d came and %d are lost", n, lost)
		}
	}
}

// rawEnd is an end that receives all frames of its interface.
func rawEnd(t *testing.T, name string) end {
	t.Helper()
	e := kernelEnd(t, name)
	return end{send: e.send, recv: e.any}
}

// TestBondOfTaps checks that taps are a bond, too, also when their kernel's ends are set down and up.
func TestBondOfTaps(t *testing.T) {
	ownNetwork(t)
	p := open(t, "bond:lacp,tap:btap0,tap:btap1", PortConfig{Pool: newPool(t), RxQueues: 2, TxQueues: 2, RxDescs: 64, TxDescs: 64, RxInterrupts: true})
	for i, name := range []string{"btap0", "btap1"} {
		ip(t, "link set "+name+" up")
		if addressOf(t, name) == p.MAC() || addressOf(t, name) != addressOf(t, "btap0") {
			t.Errorf("%s has the address %x, the bridge %x", name, addressOf(t, name), p.MAC())
		}
		if r, err := p.RxWake(i); err != nil || len(r.FDs) != 2 {
			t.Errorf("woken by %v, %v", r, err)
		}
	}
	for range 3 {
		for on, name := range []string{"btap0", "btap1"} {
			setMembers(t, p.Bond(), on == 0, on == 1)
			crossBothWays(t, portEnd(p), kernelEnd(t, name), 1500)
			ip(t, "link set "+name+" down")
			time.Sleep(50 * time.Millisecond)
			ip(t, "link set "+name+" up")
		}
	}
}

// TestBondWakes checks that a frame at any member wakes who sleeps.
func TestBondWakes(t *testing.T) {
	ownNetwork(t)
	cables(t, "1500")
	p := open(t, bondOfVeths, PortConfig{Pool: newPool(t), RxDescs: 64, TxDescs: 64, RxInterrupts: true})
	setMembers(t, p.Bond(), true, true)
	wakes(t, p, kernelEnd(t, "theirs0"))
	wakes(t, p, kernelEnd(t, "theirs1"))
}

// TestBondMissing checks that a bond goes on without a member whose interface is not there.
func TestBondMissing(t *testing.T) {
	ownNetwork(t)
	cables(t, "1500")
	p := open(t, "bond:lacp,af_packet:none,af_packet:ours1", PortConfig{Pool: newPool(t), RxDescs: 64, TxDescs: 64})
	if missing := p.Bond().Missing(); len(missing) != 1 || missing[0] != "af_packet:none" || p.MAC() != addressOf(t, "ours1") {
		t.Errorf("missing are %v", missing)
	}
	setMembers(t, p.Bond(), true)
	crossBothWays(t, portEnd(p), kernelEnd(t, "theirs1"), 1500)
}

// dropsInactive checks that a frame is dropped, and counted, that comes to a member which carries none.
func dropsInactive(t *testing.T, p *Port, member int, theirs string) {
	t.Helper()
	was := p.Bond().Count(member).Inactive
	if err := kernelEnd(t, theirs).send(testFrame(200, 1)); err != nil {
		t.Fatal(err)
	}
	receiveOne(p, 50*time.Millisecond)
	if got := p.Bond().Count(member).Inactive; got != was+1 {
		t.Errorf("%d frames were dropped at a member that carries none; want 1", got-was)
	}
}

// TestBondReopens checks that a bond takes an interface in place of a member's that was deleted, either of them, and keeps its
// address and counters; that others carry frames before and after; that the interface gets back what it had; and that one
// that cannot be taken is not tried.
func TestBondReopens(t *testing.T) {
	ownNetwork(t)
	for _, queues := range []int{1, 2} {
		for i := range 2 {
			cables(t, "4200")
			p := open(t, bondOfVeths, PortConfig{Pool: newPool(t), RxQueues: queues, TxQueues: queues, RxDescs: 64, TxDescs: 64, MTU: 4200})
			b, mac, ours, theirs := p.Bond(), p.MAC(), fmt.Sprintf("ours%d", i), fmt.Sprintf("theirs%d", i)
			if _, err := p.SetMulticast([][6]byte{{0x33, 0x33, 0, 0, 0, 1}}); err != nil {
				t.Fatal(err)
			}
			setMembers(t, b, i == 0, i == 1)
			crossBothWays(t, portEnd(p), kernelEnd(t, theirs), 4200)
			before := stats(t, p)
			ip(t, "link del "+ours)
			if err := b.Reopen(i, atOnce); !errors.Is(err, ErrNotReopened) {
				t.Errorf("without the interface: %v", err)
			}
			setMembers(t, b, i == 1, i == 0)
			crossBothWays(t, portEnd(p), kernelEnd(t, fmt.Sprintf("theirs%d", 1-i)), 4200)
			ip(t, fmt.Sprintf("link add %s mtu 1500 type veth peer name %s mtu 4200", ours, theirs))
			ip(t, "link set "+theirs+" up")
			own := addressOf(t, ours)
			if err := b.Reopen(i, atOnce); !errors.Is(err, ErrNotReopened) {
				t.Errorf("with an MTU that is too small: %v", err)
			}
			ip(t, "link set "+ours+" mtu 4200")
			if err := b.Reopen(i, atOnce); err != nil { // and sets it up
				t.Fatal(err)
			}
			if p.MAC() != mac || addressOf(t, ours) != mac || !flagged(t, ours, "PROMISC") || !flagged(t, ours, "mtu 4200") {
				t.Errorf("%s has the address %x, the port %x; it was %x", ours, addressOf(t, ours), p.MAC(), mac)
			}
			crossBothWays(t, portEnd(p), kernelEnd(t, fmt.Sprintf("theirs%d", 1-i)), 4200)
			setMembers(t, b, i == 0, i == 1)
			crossBothWays(t, portEnd(p), kernelEnd(t, theirs), 4200)
			if after := stats(t, p); after.RxPackets != 4*before.RxPackets || after.TxPackets != 4*before.TxPackets {
				t.Errorf("%+v; after as many frames as came before this three times more %+v", before, after)
			}
			setMembers(t, b, i == 1, i == 0)
			dropsInactive(t, p, i, theirs)
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			if addressOf(t, ours) != own {
				t.Errorf("after Close, %s has the address %x; before it had %x", ours, addressOf(t, ours), own)
			}
			for j := range 2 {
				ip(t, fmt.Sprintf("link del ours%d", j))
			}
		}
	}
}

func atOnce(swap func() error) error { return swap() }

func TestBondErrors(t *testing.T) {
	ownNetwork(t)
	cables(t, "1500")
	for _, c := range []struct{ name, want string }{
		{"bond:", "is no bond"},
		{"bond:lacp,af_packet:ours0", "is no bond"},
		{"bond:roundrobin,af_packet:ours0,af_packet:ours1", "is no bond"},
		{"bond:lacp,af_packet:ours0,memif:/run/m.sock", "a port of memif cannot be in a bond"},
		{"bond:lacp,af_packet:ours0,ours1", `"ours1" is no kind of port`},
		{"bond:lacp,af_packet:no1,af_packet:none", "member af_packet:none: there is no interface none"},
		{"bond:lacp,tap:btap2,tap:btap2", "there is an interface btap2 already"},
	} {
		p, err := OpenPort(c.name, PortConfig{Pool: newPool(t), RxDescs: 64, TxDescs: 64})
		if err == nil {
			p.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
	}
}

// TestKernelBond checks that a card's port tells of the kernel's bond that the card has taken over.
func TestKernelBond(t *testing.T) {
	real := sysRoot
	t.Cleanup(func() { sysRoot = real })
	sysRoot = t.TempDir()
	at := filepath.Join(sysRoot, "sys/class/net/bond0/bonding")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(at, "mode"), []byte("802.3ad 4\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ bus, netdev, want string }{{"pci", "bond0", "bond0 (802.3ad 4)"}, {"pci", "eth1", ""}, {"vdev", "bond0", ""}} {
		p := &Port{bus: c.bus, plan: portPlan{carriers: []string{c.netdev}}}
		if got := p.KernelBond(); got != c.want {
			t.Errorf("%s on %s: %q; want %q", c.bus, c.netdev, got, c.want)
		}
	}
}
