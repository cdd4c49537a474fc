// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"slices"
	"time"
	"unsafe"

	"causeway/config"
	"causeway/dpdk"
	"causeway/ibside/fabric"
	"causeway/ibside/fabric/door"
	"causeway/ibside/ib"
	"causeway/ibside/sa"
	"causeway/lcore"
	"causeway/lcore/manage"
)

// doorPointer is a worker's struct ib_door.
type doorPointer = unsafe.Pointer

// fabricDoor is the embedded door: a software subnet, an HCA on it, and the rings to the workers.
type fabricDoor struct {
	*door.Bridge
	owned *fabric.Fabric // nil: the subnet is somebody else's
	hca   *fabric.HCA
	cm    *fabric.CM
	rings *door.Door
	pkey  ib.PKey
	log   *slog.Logger
}

// ringDepth is how many messages wait between a worker and the HCA: a burst of every size a demo or a test
// sends, and a tenth of a second of what the software subnet carries.
const ringDepth = 8192

// hangFabric builds the subnet that [ib] port names.
// With a subnet of the caller's it takes that one, and leaves it to him.
func hangFabric(cfg *config.Config, pool *dpdk.Mempool, subnet *fabric.Fabric, log *slog.Logger) (ibDoor, error) {
	d := &fabricDoor{pkey: cfg.IB.PKey, log: log}
	if subnet == nil {
		topology, err := fabric.Load(cfg.IB.Port.File)
		if err != nil {
			return nil, err
		}
		if subnet, err = fabric.New(topology); err != nil {
			return nil, err
		}
		d.owned = subnet
	}
	port, err := subnet.Attach(fabric.PortConfig{Name: cfg.Name, GUID: bridgeGUID(cfg.Name)})
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	d.hca = fabric.NewHCA(port)
	d.cm = fabric.NewCM(d.hca, fabric.CMConfig{})
	if d.rings, err = door.New(pool, len(cfg.Workers.LCores), ringDepth); err != nil {
		return nil, errors.Join(err, d.close())
	}
	if d.Bridge, err = door.NewBridge(d.rings, d.hca, door.BridgeConfig{PKey: cfg.IB.PKey}); err != nil {
		return nil, errors.Join(err, d.close())
	}
	info := d.Port()
	log.Info("ib_port", "port", "fabric", "gid", info.GID, "lid", info.LID, "mtu", info.MTU.Bytes())
	return administered(d), nil
}

// administered adds to the door what asks the subnet's administrator: the client that a device's port has, too.
func administered(d *fabricDoor) *subnetDoor {
	s := newSubnet(fabric.NewMADPort(d.hca, ib.ClassSA), func(f ib.MCMemberFields) (manage.Membership, bool, error) {
		m, there, err := d.Renew(f)
		return fabricMembership(m), there, err
	}, sa.Config{}, sa.RegistrarConfig{}, d.log)
	d.UseSubnet(s)
	return &subnetDoor{d, s}
}

// bridgeGUID is a port GUID with the local bit set, so that it is nobody's, and the same at every start.
func bridgeGUID(name string) ib.GUID {
	h := fnv.New64a()
	h.Write([]byte(name))
	return ib.GUID(h.Sum64()&^(3<<56) | 2<<56)
}

// close takes down what has been built, in any state.
func (d *fabricDoor) close() error {
	var errs []error
	if d.Bridge != nil {
		drain, cancel := context.WithTimeout(context.Background(), time.Second)
		errs = append(errs, d.Drain(drain))
		cancel()
		d.Bridge.Close()
	}
	unread := 0
	if d.rings != nil {
		unread = d.rings.Pending() // the sends have been drained
		errs = append(errs, d.rings.Close())
	}
	if d.hca != nil {
		d.cm.Close()
		errs = append(errs, d.hca.Close())
	}
	if d.Bridge != nil {
		d.logFinal(unread)
	}
	if d.owned != nil {
		errs = append(errs, d.owned.Close())
	}
	return errors.Join(errs...)
}

// logFinal says what became of the messages that came to the HCA: what it or the door drops, no worker ever sees, nor
// what the workers left unread when they stopped.
func (d *fabricDoor) logFinal(unread int) {
	c := d.Counters()
	d.log.Info("ib_port_closed", "received", c.Received, "delivered", c.Delivered, "unread", unread, "management", c.Management,
		"drops", map[string]uint64(c.Drops), "sent", c.Sent, "send_drops", map[string]uint64(c.SendDrops))
}

// lost implements losing.
func (d *fabricDoor) lost() [2]map[string]uint64 {
	c := d.Counters()
	return [2]map[string]uint64{lcore.RoCEToIB: c.SendDrops, lcore.IBToRoCE: c.Drops}
}

func (d *fabricDoor) portInfo() ibPort {
	info := d.Port()
	index := max(slices.Index(info.PKeys, d.pkey), 0) // NewBridge has made sure that it is there
	return ibPort{mtu: info.MTU, pkeyIndex: uint16(index)}
}

func (d *fabricDoor) worker(i int) doorPointer { return d.rings.Pointer(i) }

// Join implements manage.IBDoor. A bridge that carries a group to IB sends as its stand-ins, so a join to
// send is a join of the port.
func (d *fabricDoor) Join(ctx context.Context, j manage.Join) (manage.Membership, error) {
	join := d.Bridge.Join
	if j.Guest {
		join = d.JoinAsGuest
	}
	m, err := join(ctx, j.MGID, j.QKey, j.PKey, j.Worker, j.Receive)
	return fabricMembership(m), err
}

// fabricMembership is a membership as management sees it.
func fabricMembership(m door.Membership) manage.Membership {
	return manage.Membership{MLID: m.MLID, SL: m.SL, QKey: m.QKey, HopLimit: m.HopLimit, MTU: m.MTU}
}

// Own implements manage.IBDoor: a port of the software subnet has one GID.
func (d *fabricDoor) Own() manage.Own {
	info := d.Port()
	return manage.Own{LID: info.LID, GIDs: []ib.GID{info.GID}, Sources: []manage.Source{{GID: info.GID}}}
}

// Path implements manage.IBDoor.
func (d *fabricDoor) Path(ctx context.Context, dgid ib.GID) (ib.LID, ib.SL, error) {
	lid, sl, _, err := d.Bridge.Path(ctx, dgid)
	return lid, sl, err
}
