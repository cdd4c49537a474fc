// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"causeway/app/slowtest"
	"causeway/dpdk/nettest"
)

// Tests with interfaces of the kernel have a network namespace of their own.
var ownNetwork, ip = nettest.Own, nettest.IP

// watched makes a pair of interfaces and follows one of them; next waits for its next state.
func watched(t *testing.T) (m *Monitor, next func() State) {
	t.Helper()
	ip(t, "link add ours type veth peer name theirs")
	changes := make(chan State, 100)
	m, err := Watch("ours", func(_, is State) { changes <- is })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m, func() State {
		t.Helper()
		select {
		case s := <-changes:
			return s
		case <-time.After(time.Minute):
			t.Fatalf("no change; it is %+v", m.State())
			return State{}
		}
	}
}

// until waits for a state with a reason; what comes before it passes by.
func until(t *testing.T, next func() State, want Reason) State {
	t.Helper()
	for {
		if s := next(); s.Reason == want {
			return s
		}
	}
}

// TestStates follows an interface through all that can happen to it.
func TestStates(t *testing.T) {
	ownNetwork(t)
	m, next := watched(t)
	first := m.State()
	if first.Reason != Admin || first.Index == 0 || first.MTU != 1500 || first.Interface != "ours" {
		t.Errorf("at first %+v", first)
	}
	for _, c := range []struct {
		args string
		want Reason
	}{
		{"link set ours up", Carrier},
		{"link set theirs up", ""},
		{"link set theirs down", Carrier},
		{"link set theirs up", ""},
		{"link set ours down", Admin},
		{"link set ours up", ""},
	} {
		ip(t, c.args)
		if s := until(t, next, c.want); s.Up() != (c.want == "") {
			t.Errorf("%s: %+v", c.args, s)
		}
	}
	ip(t, "link set ours mtu 1400")
	if s := next(); s.MTU != 1400 {
		t.Errorf("after an MTU of 1400 %+v", s)
	}
}

// TestOthers checks that events of other interfaces are not taken for its own, nor those that a bridge sends of its
// port.
func TestOthers(t *testing.T) {
	ownNetwork(t)
	m, next := watched(t)
	ip(t, "link set theirs up")
	ip(t, "link set ours up")
	until(t, next, "")
	ip(t, "link add br0 type bridge")
	ip(t, "link set ours master br0")
	ip(t, "link set ours nomaster") // the kernel says RTM_DELLINK, of AF_BRIDGE
	ip(t, "link del br0")
	ip(t, "link set ours mtu 1400")
	for s := next(); s.MTU != 1400; s = next() {
		if s.Reason == Deleted {
			t.Fatalf("%+v", s)
		}
	}
	if s := m.State(); !s.Up() {
		t.Errorf("%+v", s)
	}
}

// TestDeleted checks that an interface that comes back is followed again, with its new index; also after it was in
// another network namespace, where it keeps the index.
func TestDeleted(t *testing.T) {
	ownNetwork(t)
	m, next := watched(t)
	first := m.State().Index
	ip(t, "link del ours")
	until(t, next, Deleted)
	ip(t, "link add other type veth peer name others")
	ip(t, "link add ours type veth peer name theirs")
	if s := until(t, next, Admin); s.Index == first {
		t.Errorf("%+v has the index of the one that is gone", s)
	}
	if _, err := net.InterfaceByIndex(first); err == nil {
		t.Error("the interface's old index is in use again")
	}

	sleeper := exec.Command("unshare", "--net", "sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
	})
	own, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := fmt.Sprintf("/proc/%d/ns/net", sleeper.Process.Pid)
	for theirs := own; theirs == own; time.Sleep(time.Millisecond) {
		if theirs, err = os.Readlink(elsewhere); err != nil {
			t.Fatal(err)
		}
	}
	ip(t, fmt.Sprintf("link set ours netns %d", sleeper.Process.Pid))
	until(t, next, Deleted)
	out, err := exec.Command("nsenter", "--net="+elsewhere, "ip", "link", "set", "ours", "netns", fmt.Sprint(unix.Gettid())).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if s := until(t, next, Admin); s.Index != m.State().Index {
		t.Errorf("%+v", s)
	}
}

// TestLostEvents lets the kernel drop events, because nobody reads them, and checks that what they told is found out.
func TestLostEvents(t *testing.T) {
	ownNetwork(t)
	ip(t, "link add ours type veth peer name theirs")
	ip(t, "link add noise type veth peer name noises")
	reached, wait := make(chan struct{}), make(chan struct{})
	changes := make(chan State, 100)
	first := true
	m, err := Watch("ours", func(_, is State) {
		if first {
			first = false
			close(reached)
			<-wait
		}
		changes <- is
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	if err := m.socket.SetReceiveBufferSize(4096, false); err != nil {
		t.Fatal(err)
	}
	ip(t, "link set ours up")
	<-reached // it does not read on
	for i := range 20 {
		ip(t, fmt.Sprintf("link set noise mtu %d", 1400+i))
	}
	ip(t, "link del ours")
	ip(t, "link add ours type veth peer name theirs")
	ip(t, "link set ours mtu 1234")
	close(wait)
	for deadline := time.Now().Add(time.Minute); m.State().MTU != 1234 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if s := m.State(); s.Reason != Admin || s.MTU != 1234 {
		t.Errorf("%+v", s)
	}
}

// plugged makes a tap that somebody is at, up: it has a carrier. Unlike veth it is an interface of its own, as a card's is.
func plugged(t *testing.T, name string) {
	t.Helper()
	tap := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: name}, Mode: netlink.TUNTAP_MODE_TAP, Queues: 1}
	if err := netlink.LinkAdd(tap); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tap.Fds[0].Close() })
	ip(t, "link set "+name+" up")
}

// TestPoll has two interfaces lose their carriers one after the other, and checks that of each it is told within 0.1 s, though
// the kernel does so a second later; and that a carrier that comes back is told, and one that has not changed is not.
func TestPoll(t *testing.T) {
	ownNetwork(t)
	meter, err := slowtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer meter.Close()
	changes := make(chan State, 100)
	for _, name := range []string{"one", "two"} {
		plugged(t, name)
		m, err := Watch(name, func(_, is State) { changes <- is })
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if s := m.State(); !s.Up() {
			t.Fatalf("%+v", s)
		}
		m.Poll(25 * time.Millisecond)
	}
	for _, c := range []struct {
		name, carrier string
		want          Reason
	}{{"one", "off", Carrier}, {"two", "off", Carrier}, {"one", "on", ""}, {"two", "on", ""}, {"one", "off", Carrier}, {"two", "off", Carrier}} {
		time.Sleep(100 * time.Millisecond)
		if len(changes) > 0 {
			t.Errorf("nothing has changed, and it says %+v", <-changes)
		}
		_ = meter.Worst() // of before
		began := time.Now()
		ip(t, "link set "+c.name+" carrier "+c.carrier)
		s := <-changes
		took := time.Since(began)
		if s.Interface != c.name || s.Reason != c.want {
			t.Errorf("carrier %s of %s: %+v", c.carrier, c.name, s)
		}
		if limit := slowtest.Stretch(t, 100*time.Millisecond, meter.Worst()); took > limit {
			t.Errorf("carrier %s of %s is told after %v; want %v", c.carrier, c.name, took, limit)
		}
		t.Logf("carrier %s of %s is told after %v", c.carrier, c.name, took)
	}
}

func TestNoInterface(t *testing.T) {
	if _, err := Watch("nosuch0", nil); err == nil || !strings.Contains(err.Error(), "there is no interface nosuch0") {
		t.Error(err)
	}
}
