// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"slices"
)

// A serveRound is one list of ports that the door is asked to serve. Only the last one counts.
type serveRound struct {
	n       int
	stop    context.CancelFunc // of the asking
	waiting bool
	one     chan struct{} // holds a token while the door is told: one list at a time
}

// setPorts has other ports served. Requests under way go on.
func (l *Loop) setPorts(ports []PortRange) {
	if slices.Equal(ports, l.cfg.Service.Ports) {
		return
	}
	l.cfg.Service.Ports = slices.Clone(ports)
	l.serve(l.running)
}

// serve has the door serve the ports, again and again until it can or there are others.
func (l *Loop) serve(running context.Context) {
	door, round := l.cfg.Service.Door, &l.sidr.serve
	if door == nil {
		return
	}
	if round.stop != nil {
		round.stop()
	}
	if !round.waiting {
		round.waiting = true
		l.waiting++
	}
	ctx, stop := context.WithCancel(running)
	round.stop = stop
	round.n++
	n, ports := round.n, l.cfg.Service.Ports
	take := func(r ServiceRequest) { l.handleRequest(running, r) }
	if len(ports) == 0 {
		take = nil
	}
	l.ask(ctx, func(context.Context) error {
		round.one <- struct{}{}
		defer func() { <-round.one }()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := door.Serve(ports, take); err != nil {
			l.log.Warn("services_not_served", "ports", ports, "error", err)
			return err
		}
		if !l.work.Later(running, func() { l.served(n) }) {
			l.stopServing()
		}
		return nil
	})
}

// served notes that the door serves the ports of a round.
func (l *Loop) served(n int) {
	if n != l.sidr.serve.n {
		return
	}
	l.sidr.serving, l.sidr.serve.waiting = len(l.cfg.Service.Ports) > 0, false
	l.sidr.serve.stop()
	l.waiting--
	l.publish()
}
