// SPDX-License-Identifier: Apache-2.0

// Package relay is an InfiniBand switch: it relays packets between its ports as a subnet manager tells it to, and no
// other way. Its own port 0 has the agents that the manager asks. Sections are those of IBTA vol 1.
//
//	link ─ Port.Receive ─┬─ data:  P_Key, state ─ forwarding tables ─ state, P_Key, MTU ─┬─ queue of a port ─ writer ─ link
//	                     └─ VL 15: directed route, or forwarding table ──────────────────┘
//	                               └─ port 0: subnet management, performance management
//
// A packet is received, relayed and put on a queue by the goroutine that brings it, and does not wait. A port's writer
// waits for its link, and holds no lock then.
package relay

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"causeway/app/e2e/ibswitch/link"
	"causeway/app/e2e/ibswitch/sma"
	"causeway/app/e2e/ibswitch/smp"
	"causeway/ibside/ib"
)

const (
	linearCap    = 0xc000 // all unicast LIDs
	multicastCap = 1024   // groups from MLIDFirst on
	maxPorts     = 254
	noPort       = 0xff // of the linear forwarding table

	// As credits, it lets an adapter be slow for the burst of a program with hundreds of queue pairs.
	dataQueue       = 8192
	managementQueue = 256
)

// portMask is a set of ports: position n has ports 16n to 16n+15, as in the multicast forwarding table.
type portMask [smp.MulticastPositions]uint16

func (m *portMask) has(port uint8) bool { return m[port/16]>>(port%16)&1 != 0 }

// Config describes a switch.
type Config struct {
	GUID        ib.GUID
	Description string
	Event       func(text string) // one line for each thing that happens; nil: nobody wants to know
}

// Switch is a switch. Its ports are numbered from 1 on.
type Switch struct {
	config Config
	ended  sync.WaitGroup

	mu        sync.RWMutex // for all below, and the ports' attributes
	ports     []*Port
	info      smp.SwitchInfo
	linear    [linearCap]uint8
	multicast [multicastCap]portMask
	trap      trap
	closed    bool
}

// New makes a switch without ports, but for port 0.
func New(c Config) *Switch {
	if c.Event == nil {
		c.Event = func(string) {}
	}
	s := &Switch{config: c, trap: trap{interval: time.Second}, info: smp.SwitchInfo{
		LinearCap: linearCap, MulticastCap: multicastCap, LifeTime: 19, EnforcementCap: sma.PKeys, Inbound: true, Outbound: true,
	}}
	for i := range s.linear {
		s.linear[i] = noPort
	}
	s.ports = []*Port{{name: "0", sw: s, Port: sma.NewPort(sma.Management, c.GUID)}}
	return s
}

// Add gives the switch one more port, at a link, before Start.
func (s *Switch) Add(name string, l link.Link) error {
	if len(s.ports) > maxPorts {
		return fmt.Errorf("switch: port %s: it can have %d ports", name, maxPorts)
	}
	if s.port(name) != nil {
		return fmt.Errorf("switch: two ports are called %s", name)
	}
	s.ports = append(s.ports, &Port{
		name: name, number: uint8(len(s.ports)), sw: s, link: l, Port: sma.NewPort(sma.External, 0),
		data: make(chan []byte, dataQueue), management: make(chan []byte, managementQueue), closed: make(chan struct{}),
	})
	return nil
}

// Start starts all links.
func (s *Switch) Start() {
	for _, p := range s.ports[1:] {
		s.ended.Go(p.write)
	}
	for _, p := range s.ports[1:] {
		p.link.Start(p)
	}
}

// port returns the port of a name, or nil.
func (s *Switch) port(name string) *Port {
	for _, p := range s.ports[1:] {
		if p.name == name {
			return p
		}
	}
	return nil
}

// Plug pulls a port's cable, or puts it in again.
func (s *Switch) Plug(name string, in bool) error {
	p := s.port(name)
	if p == nil {
		return fmt.Errorf("switch: no port is called %q", name)
	}
	s.mu.Lock()
	p.pulled = !in
	present := p.present()
	s.mu.Unlock()
	p.link.Plug(present)
	return nil
}

// Lose has a port lose so many percent of the data that comes and goes by it.
func (s *Switch) Lose(name string, percent uint32) error {
	p := s.port(name)
	if p == nil {
		return fmt.Errorf("switch: no port is called %q", name)
	}
	p.loss.Store(percent)
	return nil
}

// Close takes all links down.
func (s *Switch) Close() error {
	s.mu.Lock()
	s.closed = true
	s.trap.stop()
	s.mu.Unlock()
	var errs []error
	for _, p := range s.ports[1:] {
		close(p.closed)
		errs = append(errs, p.link.Close())
	}
	s.ended.Wait()
	return errors.Join(errs...)
}
