// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"causeway/config"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/verbs"
	"causeway/lcore/manage"
)

// fabricServices is the software subnet's side of connection set-up.
type fabricServices struct {
	cm   *fabric.CM
	path func(context.Context, ib.GID) (ib.LID, ib.SL, error)
}

// Serve implements manage.Services.
func (s fabricServices) Serve(ports []manage.PortRange, h func(manage.ServiceRequest)) error {
	var served []fabric.CMPorts
	for _, p := range ports {
		served = append(served, fabric.CMPorts(p))
	}
	if h == nil {
		return s.cm.Serve(nil, nil)
	}
	return s.cm.Serve(served, func(r *fabric.CMRequest) {
		h(manage.ServiceRequest{
			From: r.From, To: r.To, SrcPort: r.FromPort, Port: r.Port, PKey: r.PKey, Private: r.Private,
			Answer: func(a manage.ServiceAnswer) error { return r.Accept(a.QPN, a.QKey, a.Private) },
			Refuse: r.Refuse,
		})
	})
}

// Connect implements manage.Services.
func (s fabricServices) Connect(ctx context.Context, c manage.ServiceConnect) (manage.ServiceAnswer, error) {
	lid, sl, err := s.path(ctx, c.ToGID)
	if err != nil {
		return manage.ServiceAnswer{}, err
	}
	a, err := s.cm.Connect(ctx, fabric.CMConnect{
		Route: fabric.MADAddress{LID: lid, SL: sl}, From: c.From, To: c.To, FromPort: c.SrcPort, Port: c.Port, PKey: c.PKey,
		Private: c.Private,
	})
	var refused *fabric.CMRefusedError
	switch {
	case errors.As(err, &refused):
		return manage.ServiceAnswer{}, &manage.Refused{Status: refused.Status, Private: refused.Private}
	case errors.Is(err, fabric.ErrCMTimeout):
		return manage.ServiceAnswer{}, inTime(err)
	}
	return manage.ServiceAnswer(a), err
}

// inTime says of an error what management asks for: that there was no answer in time.
func inTime(err error) error { return fmt.Errorf("%w: %w", err, context.DeadlineExceeded) }

// maxListeners bounds the services of the verbs door. rdma_cm listens on one port at a time, and each takes memory of
// the kernel's, and a place among the ports of this machine.
const maxListeners = 1024

// A cmDoor is what verbsServices needs of a verbs.Door.
type cmDoor interface {
	listen(port uint16, h func(verbs.Request)) (closer func(), err error)
	Connect(context.Context, verbs.ConnectRequest) (verbs.Connection, error)
	Port() verbs.PortInfo
}

// verbsServices is connection set-up by rdma_cm.
type verbsServices struct {
	door cmDoor

	mu        sync.Mutex
	handler   func(manage.ServiceRequest)
	listeners map[uint16]func() // by port; they close
}

func newVerbsServices(d cmDoor) *verbsServices {
	return &verbsServices{door: d, listeners: map[uint16]func(){}}
}

// listen implements cmDoor.
func (d *verbsDoor) listen(port uint16, h func(verbs.Request)) (func(), error) {
	l, err := d.Listen(port, h)
	if err != nil {
		return nil, err
	}
	return l.Close, nil
}

// Serve implements manage.Services. Ports that others of this machine have are named in the error; the rest is served,
// and the next call tries those again.
func (s *verbsServices) Serve(ports []manage.PortRange, h func(manage.ServiceRequest)) error {
	wanted, err := eachPort(ports)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler = h
	for port, closeIt := range s.listeners {
		if _, keep := slices.BinarySearch(wanted, port); !keep {
			closeIt()
			delete(s.listeners, port)
		}
	}
	var failed error
	lost := 0
	for _, port := range wanted {
		if s.listeners[port] != nil {
			continue
		}
		closer, err := s.door.listen(port, s.take)
		if err != nil {
			failed = errors.Join(err, failed)
			if lost++; lost == 3 { // more would say the same
				break
			}
			continue
		}
		s.listeners[port] = closer
	}
	return failed
}

