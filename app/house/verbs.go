// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"causeway/config"
	"causeway/dpdk"
	"causeway/ibside/ib"
	"causeway/ibside/verbs"
	"causeway/lcore"
	"causeway/lcore/manage"
)

// verbsDoor is the door on hardware.
type verbsDoor struct {
	*verbs.Door
	cm  *verbsServices
	log *slog.Logger
}

// ErrDeviceGone is what Run fails with, among others, when the RDMA device is lost, or what the bridge has made of it. Only a
// new process can have it back.
var ErrDeviceGone = errors.New("start Causeway again when it is back")

// lossOf returns as an error what ends the bridge.
func lossOf(device string, kind verbs.EventKind) error {
	switch kind {
	case verbs.EventDeviceGone, verbs.EventDeviceFatal:
		return fmt.Errorf("house: the RDMA device %s is gone (%s), and this process keeps what is left of it; %w", device, kind, ErrDeviceGone)
	case verbs.EventCQError, verbs.EventSRQError: // the queue stays so, whatever becomes of the queue pairs that use it
		return fmt.Errorf("house: the RDMA device %s has lost a queue (%s), which only a new process can make anew; %w", device, kind, ErrDeviceGone)
	case verbs.EventPKeyLost:
		return fmt.Errorf("house: the RDMA device %s has not [ib] pkey at its old place any more (%s), and queue pairs name it by its place; %w", device, kind, ErrDeviceGone)
	}
	return nil
}

// hangVerbs opens the port that [ib] port names. fail ends the bridge, for what only a new process can mend.
func hangVerbs(cfg *config.Config, pool *dpdk.Mempool, fail func(error), log *slog.Logger) (ibDoor, error) {
	var subnet atomic.Pointer[subnet]
	if _, err := eachPort(servicePorts(cfg)); err != nil {
		return nil, fmt.Errorf("house: %w", err)
	}
	d, err := verbs.Open(verbs.Config{
		Device: cfg.IB.Port.Device, Port: int(cfg.IB.Port.Num), PKey: cfg.IB.PKey, GID: cfg.IB.GID,
		Pool: pool, Workers: len(cfg.Workers.LCores), StandIns: cfg.Workers.Standins + cfg.Workers.Groups,
		SendDepth: cfg.Workers.StandinDepth, Log: log,
		OnEvent: func(e verbs.Event) {
			if err := lossOf(cfg.IB.Port.Device, e.Kind); err != nil {
				fail(err)
			}
			if s := subnet.Load(); s != nil {
				s.event(e.Kind)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("house: [ib] port \"%s:%d\": %w", cfg.IB.Port.Device, cfg.IB.Port.Num, err)
	}
	p := d.Port()
	log.Info("ib_port", "port", fmt.Sprintf("%s:%d", p.Device, p.Num), "gid", p.GID, "lid", p.LID, "mtu", p.MTU.Bytes(),
		"ethernet", p.Ethernet, "active", p.Active)
	h := &verbsDoor{Door: d, log: log}
	h.cm = newVerbsServices(h)
	hung, s := hangSubnet(h)
	subnet.Store(s)
	if s == nil && cfg.IB.AliasGIDs {
		log.Warn("no_aliases", "note", "[ib] alias_gids takes an InfiniBand port and access to its subnet administrator")
	}
	return hung, nil
}

func (d *verbsDoor) portInfo() ibPort {
	p := d.Port()
	return ibPort{mtu: p.MTU, pkeyIndex: p.PKeyIndex, ethernet: p.Ethernet}
}

func (d *verbsDoor) worker(i int) doorPointer { return d.Pointer(i) }

// close tells what the door lost: nobody else counts that.
func (d *verbsDoor) close() error {
	err := d.Close()
	c := d.Counters()
	d.log.Info("ib_port_closed", "posted", c.Posted, "sent", c.Sent, "send_drops", c.SendDrops, "received", c.Received,
		"delivered", c.Delivered, "receive_drops", c.Drops, "recovered", c.Recovered)
	return err
}

// Join implements manage.IBDoor: a stand-in sends as the port, so a join to send is the port's.
func (d *verbsDoor) Join(ctx context.Context, j manage.Join) (manage.Membership, error) {
	var m verbs.Membership
	var err error
	if j.Guest {
		m, err = d.JoinAsGuest(ctx, j.MGID, j.QKey, j.PKey, j.Worker, j.Receive)
	} else {
		m, err = d.Door.Join(ctx, j.MGID, j.QKey, j.PKey, j.Worker, true, j.Receive)
	}
	if err != nil {
		return manage.Membership{}, err
	}
	return membershipOf(m), nil
}

// Own implements manage.IBDoor.
func (d *verbsDoor) Own() manage.Own {
	o := d.Door.Own()
	out := manage.Own{LID: o.LID, GIDs: o.GIDs, Beyond: o.Beyond}
	for _, s := range o.Sources {
		out.Sources = append(out.Sources, manage.Source(s))
	}
	return out
}

// Path implements manage.IBDoor.
func (d *verbsDoor) Path(ctx context.Context, dgid ib.GID) (ib.LID, ib.SL, error) {
	lid, sl, _, err := d.Door.Path(ctx, dgid)
	return lid, sl, err
}

// lost returns what died in the door, after the worker had counted it as sent, or before it saw it.
func (d *verbsDoor) lost() [2]map[string]uint64 {
	c := d.Counters()
	return [2]map[string]uint64{lcore.RoCEToIB: c.SendDrops, lcore.IBToRoCE: c.Drops}
}
