// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/stamp"
	"causeway/lcore"
	"causeway/lcore/frame/roce"
)

// fleetPause is between two messages of a flow of -fleet: it is how exactly the time of a loss is known.
const fleetPause = 20 * time.Millisecond

// fleetGroups are those that the node sends to: of several shards, and so of several bridges.
var fleetGroups = []netip.Addr{
	netip.MustParseAddr("239.1.3.1"), netip.MustParseAddr("239.1.3.2"), netip.MustParseAddr("239.1.3.3"),
	netip.MustParseAddr("239.1.3.4"), netip.MustParseAddr("239.1.3.5"), netip.MustParseAddr("239.1.3.6"),
}

// A fleetFlow is a flow that does not wait for what is lost.
type fleetFlow struct {
	*flow
	way lcore.Direction

	mu      sync.Mutex
	last    stamp.Stamp   // of those that arrived
	outage  time.Duration // the longest time of the stage whose messages did not arrive
	settled uint64        // the last message that has had time to arrive
	sending uint64        // the last that was sent when that was found out
}

// note takes a message at the receiver.
func (f *fleetFlow) note(payload []byte) {
	f.arrive(0, payload)
	s, verdict := stamp.Read(payload)
	if verdict != stamp.Whole {
		return // it was counted
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last.Number > 0 && s.Number > f.last.Number+1 {
		f.outage = max(f.outage, s.Sent().Sub(f.last.Sent()))
	}
	if s.Number > f.last.Number {
		f.last = s
	}
}

// newest is the highest number that arrived.
func (f *fleetFlow) newest() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last.Number
}

// takeOutage returns the longest time without messages since it was asked last.
func (f *fleetFlow) takeOutage() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.outage
	f.outage = 0
	return d
}

// counts are those of all flows of -fleet.
type counts struct {
	sent, received, lost         [2]uint64 // by direction
	doubled, disorderly, damaged uint64
}

// lookEvery is also the time that a message has to arrive, before it counts as lost.
const lookEvery = 250 * time.Millisecond

// settle is called after each such time.
func settle(flows []*fleetFlow) {
	for _, f := range flows {
		f.settled, f.sending = f.sending, f.sent.Load()
	}
}

// look returns the counts.
func look(flows []*fleetFlow) (c counts) {
	for _, f := range flows {
		f.flow.mu.Lock()
		s := f.seen[0]
		f.flow.mu.Unlock()
		newest := s.Before() + s.Unique + s.Lost()
		c.sent[f.way] += f.sent.Load() - s.Before() // those before the first that arrived found no bridge yet
		c.received[f.way] += s.Unique
		c.lost[f.way] += s.Lost() + f.settled - min(f.settled, newest)
		c.doubled += f.repeats.Load()
		c.disorderly += s.Reordered
		c.damaged += f.damaged.Load()
	}
	return c
}

// since returns what has grown.
func (c counts) since(before counts) counts {
	for way := range c.sent {
		c.sent[way] -= before.sent[way]
		c.received[way] -= before.received[way]
		c.lost[way] -= min(c.lost[way], before.lost[way]) // less when a message came late
	}
	c.doubled -= before.doubled
	c.disorderly -= before.disorderly
	c.damaged -= before.damaged
	return c
}

// withoutUnderWay leaves what is under way to the counts that follow, so that these add up.
func (c counts) withoutUnderWay() counts {
	for way := range c.sent {
		c.sent[way] = c.received[way] + c.lost[way]
	}
	return c
}

// makeFlows makes those of the hosts, each to the node and to its group, and those of the node to groups, of which each
// host listens to some.
func (b *fleetbed) makeFlows() error {
	add := func(way lcore.Direction, name string, transmit func(uint64, []byte) error) *fleetFlow {
		f := &fleetFlow{flow: newFlow(name, "", 1), way: way}
		stream := uint32(len(b.flows))
		f.transmit = func(number uint64, payload []byte) error {
			s, _ := stamp.Read(payload)
			s.Stream = stream
			s.Put(payload)
			return transmit(number, payload)
		}
		b.flows = append(b.flows, f)
		return f
	}
	qpn := b.nodes[0].QP().QPN()
	for _, h := range b.hosts {
		add(lcore.RoCEToIB, h.Name+" → node", func(_ uint64, payload []byte) error { return h.send(nodeIP4(fleetNode), qpn, false, payload) })
		add(lcore.RoCEToIB, h.Name+" → group", func(_ uint64, payload []byte) error { return h.send(toIB, ib.QPMulticast, false, payload) })
	}
	receivers := b.flows
	receive := func(r *fabric.Received) {
		if s, v := stamp.Read(r.Payload); v.Stamped() && int(s.Stream) < len(receivers) {
			receivers[s.Stream].note(r.Payload)
		}
	}
	b.onListen.Store(&receive)
	for i, group := range fleetGroups {
		send, err := publisher(b.nodes[0], group)
		if err != nil {
			return err
		}
		f, h := add(lcore.IBToRoCE, fmt.Sprintf("node → %v", group), send), b.hosts[i%len(b.hosts)]
		if err := h.join(group, func(p *roce.Packet) { f.note(p.Payload) }); err != nil {
			return fmt.Errorf("%s joins %v: %w", h.Name, group, err)
		}
	}
	return nil
}

// sendSteadily sends a message of each flow after each pause, until ctx ends. It looks at the counts before it sends,
// when least is under way; who does not take them gets the next ones.
func sendSteadily(ctx context.Context, flows []*fleetFlow, looks chan<- counts) {
	tick := time.NewTicker(fleetPause)
	defer tick.Stop()
	for looked := time.Now(); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if time.Since(looked) >= lookEvery {
			looked = time.Now()
			settle(flows)
			select {
			case looks <- look(flows):
			default:
			}
		}
		for _, f := range flows {
			f.sendNext()
		}
	}
}

// allCame reports whether a message of each flow has arrived that is as new as when numbers were taken.
func allCame(flows []*fleetFlow, numbers []uint64) bool {
	for i, f := range flows {
		if f.newest() < numbers[i] {
			return false
		}
	}
	return true
}

// numbers returns those sent last.
func numbers(flows []*fleetFlow) (all []uint64) {
	for _, f := range flows {
		all = append(all, f.sent.Load())
	}
	return all
}