// servicePorts are the configured services.
func servicePorts(cfg *config.Config) (ports []manage.PortRange) {
	for _, s := range cfg.Services {
		ports = append(ports, manage.PortRange(s))
	}
	return ports
}

// eachPort lists the ports of ranges in order, once each.
func eachPort(ranges []manage.PortRange) ([]uint16, error) {
	var all []uint16
	for _, r := range ranges {
		if r.First == 0 || r.First > r.Last {
			return nil, fmt.Errorf("[[service]]: ports %d to %d: use ports from 1 to 65535, the lower one first", r.First, r.Last)
		}
		for p := int(r.First); p <= int(r.Last); p++ {
			all = append(all, uint16(p))
		}
		slices.Sort(all)
		all = slices.Compact(all)
	}
	if len(all) > maxListeners {
		return nil, fmt.Errorf("[[service]]: %d ports, but rdma_cm needs a listener for each; use %d ports at most", len(all), maxListeners)
	}
	return all, nil
}

// take passes a request on.
func (s *verbsServices) take(r verbs.Request) {
	s.mu.Lock()
	h := s.handler
	s.mu.Unlock()
	if h == nil {
		_ = r.Reject("no longer served", nil) // its error: it has gone meanwhile
		return
	}
	h(manage.ServiceRequest{
		From: r.Peer.Addr().Unmap().WithZone(""), To: r.Local.Unmap().WithZone(""), SrcPort: r.Peer.Port(), Port: r.Port,
		PKey: r.PKey, Private: r.Private,
		Answer: func(a manage.ServiceAnswer) error { return r.Accept(a.QPN, a.QKey, a.Private) },
		Refuse: func(status uint8, private []byte) error {
			return r.Reject(fmt.Sprintf("SIDR status %d", status), private)
		},
	})
}

// Connect implements manage.Services. It asks in the name of who wants to know where the port has that address, else in
// its own.
func (s *verbsServices) Connect(ctx context.Context, c manage.ServiceConnect) (manage.ServiceAnswer, error) {
	r := verbs.ConnectRequest{From: s.own(c.From), To: c.To, Port: c.Port, Private: c.Private}
	got, err := s.door.Connect(ctx, r)
	var e *verbs.ConnectError
	if errors.As(err, &e) && e.Cause == verbs.ConnectNoAddress && r.From.IsValid() { // it has gone just now, or is another device's
		r.From = netip.Addr{}
		got, err = s.door.Connect(ctx, r)
	}
	switch {
	case err == nil:
		return manage.ServiceAnswer{QPN: got.QPN, QKey: got.QKey, Private: got.Private}, nil
	case errors.As(err, &e) && e.Cause == verbs.ConnectRejected:
		return manage.ServiceAnswer{}, &manage.Refused{Status: e.Status, Private: e.Private}
	case e != nil && e.Cause == verbs.ConnectTimedOut:
		return manage.ServiceAnswer{}, inTime(err)
	}
	return manage.ServiceAnswer{}, err
}

// own returns an address to ask from, or the zero Addr. On Ethernet the port's addresses are its GIDs; on InfiniBand
// they are IPoIB's, and rdma_cm knows which.
func (s *verbsServices) own(from netip.Addr) netip.Addr {
	p := s.door.Port()
	gid := ib.GIDFromAddr(from)
	if p.Ethernet && !slices.ContainsFunc(p.GIDs, func(g verbs.GIDEntry) bool { return g.GID == gid }) {
		return netip.Addr{}
	}
	return from
}

// serviceCounts are what a door counts of connection set-up, by what became of it.
type serviceCounts struct {
	requests map[string]uint64 // of nodes
	connects map[string]uint64 // to nodes
}

// services returns how the door sets up connections.
func (d *fabricDoor) services() manage.Services {
	return fabricServices{d.cm, d.Path}
}

func (d *fabricDoor) serviceCounts() serviceCounts {
	c := d.cm.Counters()
	return serviceCounts{c.Answers, c.Connects}
}

func (d *verbsDoor) services() manage.Services { return d.cm }

func (d *verbsDoor) serviceCounts() serviceCounts {
	c := d.Counters()
	return serviceCounts{c.Answers, c.Connects}
}
