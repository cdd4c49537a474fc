// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"cmp"
	"errors"
	"fmt"
)

// eventKind is a kind of event.
type eventKind string

// The events that the Port reacts to.
const (
	eventPortUp      eventKind = "port_up"
	eventPortDown    eventKind = "port_down"
	eventGID         eventKind = "gid_change"
	eventLID         eventKind = "lid_change"
	eventPKey        eventKind = "pkey_change"
	eventSM          eventKind = "sm_change"
	eventReregister  eventKind = "client_reregister"
	eventQPFatal     eventKind = "qp_fatal"
	eventCQError     eventKind = "cq_error" // a queue that all of a worker's queue pairs use is lost
	eventSRQError    eventKind = "srq_error"
	eventDeviceFatal eventKind = "device_fatal"
	eventDeviceGone  eventKind = "device_removal" // librdmacm keeps the device as long as the process runs
	eventMembership  eventKind = "membership_lost"
	eventOther       eventKind = "other"
)

// event is an event of the device, or of rdma_cm.
type event struct {
	Kind   eventKind
	Handle uint32 // the queue pair's; 0: not about one
	Worker int    // whose queues; -1: not about one worker's
}

// handleEvent handles all events. Tests call it for those that their device does not raise.
func (p *Port) handleEvent(e event) {
	p.counts.count(func(c *counters) { c.Events.add(string(e.Kind), 1) })
	p.log.Info("ib_event", "port", p.cfg.name(), "kind", string(e.Kind))
	switch e.Kind {
	case eventPortUp, eventPortDown, eventGID, eventLID, eventPKey, eventSM, eventReregister:
		p.portChanged(e.Kind)
	case eventQPFatal:
		p.markFailed(e.Handle)
	}
	if a := p.administration(); a != nil && saEvents[e.Kind] != "" {
		a.Event(saEvents[e.Kind])
	}
	if err := lossOf(p.cfg.Device, e.Kind); err != nil && p.cfg.OnLoss != nil {
		p.cfg.OnLoss(err)
	}
}

// portChanged reads the port before it makes workers request new address handles, whose GID index comes from there.
func (p *Port) portChanged(kind eventKind) {
	if err := p.refreshPort(); err != nil {
		p.log.Error("ib_port", "error", err)
	}
	p.sayState()
	p.ahs.gidGen.Add(1)
	p.rebind()
	p.dropAHs()
	if kind == eventPortUp || kind == eventPKey {
		select {
		case p.kick <- struct{}{}:
		default: // one is pending
		}
	}
	// Ethernet has no subnet manager that could lose memberships; the kernel keeps them while a link is down.
	if !p.portInfo().Ethernet && kind != eventPortDown && kind != eventGID && p.administration() == nil {
		p.memberships.rejoinAll()
	}
}

// sayState logs that the port is not active any more, in another state, or active again.
func (p *Port) sayState() {
	p.stateMu.Lock()
	defer p.stateMu.Unlock()
	now := p.portInfo().State
	if was := cmp.Or(p.stateSaid, stateActive); now == was || now == "" { // it was opened active
		return
	}
	p.stateSaid = now
	if now == stateActive {
		p.log.Info("ib_link_up", "port", p.cfg.name())
		return
	}
	p.log.Warn("ib_link_down", "port", p.cfg.name(), "state", now, "note", whyDown(p.cfg.name(), now))
}

// ErrDeviceGone is what Config.OnLoss is called with, among others.
var ErrDeviceGone = errors.New("start Causeway again when it is back")

// lossOf returns an error for an event that only a new process can recover from.
func lossOf(device string, kind eventKind) error {
	switch kind {
	case eventDeviceGone, eventDeviceFatal:
		return fmt.Errorf("verbs: the RDMA device %s is gone (%s), and this process keeps what is left of it; %w", device, kind, ErrDeviceGone)
	case eventCQError, eventSRQError: // the queue stays in error, whatever is done with the queue pairs that use it
		return fmt.Errorf("verbs: the RDMA device %s has lost a queue (%s), which only a new process can make anew; %w", device, kind, ErrDeviceGone)
	}
	return nil
}
