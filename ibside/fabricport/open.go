// SPDX-License-Identifier: Apache-2.0

package fabricport

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"time"
	"unicode/utf8"

	"causeway/dpdk"
	"causeway/ibside"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// Config says which subnet a Port is on, and which bridge it belongs to.
type Config struct {
	Subnet *fabric.Fabric // the caller's; nil: one of the Port's own, after File
	File   string         // a topology, or the socket of another process's subnet
	Name   string         // of the bridge; its port GUID is made of it
	PKey   ib.PKey        // of proxy QPs; zero: the port's first

	Pool    *dpdk.Mempool // see NewRings; closed after the Port
	Workers int
	Lcores  []uint // of the workers, whose rings are on these' NUMA nodes; nil: anywhere
	Log     *slog.Logger
}

// ringDepth is how many messages may wait between a worker and the HCA: a burst of every size that a demo or a test
// sends, and a tenth of a second of what the software subnet carries.
const ringDepth = 8192

// Open attaches a port to the subnet. On that of another process it attaches again whenever that subnet has ended and
// one is there again.
func Open(c Config) (ibside.OpenPort, error) {
	subnet, owned := c.Subnet, (*fabric.Fabric)(nil)
	switch {
	case subnet == nil && fabric.AtSocket(c.File):
		return follow(&c)
	case subnet == nil:
		topology, err := fabric.Load(c.File)
		if err != nil {
			return nil, err
		}
		if subnet, err = fabric.New(topology); err != nil {
			return nil, err
		}
		owned = subnet
	}
	port, err := subnet.Attach(fabric.PortConfig{Name: c.Name, GUID: guidOf(c.Name)})
	if err != nil {
		if owned != nil {
			err = errors.Join(err, owned.Close())
		}
		return nil, err
	}
	p, err := open(port, "fabric", &c)
	if err != nil {
		if owned != nil {
			err = errors.Join(err, owned.Close())
		}
		return nil, err
	}
	p.owned = owned
	return p, nil
}

// inUseFor is how long the port of an earlier process with the same name may take to leave the subnet.
const inUseFor = 500 * time.Millisecond

// follow opens a port on the subnet of another process.
func follow(c *Config) (ibside.OpenPort, error) {
	port, err := fabric.Follow(c.File, guidOf(c.Name), label(c.Name))
	for end := time.Now().Add(inUseFor); errors.Is(err, fabric.ErrGUIDInUse) && time.Now().Before(end); {
		time.Sleep(inUseFor / 10)
		port, err = fabric.Follow(c.File, guidOf(c.Name), label(c.Name))
	}
	if errors.Is(err, fabric.ErrGUIDInUse) {
		return nil, fmt.Errorf("fabricport: %s: another bridge on this subnet has the name %q, of which the port's GUID %v is made; "+
			"give each bridge a [bridge] name of its own", c.File, c.Name, guidOf(c.Name))
	}
	if err != nil {
		return nil, err
	}
	p, err := open(port, "fabric:"+c.File, c)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// label is as much of a bridge's name as the subnet takes for its list of ports. The GUID is made of the whole.
func label(name string) string {
	for len(name) > fabric.MaxName {
		_, n := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-n]
	}
	return name
}

// open makes a Port of one of the subnet, which is closed on an error.
func open(port fabric.Port, name string, c *Config) (*Port, error) {
	hca := fabric.NewHCA(port)
	rings, err := NewRings(c.Pool, c.Workers, ringDepth, c.Lcores...)
	if err != nil {
		return nil, errors.Join(err, hca.Close())
	}
	p, err := newPort(name, rings, hca, c.PKey, c.Log)
	if err != nil {
		return nil, errors.Join(err, rings.Close(), hca.Close())
	}
	i := hca.Info()
	c.Log.Info("ib_port", "port", name, "gid", i.GID, "lid", i.LID, "mtu", i.MTU.Bytes())
	return p, nil
}

// guidOf returns a port GUID with the local bit set, so that no device has it. It is the same at every start.
func guidOf(name string) ib.GUID {
	h := fnv.New64a()
	h.Write([]byte(name))
	return ib.GUID(h.Sum64()&^(3<<56) | 2<<56)
}

// Close implements ibside.OpenPort. It sends what workers have posted.
func (p *Port) Close() error {
	errs := []error{p.Messenger.Close(), p.administration.Close()}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	errs = append(errs, p.drain(ctx))
	p.stopPumps()
	unread := p.rings.pending() // of receives: the sends have been drained
	errs = append(errs, p.rings.Close())
	p.cm.Close()
	errs = append(errs, p.hca.Close())
	c := p.counters()
	p.log.Info("ib_port_closed", "received", c.Received, "delivered", c.Delivered, "unread", unread, "management", c.Management,
		"drops", map[string]uint64(c.Drops), "sent", c.Sent, "send_drops", map[string]uint64(c.SendDrops))
	if p.owned != nil {
		errs = append(errs, p.owned.Close())
	}
	return errors.Join(errs...)
}

// Lost implements ibside.OpenPort.
func (p *Port) Lost() (sends, receives map[string]uint64) {
	c := p.counters()
	return c.SendDrops, c.Drops
}

var (
	_ ibside.OpenPort     = (*Port)(nil)
	_ ibside.Administered = (*Port)(nil)
	_ ibside.Messenger    = (*Port)(nil)
)
