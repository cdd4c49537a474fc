// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"errors"
	"fmt"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/ibside/messages"
	"causeway/ibside/multicast"
	"causeway/ibside/sa"
)

// administration is subnet administration as the Port uses it: sa.Administration. It keeps the memberships that it has
// joined: it joins again by itself when the subnet manager has lost them.
type administration interface {
	multicast.Subnet
	Path(ctx context.Context, dgid ib.GID, pkey ib.PKey) (ibside.Path, error)
	Event(sa.Event)
	Close() error
}

// administeredPort is a Port with subnet administration of its own. Messages of bridges take the same device.
type administeredPort struct {
	*Port
	ibside.Administered
	*messages.Messenger
}

// Close implements ibside.OpenPort.
func (p *administeredPort) Close() error { return errors.Join(p.Messenger.Close(), p.Port.Close()) }

// administer starts subnet administration, where the link layer is InfiniBand and the machine permits it. It comes
// before the first join.
func (p *Port) administer() ibside.OpenPort {
	info := p.portInfo()
	if info.Ethernet {
		return p
	}
	umad, err := sa.OpenUmad(info.Device, info.Num)
	if err != nil {
		p.log.Warn("no_subnet_client", "error", err, "note",
			"rdma_cm joins groups; nodes need their lid in the configuration, and nothing is learned from the subnet")
		return p
	}
	a := sa.NewAdministration(sa.NewClient(umad, sa.Config{}), p.groups.Renew, sa.RegistrarConfig{Kept: p.anchors.holds}, p.log)
	p.useAdministration(a)
	p.log.Info("subnet_client", "port", p.cfg.name())
	return &administeredPort{p, a, messages.New(messages.Config{
		Open: func() (messages.Transport, error) { return openMessages(&info) }, Path: a.Path, News: a.Added,
	})}
}

// openMessages returns no transport with an error: one without a value would be a value of its interface.
func openMessages(i *PortInfo) (messages.Transport, error) {
	umad, err := sa.OpenMessages(i.Device, i.Num)
	if err != nil {
		return nil, err
	}
	return umad, nil
}

func (p *Port) useAdministration(a administration) {
	p.adminMu.Lock()
	defer p.adminMu.Unlock()
	p.admin = a
}

// administration returns the port's subnet administration, or nil: then rdma_cm joins.
func (p *Port) administration() administration {
	p.adminMu.RLock()
	defer p.adminMu.RUnlock()
	return p.admin
}

// joinCounter counts joins that fail.
type joinCounter struct {
	administration
	port *Port
}

func (c joinCounter) Join(ctx context.Context, f ib.MCMemberFields) (ib.MCMemberFields, error) {
	got, err := c.administration.Join(ctx, f)
	if err != nil {
		c.port.counts.count(func(c *counters) { c.JoinErrors++ })
		err = fmt.Errorf("verbs: join %v on %s: %w", f.MGID, c.port.cfg.name(), err)
	}
	return got, err
}

// saEvents are those events of a port after which the SA may have lost registrations. A GID that comes or goes is not
// one of them: it may be an alias that was just registered.
var saEvents = map[eventKind]sa.Event{
	eventReregister: sa.Reregister, eventSM: sa.SMChange, eventLID: sa.LIDChange, eventPKey: sa.Reregister,
	eventPortUp: sa.PortActive, eventPortDown: sa.PortDown,
}

// Path implements ibside.Port. On Ethernet there is no LID, and the address handle finds the way.
func (p *Port) Path(ctx context.Context, dgid ib.GID, pkey ib.PKey) (ibside.Path, error) {
	info := p.portInfo()
	if info.Ethernet {
		return ibside.Path{}, nil
	}
	a := p.administration()
	if a == nil {
		return ibside.Path{}, fmt.Errorf("verbs: path to %v: this port cannot ask the subnet administrator; give the host its lid in the configuration", dgid)
	}
	path, err := a.Path(ctx, dgid, pkey)
	if err != nil {
		return ibside.Path{}, fmt.Errorf("verbs: path to %v: %w", dgid, err)
	}
	path.MTU, path.Rate, path.GRH = min(path.MTU, info.MTU), path.Rate.Static(info.Mbps), path.GRH || info.GRH
	return path, nil
}

var (
	_ ibside.OpenPort     = (*administeredPort)(nil)
	_ ibside.Administered = (*administeredPort)(nil)
	_ ibside.Messenger    = (*administeredPort)(nil)
)
