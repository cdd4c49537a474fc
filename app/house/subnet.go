// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"causeway/ibside/fabric/door"
	"causeway/ibside/ib"
	"causeway/ibside/sa"
	"causeway/ibside/verbs"
	"causeway/lcore/manage"
)

// subnet is subnet administration of the bridge's own: between a door, which asks it for groups and paths, and management,
// which learns from it what the subnet changes afterwards.
//
//	door ── Join, Leave, Path ──▶ registrar ──▶ SA
//	door ◀─ renew ── follow ◀──── registrar       what is granted anew, once the SM has come back
//	         management ◀─ Renewed, Notices
type subnet struct {
	client *sa.Client
	keep   *sa.Registrar
	events chan sa.Event
	log    *slog.Logger
	renew  renewFunc

	ordered [64]sync.Mutex // by MGID: see order
	stop    context.CancelFunc
	ended   sync.WaitGroup
	wake    chan struct{}
	relist  chan struct{} // the subscriptions are new
	notices chan manage.Notice
	doubts  doubts
	aliases aliasTable

	mu      sync.Mutex
	told    []sa.Registration // by the registrar, not yet looked at
	states  map[ib.GID]uint8  // join states of what is joined
	renewed manage.Renewals
}

// renewFunc has a door follow a record that has changed. It reports false when it is no member.
type renewFunc func(ib.MCMemberFields) (manage.Membership, bool, error)

// newSubnet takes over the port.
func newSubnet(port sa.Transport, renew renewFunc, c sa.Config, r sa.RegistrarConfig, log *slog.Logger) *subnet {
	const eventsWaiting = 16
	s := &subnet{
		client: sa.NewClient(port, c), events: make(chan sa.Event, eventsWaiting), log: log, renew: renew,
		wake: make(chan struct{}, 1), relist: make(chan struct{}, 1), notices: make(chan manage.Notice),
		states: map[ib.GID]uint8{}, doubts: doubts{unseated: map[ib.GID]ib.MCMemberFields{}},
	}
	r.Events, r.OnChange = s.events, s.changed
	s.keep = sa.NewRegistrar(s.client, r)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.ended.Go(func() { s.follow(ctx) })
	s.ended.Go(func() { s.listen(ctx) })
	return s
}

// withdrawTimeout bounds the goodbyes to the SA, which may be gone.
const withdrawTimeout = 2 * time.Second

// close withdraws what is registered.
func (s *subnet) close() error {
	s.stop()
	s.ended.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
	defer cancel()
	if err := s.keep.WithdrawAll(ctx); err != nil {
		s.log.Warn("subnet_withdraw", "error", err)
	}
	s.keep.Close()
	c := s.client.Stats()
	s.log.Info("subnet_closed", "requests", c.Requests, "refused", c.Refused, "timeouts", c.Timeouts, "notices", c.Notices)
	return s.client.Close()
}

// order lets what is asked about a group and what the subnet tells of it come one after the other: of two records, the
// later one counts. The caller calls the result in the end.
func (s *subnet) order(mgid ib.GID) (end func()) {
	m := &s.ordered[int(mgid[13]^mgid[14]^mgid[15])%len(s.ordered)]
	m.Lock()
	return m.Unlock
}

// Join implements verbs.Subnet and door.Subnet. An SA without members that only send, but make a group, has full ones instead.
func (s *subnet) Join(ctx context.Context, f ib.MCMemberFields) (ib.MCMemberFields, error) {
	got, err := s.keep.Join(ctx, f)
	if errors.Is(err, sa.RequestInvalid) && f.JoinState == ib.JoinSendOnlyFull {
		f.JoinState = ib.JoinFull
		got, err = s.keep.Join(ctx, f)
	}
	if err != nil {
		return got, err
	}
	s.mu.Lock()
	before := s.states[f.MGID] &^ f.JoinState
	s.states[f.MGID] = f.JoinState
	s.mu.Unlock()
	if before != 0 { // the SA adds up
		if err := s.client.Leave(ctx, f.MGID, ib.GID{}, before); err != nil {
			s.log.Warn("leave_failed", "mgid", f.MGID, "join_state", before, "error", err)
		}
	}
	return got, nil
}

