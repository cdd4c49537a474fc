// SPDX-License-Identifier: Apache-2.0

// Package multipath is an InfiniBand port made of several: ports of one fabric, or of two with a subnet manager each. To
// the datapath and to management it is one port (ibside/port.h, ibside.OpenPort).
//
//	             ┌─ Port ─────────────────────────────┐
//	workers    ──┤ post: to the chosen ▪ poll: from all ├──▶ member 0 ──▶ fabric A
//	management ──┤ groups, nodes, queue pairs: on all   ├──▶ member 1 ──▶ fabric B
//	             │ judge: which member is active        │
//	             └────────────────────────────────────┘
//
// For each group and node a member is chosen: the active one. The others are warm: groups are joined, paths are known,
// proxy QPs are made, so that a switch-over is one store. A group can use all members at once (Both).
//
// Every destination and queue pair has a number of the Port's own, in place of a member's: see multipath.h.
package multipath

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"causeway/dpdk"
	"causeway/ibside"
	"causeway/ibside/ib"
)

// A Member is one of the ports.
type Member struct {
	Name   string // among the members
	Fabric string // of those with one name, GIDs are the same
	Port   ibside.OpenPort
	PKey   ib.PKey // takes the place of the first member's
}

// Mode says by which members a group's messages go.
type Mode uint8

// The modes.
const (
	Active Mode = iota // one of them, and the others take over
	Both               // all
)

// Tell says what tells copies of a message that come by several members.
type Tell uint8

// What tells.
const (
	TellNothing Tell = iota
	TellImm          // immediate data numbers a node's messages
	TellPGM          // PGM's sequence numbers
)

// A Rule is how a group uses the members.
type Rule struct {
	Mode Mode
	Tell Tell
}

// Config is what a Port is made of.
type Config struct {
	Members []Member // two or more; the first's P_Key and QPNs are those that the datapath and management know
	Workers int
	Pool    *dpdk.Mempool // of copies for a second member

	ProxyQPs, Groups, Nodes int // the most

	// Rule returns how a group uses the members, and GIDs those of a node by member, zero where it has none. They may be
	// called from any goroutine.
	Rule func(mgid ib.GID) Rule
	GIDs func(gid ib.GID) []ib.GID

	HoldDown time.Duration // a destination changes no more often because of losses or a preference
	MaxLoss  float64       // a greater share of losses is a reason to change
	Log      *slog.Logger
}

// Port is a port made of others. Its methods may be called from any goroutine.
type Port struct {
	*state
	*groups
	*nodes
	*pairs
	*services
	*renewals
	*judge
	ended sync.WaitGroup
	stop  context.CancelFunc
}

// state is what the parts share. mu guards the tables' writers and all destinations.
type state struct {
	cfg    Config
	mu     sync.Mutex
	tables *cTables
	byGID  map[ib.GID]*destination
	byLID  map[ib.LID]*destination
	lids   lids
	unused []uint32 // numbers of destinations that are gone
	last   uint32   // the highest number

	ctx        context.Context // of what is asked of members in the background
	attempts   sync.WaitGroup  // of that
	othersWait time.Duration   // the constant; a test on a busy machine has more, for the first member of its file to be in time
}

// Most of one kind, because each has a LID of its own, of groups or of ports.
const (
	MostGroups = 0x3ffe
	MostNodes  = 0xbfff
)

// New makes a port of others, which become its own; on an error they stay the caller's.
func New(c Config) (*Port, error) {
	if err := check(&c); err != nil {
		return nil, err
	}
	const ownGIDs, spare = 256, 64
	n := len(c.Members)
	names := (c.Groups+c.Nodes+c.ProxyQPs+spare)*n + ownGIDs*n*n
	tables, err := newTables(c.Members, c.Workers, c.Groups+c.Nodes, c.ProxyQPs+restingPairs, names, c.Pool)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &state{cfg: c, tables: tables, byGID: map[ib.GID]*destination{}, byLID: map[ib.LID]*destination{}, ctx: ctx, othersWait: othersWait}
	p := &Port{state: s, stop: stop}
	p.renewals = newRenewals(s)
	p.judge = newJudge(s)
	p.groups = &groups{s, p.judge, p.renewals}
	p.nodes = newNodes(s, p.judge)
	p.renewals.nodes, p.renewals.groups = p.nodes, p.groups
	p.pairs = newPairs(s)
	p.services = &services{s, p.pairs, p.judge}
	p.nameOwn()
	p.follow(&p.ended)
	p.ended.Go(func() { p.judge.run(ctx, p.eachSecond) })
	return p, nil
}

func (p *Port) eachSecond(now time.Time) {
	p.retryJoins(now)
	p.lookAgain(now)
	p.nameOwn()
}

func check(c *Config) error {
	if n := len(c.Members); n < 2 || n > maxPorts {
		return fmt.Errorf("multipath: %d ports; use 2 to %d", n, maxPorts)
	}
	if c.Groups > MostGroups || c.Nodes > MostNodes {
		return fmt.Errorf("multipath: %d groups and %d nodes; with several ports there is room for %d and %d: lower [workers] groups or nodes",
			c.Groups, c.Nodes, MostGroups, MostNodes)
	}
	for _, m := range c.Members {
		if m.Port.Info().Ethernet {
			return fmt.Errorf("multipath: port %s: its link layer is Ethernet; ports are used together on InfiniBand alone", m.Name)
		}
	}
	return nil
}

// SendWhile implements ibside.Entitled, for the members that do.
func (s *state) SendWhile(may func() bool) {
	for _, m := range s.cfg.Members {
		if e, ok := m.Port.(ibside.Entitled); ok {
			e.SendWhile(may)
		}
	}
}

