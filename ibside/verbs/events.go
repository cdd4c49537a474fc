// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"causeway/ibside/ib"
)

// EventKind is a kind of event.
type EventKind string

// The events of a port that the Door reacts to.
const (
	EventPortUp      EventKind = "port_up"
	EventPortDown    EventKind = "port_down"
	EventGID         EventKind = "gid_change"
	EventLID         EventKind = "lid_change"
	EventPKey        EventKind = "pkey_change"
	EventSM          EventKind = "sm_change"
	EventReregister  EventKind = "client_reregister"
	EventQPFatal     EventKind = "qp_fatal"
	EventPKeyLost    EventKind = "pkey_lost" // the port has not Config.PKey at its place any more: the process has to start anew
	EventCQError     EventKind = "cq_error"  // a queue that all of a worker's queue pairs use is lost: the same
	EventSRQError    EventKind = "srq_error"
	EventDeviceFatal EventKind = "device_fatal"
	EventDeviceGone  EventKind = "device_removal" // librdmacm keeps the device: the process has to end
	EventMembership  EventKind = "membership_lost"
	EventOther       EventKind = "other"
)

// Event is something that happened to the port.
type Event struct {
	Kind   EventKind
	Handle uint32 // the queue pair's; 0: not about one
	Worker int    // whose queues; -1: not about one worker's
}

// HandleEvent is where all events of the device arrive. Tests drive it for those that no device at hand raises.
func (d *Door) HandleEvent(e Event) {
	d.counts.count(func(c *Counters) { c.Events.add(string(e.Kind), 1) })
	d.log.Info("ib_event", "port", d.cfg.name(), "kind", string(e.Kind))
	switch e.Kind {
	case EventPortUp, EventPortDown, EventGID, EventLID, EventPKey, EventSM, EventReregister:
		d.portChanged(e.Kind)
	case EventQPFatal:
		d.markFailed(e.Handle)
	}
	if d.cfg.OnEvent != nil {
		d.cfg.OnEvent(e)
	}
	if e.Kind == EventPKey {
		d.checkPKey()
	}
}

// checkPKey looks for the P_Key where it was: queue pairs, and messages to them, name it by its place in the port's table.
func (d *Door) checkPKey() {
	p := d.Port()
	if int(p.PKeyIndex) < len(p.PKeys) && p.PKeys[p.PKeyIndex] == d.cfg.PKey {
		return
	}
	d.log.Error("pkey_lost", "port", d.cfg.name(), "pkey", d.cfg.PKey, "index", p.PKeyIndex, "pkeys", p.PKeys,
		"note", "the subnet manager changed the port's P_Key table: Causeway has to start anew")
	d.HandleEvent(Event{Kind: EventPKeyLost, Worker: -1})
}

// portChanged reads the port before it lets the address handles be made anew: their GID index comes from there.
func (d *Door) portChanged(kind EventKind) {
	if err := d.refreshPort(); err != nil {
		d.log.Error("ib_port", "error", err)
	}
	d.gidGen.Add(1)
	d.mu.Lock()
	if !d.closing {
		for _, w := range d.workers {
			w.retryFailed() // first: it lets the answers under way end, and those from then on know of the change
			w.forgetAHs()
		}
	}
	d.mu.Unlock()
	if kind == EventPortUp {
		select {
		case d.kick <- struct{}{}:
		default: // one is waiting
		}
	}
	// Ethernet has no subnet manager that forgets; the kernel keeps its memberships while a link is down.
	switch {
	case d.Port().Ethernet || kind == EventPortDown || kind == EventGID:
	case d.administration() == nil:
		d.rejoinAll()
	case kind == EventPKey:
		d.reseat()
	}
}

func (d *Door) markFailed(handle uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if q := d.qps[handle]; q != nil {
		q.markError()
	}
}

// rejoinAll renews all memberships in the background.
func (d *Door) rejoinAll() {
	d.joinMu.Lock()
	defer d.joinMu.Unlock()
	for mgid := range d.groups {
		d.startRejoin(mgid)
	}
}

func (d *Door) lostMembership(mgid ib.GID, ev cmEvent) {
	d.counts.count(func(c *Counters) { c.JoinErrors++ })
	d.log.Warn("membership_lost", "mgid", mgid, "event", ev.kind, "status", ev.status)
	d.HandleEvent(Event{Kind: EventMembership, Worker: -1})
	d.startRejoin(mgid)
}
