// SPDX-License-Identifier: Apache-2.0

// Package link follows the kernel's interface of a port by netlink.
package link

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// A Reason is why an interface is down.
type Reason string

// The reasons; of several, the first that holds.
const (
	Deleted Reason = "deleted" // it is not in this network namespace
	Admin   Reason = "admin"   // it is not set up
	Carrier Reason = "carrier" // it has no carrier
)

// A State is what the kernel says of an interface.
type State struct {
	Interface string
	Index     int // of the last one with that name
	MTU       int
	Reason    Reason // why it is down; "": it is up
	Note      string // the same in words, where there is more to say
}

// Up reports whether frames can pass.
func (s State) Up() bool { return s.Reason == "" }

// String says what is wrong, and what to do.
func (s State) String() string {
	if s.Note != "" {
		return s.Note
	}
	switch s.Reason {
	case Deleted:
		return "the interface " + s.Interface + " was deleted"
	case Admin:
		return fmt.Sprintf("the interface %s is down; ip link set %[1]s up", s.Interface)
	case Carrier:
		return "the interface " + s.Interface + " has no carrier; check its cable, and the port at the other end"
	}
	return "the interface " + s.Interface + " is up"
}

// A Monitor follows one interface. Its methods may be called from any goroutine.
type Monitor struct {
	socket  *nl.NetlinkSocket
	changed func(was, is State)
	ended   chan struct{}
	polling sync.WaitGroup

	mu     sync.Mutex
	state  State
	listed bool // the interface was in the list that is under way
}

// Watch follows an interface of the caller's network namespace, until Close. changed is called for each change after
// that, in order, from one goroutine.
func Watch(name string, changed func(was, is State)) (*Monitor, error) {
	netdev, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("link: there is no interface %s: %w", name, err)
	}
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK)
	if err != nil {
		return nil, fmt.Errorf("link: follow the interface %s: netlink: %w", name, err)
	}
	m := &Monitor{socket: socket, changed: func(State, State) {}, ended: make(chan struct{}), state: State{Interface: name, Index: netdev.Index}}
	if err := m.begin(); err != nil {
		socket.Close()
		return nil, fmt.Errorf("link: follow the interface %s: %w", name, err)
	}
	m.changed = changed
	go m.follow()
	return m, nil
}

// State returns the state now.
func (m *Monitor) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// Poll has the monitor ask for the state so often, too, until Close. Of a carrier that is lost the kernel tells up to a
// second late, if that of any interface has changed in the second before (Linux, link_watch.c). Only one that is in a bond of
// the kernel's, or like veth on top of another, has no such delay.
func (m *Monitor) Poll(every time.Duration) {
	m.polling.Go(func() {
		for {
			select {
			case <-m.ended:
				return
			case <-time.After(every):
				m.ask()
			}
		}
	})
}

// skipStats is RTEXT_FILTER_SKIP_STATS (linux/rtnetlink.h): drivers need not be asked for counters.
const skipStats = 1 << 3

// ask has the kernel tell the state now.
func (m *Monitor) ask() {
	s := m.State()
	if s.Reason == Deleted {
		return
	}
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, 0)
	info := nl.NewIfInfomsg(unix.AF_UNSPEC)
	info.Index = int32(s.Index)
	request.AddData(info)
	request.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(skipStats)))
	_ = m.socket.Send(request) // else the next time
}

// Close ends it. No call of changed is under way then.
func (m *Monitor) Close() error {
	m.socket.Close()
	<-m.ended
	m.polling.Wait()
	return nil
}

// begin reads the first state.
func (m *Monitor) begin() error {
	if err := m.list(); err != nil {
		return err
	}
	for {
		done, err := m.receive()
		if done || err != nil {
			return err
		}
	}
}

// follow applies what the kernel says, until Close.
func (m *Monitor) follow() {
	defer close(m.ended)
	for {
		if _, err := m.receive(); err != nil {
			return
		}
	}
}

// list asks for all interfaces.
func (m *Monitor) list() error {
	m.listed = false
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	return m.socket.Send(request)
}

// receive applies the next messages, and reports whether a list has ended with them.
func (m *Monitor) receive() (done bool, err error) {
	messages, from, err := m.socket.Receive()
	if errors.Is(err, unix.ENOBUFS) { // events are lost
		return false, m.list()
	}
	if err != nil {
		return false, err
	}
	if from.Pid != nl.PidKernel {
		return false, nil
	}
	for i := range messages {
		switch messages[i].Header.Type {
		case unix.NLMSG_DONE:
			if again := m.endList(&messages[i]); again {
				if err := m.list(); err != nil {
					return false, err
				}
				continue
			}
			done = true
		case unix.NLMSG_ERROR:
			if err := errorOf(messages[i].Data); !errors.Is(err, unix.ENODEV) { // who asked was too late: there is an event
				return false, fmt.Errorf("netlink: %w", err)
			}
		case unix.RTM_NEWLINK, unix.RTM_DELLINK:
			m.apply(&messages[i])
		}
	}
	return done, nil
}

func errorOf(data []byte) error {
	if len(data) < 4 {
		return unix.EBADMSG
	}
	return syscall.Errno(-int32(nl.NativeEndian().Uint32(data)))
}

// endList ends a list. It reports whether another is needed: where this one was not of one moment, or has shown that
// the interface is not there any more, for one may be there that has its name.
func (m *Monitor) endList(done *syscall.NetlinkMessage) (again bool) {
	if done.Header.Flags&unix.NLM_F_DUMP_INTR != 0 {
		return true
	}
	s := m.State()
	if m.listed || s.Reason == Deleted {
		return false
	}
	s.Reason = Deleted
	m.set(s)
	return true
}

// apply takes what the kernel says of one interface.
func (m *Monitor) apply(message *syscall.NetlinkMessage) {
	info := nl.DeserializeIfInfomsg(message.Data)
	if info.Family != unix.AF_UNSPEC { // a bridge's, of its port
		return
	}
	s := m.State()
	mine := int(info.Index) == s.Index
	if message.Header.Type == unix.RTM_DELLINK {
		if mine {
			s.Reason = Deleted
			m.set(s)
		}
		return
	}
	header := unix.NlMsghdr(message.Header)
	netdev, err := netlink.LinkDeserialize(&header, message.Data)
	if err != nil {
		return
	}
	if s.Reason == Deleted {
		mine = netdev.Attrs().Name == s.Interface
	}
	if !mine {
		return
	}
	m.listed = true
	s.Index, s.MTU, s.Reason = netdev.Attrs().Index, netdev.Attrs().MTU, reasonOf(info.Flags)
	m.set(s)
}

// reasonOf reads the flags of an interface (netdevice(7)). IFF_RUNNING is its operational state, which follows the
// carrier, IFF_LOWER_UP.
func reasonOf(flags uint32) Reason {
	switch {
	case flags&unix.IFF_UP == 0:
		return Admin
	case flags&unix.IFF_RUNNING == 0 || flags&unix.IFF_LOWER_UP == 0:
		return Carrier
	}
	return ""
}

func (m *Monitor) set(s State) {
	m.mu.Lock()
	was := m.state
	m.state = s
	m.mu.Unlock()
	if was != s {
		m.changed(was, s)
	}
}