// AwaitSent implements ibside.OpenPort.
func (s *state) AwaitSent(ctx context.Context) error {
	return s.each(func(p ibside.OpenPort) error { return p.AwaitSent(ctx) })
}

// AwaitReceived implements ibside.OpenPort.
func (s *state) AwaitReceived(ctx context.Context) error {
	return s.each(func(p ibside.OpenPort) error { return p.AwaitReceived(ctx) })
}

// each waits for all members' ports at once.
func (s *state) each(wait func(ibside.OpenPort) error) error {
	var all errgroup.Group
	for _, m := range s.cfg.Members {
		all.Go(func() error { return wait(m.Port) })
	}
	return all.Wait()
}

// Info implements ibside.OpenPort. What one member carries all can, so that a switch-over never cuts a message off.
func (s *state) Info() ibside.Info {
	out := ibside.Info{Direct: true}
	var down []string
	for _, m := range s.cfg.Members {
		i := m.Port.Info()
		if out.MTU == 0 || i.MTU < out.MTU {
			out.MTU = i.MTU
		}
		if i.QueuePairs != 0 && (out.QueuePairs == 0 || i.QueuePairs < out.QueuePairs) {
			out.QueuePairs = i.QueuePairs
		}
		out.Receives += i.Receives
		out.Direct = out.Direct && i.Direct
		if i.Down != "" {
			down = append(down, i.Down)
		}
	}
	if len(down) == len(s.cfg.Members) {
		out.Down = fmt.Sprintf("no port is active: %s", down[0])
	}
	return out
}

// Own implements ibside.Port: the GIDs of all, and no LID, because another fabric's node may have it.
func (s *state) Own() ibside.Own {
	var out ibside.Own
	for i, m := range s.cfg.Members {
		own := m.Port.Own()
		for _, g := range own.GIDs {
			if !slices.Contains(out.GIDs, g) {
				out.GIDs = append(out.GIDs, g)
			}
		}
		out.Beyond += own.Beyond
		pkeys := make([]ib.PKey, len(own.PKeys))
		for k, pkey := range own.PKeys {
			pkeys[k] = s.pkeyFrom(i, pkey)
		}
		if i == 0 {
			out.PKeys = pkeys
			if len(own.Sources) > 0 {
				out.Sources = []ibside.Source{{GID: own.Sources[0].GID}}
			}
			continue
		}
		out.PKeys = slices.DeleteFunc(out.PKeys, func(k ib.PKey) bool { return !slices.Contains(pkeys, k) })
	}
	return out
}

// pkeyOf returns a member's P_Key in place of the first's, and pkeyFrom the reverse.
func (s *state) pkeyOf(member int, pkey ib.PKey) ib.PKey {
	if pkey == s.cfg.Members[0].PKey {
		return s.cfg.Members[member].PKey
	}
	return pkey
}

func (s *state) pkeyFrom(member int, pkey ib.PKey) ib.PKey {
	if pkey == s.cfg.Members[member].PKey {
		return s.cfg.Members[0].PKey
	}
	return pkey
}

// nameOwn makes the members known to each other: what one has sent may come back by another. It returns whether there
// was room for all.
func (s *state) nameOwn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	room := true
	for i := range s.cfg.Members {
		for _, o := range s.cfg.Members {
			for _, gid := range o.Port.Own().GIDs {
				room = s.tables.nameGID(i, gid, ownPort) && room
			}
		}
	}
	return room
}

// CheckPorts implements ibside.OpenPort.
func (s *state) CheckPorts(ports []ibside.PortRange) error {
	var errs []error
	for _, m := range s.cfg.Members {
		errs = append(errs, m.Port.CheckPorts(ports))
	}
	return errors.Join(errs...)
}

func add(sum, n map[string]uint64) {
	for k, v := range n {
		sum[k] += v
	}
}

// Reasons for losses besides those of members.
const (
	LostFull   = "port_full"  // the member took no more
	LostNoWay  = "no_way"     // no member that is up reaches the destination
	LostNoMbuf = "no_mbuf_ib" // a copy for a further member was not made: of mode Both
)

// Lost implements ibside.OpenPort.
func (p *Port) Lost() (sends, receives map[string]uint64) {
	sends, receives = map[string]uint64{}, map[string]uint64{}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, m := range p.cfg.Members {
		s, r := m.Port.Lost()
		add(sends, s)
		add(receives, r)
		sends[LostFull] += p.tables.counters(i).Full
	}
	sends[LostNoWay], sends[LostNoMbuf] = p.tables.lost()
	maps.DeleteFunc(sends, func(_ string, n uint64) bool { return n == 0 })
	return sends, receives
}

// LostByDevice implements ibside.OpenPort.
func (s *state) LostByDevice() map[string]uint64 {
	sum := map[string]uint64{}
	for _, m := range s.cfg.Members {
		add(sum, m.Port.LostByDevice())
	}
	return sum
}

// ServiceCounts implements ibside.OpenPort.
func (s *state) ServiceCounts() (requests, connects map[string]uint64) {
	requests, connects = map[string]uint64{}, map[string]uint64{}
	for _, m := range s.cfg.Members {
		r, c := m.Port.ServiceCounts()
		add(requests, r)
		add(connects, c)
	}
	return requests, connects
}

// Close implements ibside.OpenPort.
func (p *Port) Close() error {
	p.stop()
	p.ended.Wait()
	p.attempts.Wait()
	var errs []error
	for i, m := range p.cfg.Members {
		c := p.tables.counters(i)
		p.cfg.Log.Info("ib_path_closed", "port", m.Name, "sent", c.Sent, "full", c.Full, "received", c.Received,
			"standby", c.Standby, "duplicate", c.Duplicate)
		errs = append(errs, m.Port.Close())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tables.free()
	return errors.Join(errs...)
}