// Leave implements verbs.Subnet and door.Subnet.
func (s *subnet) Leave(ctx context.Context, mgid ib.GID) error {
	s.mu.Lock()
	state := s.states[mgid]
	delete(s.states, mgid)
	s.mu.Unlock()
	err := s.keep.Leave(ctx, mgid, ib.GID{})
	if errors.Is(err, sa.ErrNotRegistered) && state != 0 { // a later join was refused: the SA may remember the first
		err = s.client.Leave(ctx, mgid, ib.GID{}, state)
	}
	if errors.Is(err, sa.RequestInvalid) { // the group has ended, and the membership with it
		return nil
	}
	return err
}

// Path implements verbs.Subnet and door.Subnet.
func (s *subnet) Path(ctx context.Context, dgid ib.GID) (ib.PathFields, error) {
	return s.client.Path(ctx, dgid)
}

// saEvents are those events of a port after which the SA may have forgotten. A GID that comes or goes is none: it may be an
// alias that was just registered.
var saEvents = map[verbs.EventKind]sa.Event{
	verbs.EventReregister: sa.Reregister, verbs.EventSM: sa.SMChange, verbs.EventLID: sa.LIDChange, verbs.EventPKey: sa.Reregister,
	verbs.EventPortUp: sa.PortActive, verbs.EventPortDown: sa.PortDown,
}

// event tells of an event of the port. It does not block: of many, the first make the registrar begin anew already.
func (s *subnet) event(kind verbs.EventKind) {
	if e, ok := saEvents[kind]; ok {
		select {
		case s.events <- e:
		default:
		}
	}
}

// Renewed implements manage.Renewer.
func (s *subnet) Renewed() manage.Renewals {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.renewed
	s.renewed = manage.Renewals{}
	return r
}

// pathsMayDiffer has management ask for all paths again.
func (s *subnet) pathsMayDiffer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewed.Paths = true
}

// carrier is an IB door that joins and finds paths by a subnet.
type carrier interface {
	ibDoor
	losing
}

// subnetDoor is an IB door with subnet administration of the bridge's own.
type subnetDoor struct {
	carrier
	*subnet
}

// Join implements manage.IBDoor.
func (d *subnetDoor) Join(ctx context.Context, j manage.Join) (manage.Membership, error) {
	defer d.order(j.MGID)()
	return d.carrier.Join(ctx, j)
}

// Leave implements manage.IBDoor.
func (d *subnetDoor) Leave(ctx context.Context, mgid ib.GID) error {
	defer d.order(mgid)()
	return d.carrier.Leave(ctx, mgid)
}

// Path implements manage.IBDoor.
func (d *subnetDoor) Path(ctx context.Context, dgid ib.GID) (ib.LID, ib.SL, error) {
	return d.carrier.Path(ctx, dgid)
}

func (d *subnetDoor) close() error { return errors.Join(d.subnet.close(), d.carrier.close()) }

// hangSubnet adds subnet administration to a door on an InfiniBand link layer, if the machine lets it.
func hangSubnet(d *verbsDoor) (ibDoor, *subnet) {
	p := d.Port()
	if p.Ethernet {
		return d, nil
	}
	port, err := sa.OpenUmad(p.Device, p.Num)
	if err != nil {
		d.log.Warn("no_subnet_client", "error", err, "note", "rdma_cm joins groups; nodes need their lid in the configuration, and nothing is learnt from the subnet")
		return d, nil
	}
	s := newSubnet(port, func(f ib.MCMemberFields) (manage.Membership, bool, error) {
		m, there, err := d.Renew(f)
		return membershipOf(m), there, err
	}, sa.Config{}, sa.RegistrarConfig{}, d.log)
	d.UseSubnet(s)
	d.log.Info("subnet_client", "port", fmt.Sprintf("%s:%d", p.Device, p.Num))
	return &subnetDoor{d, s}, s
}

// membershipOf is a membership as management sees it.
func membershipOf(m verbs.Membership) manage.Membership {
	return manage.Membership{MLID: m.MLID, SL: m.SL, QKey: m.QKey, HopLimit: m.HopLimit, MTU: m.MTU}
}

var (
	_ manage.Renewer  = (*subnetDoor)(nil)
	_ manage.Aliaser  = (*subnetDoor)(nil)
	_ manage.Notifier = (*subnetDoor)(nil)
	_ verbs.Subnet    = (*subnet)(nil)
	_ door.Subnet     = (*subnet)(nil)
)
