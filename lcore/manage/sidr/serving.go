// SPDX-License-Identifier: Apache-2.0

package sidr

import (
	"context"
	"slices"

	"causeway/ibside"
)

// serving is the list of ports that the IB port should serve. Only the last list counts.
type serving struct {
	n       int                // counts lists
	stop    context.CancelFunc // of the attempts
	waiting bool               // the port has not taken the list yet
	active  bool               // the port hands over requests
	one     chan struct{}      // a lock: filled while a list is passed to the port, one at a time
}

// SetPorts changes the served ports. Requests under way go on.
func (s *SIDR) SetPorts(ports []ibside.PortRange) {
	if slices.Equal(ports, s.cfg.Ports) {
		return
	}
	s.cfg.Ports = slices.Clone(ports)
	s.serve()
}

// serve makes the IB port serve the ports, and tries until it can or there is another list.
func (s *SIDR) serve() {
	port, v := s.cfg.Port, s.serving
	if port == nil {
		return
	}
	if v.stop != nil {
		v.stop()
	}
	running := s.Ask.Running()
	ctx, stop := context.WithCancel(running)
	v.waiting, v.stop = true, stop
	v.n++
	n, ports := v.n, s.cfg.Ports
	take := func(r ibside.ServiceRequest) { s.questions.handle(running, r) }
	if len(ports) == 0 {
		take = nil
	}
	s.Ask.Ask(ctx, func(context.Context) error {
		v.one <- struct{}{}
		defer func() { <-v.one }()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := port.Serve(ports, take); err != nil {
			s.Log.Warn("services_not_served", "ports", ports, "error", err)
			return err
		}
		if !s.Ask.Later(running, func() { s.served(n) }) {
			s.stopServing()
		}
		return nil
	})
}

// served notes that the port serves a list.
func (s *SIDR) served(n int) {
	v := s.serving
	if n != v.n {
		return
	}
	v.active, v.waiting = len(s.cfg.Ports) > 0, false
	v.stop()
	s.Changed()
}

func (s *SIDR) stopServing() {
	if err := s.cfg.Port.Serve(nil, nil); err != nil {
		s.Log.Warn("services_not_ended", "error", err)
	}
}

// End takes no more requests, and waits for those that are being answered. Nothing else may be under way.
func (s *SIDR) End() {
	if s.serving.active {
		s.stopServing()
	}
	s.questions.wait()
}
