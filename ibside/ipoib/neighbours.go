// SPDX-License-Identifier: Apache-2.0

package ipoib

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// Config says which interface it is.
type Config struct {
	Interface string          // such as "ib0"; "": that of the port
	Port      func() []ib.GID // all GIDs of the port at the moment
	PKey      ib.PKey         // the partition
	Log       *slog.Logger
}

// Neighbours are the neighbours of an IPoIB interface, which may come, go and be made again. Methods may be called from
// any goroutine.
type Neighbours struct {
	cfg     Config
	gidOf   func(net.HardwareAddr) (ib.GID, bool)
	stop    context.CancelFunc
	ended   sync.WaitGroup
	changes chan ibside.AddressChange

	mu      sync.Mutex
	link    *net.Interface // nil: there is none
	kernel  *netlink.Handle
	subnets []netip.Prefix
	gids    map[netip.Addr]ib.GID
	addrs   map[ib.GID][]netip.Addr
}

// lookEvery is how often the interface and its addresses are read again.
const lookEvery = time.Second

// Follow begins to follow the kernel's table, until Close. The reader of Changes must not fall behind for long: the
// kernel drops what it has no room for, and then the whole table is read again.
func Follow(c Config) *Neighbours { return follow(c, gidOf) }

func follow(c Config, gidOf func(net.HardwareAddr) (ib.GID, bool)) *Neighbours {
	ctx, stop := context.WithCancel(context.Background())
	n := &Neighbours{
		cfg: c, gidOf: gidOf, stop: stop, changes: make(chan ibside.AddressChange, 64), gids: map[netip.Addr]ib.GID{}, addrs: map[ib.GID][]netip.Addr{},
	}
	n.ended.Go(func() { n.run(ctx) })
	return n
}

// Close ends it, and closes Changes.
func (n *Neighbours) Close() error {
	n.stop()
	n.ended.Wait()
	return nil
}

// Changes returns the same channel each time. The first are the entries that are there.
func (n *Neighbours) Changes() <-chan ibside.AddressChange { return n.changes }

// Subnets returns the subnets of the interface's addresses; nil when there is no interface.
func (n *Neighbours) Subnets() []netip.Prefix {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.subnets)
}

// GID returns the GID that has an address, as the kernel knows it.
func (n *Neighbours) GID(ip netip.Addr) (ib.GID, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	gid, ok := n.gids[ip]
	return gid, ok
}

// Addrs returns the addresses that a GID has, as the kernel knows them.
func (n *Neighbours) Addrs(gid ib.GID) []netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.addrs[gid])
}

// Ask has the kernel ask who has an address, or whether the one still has it that it knows. A change tells the answer,
// at most some seconds later; not if the kernel has had one just now.
func (n *Neighbours) Ask(ip netip.Addr) error {
	return n.set("ask for", ip, &netlink.Neigh{Flags: netlink.NTF_USE})
}

// Confirm has the kernel ask the one that has an address now, at once. A change tells whether it answers.
func (n *Neighbours) Confirm(ip netip.Addr) error {
	if _, known := n.GID(ip); !known {
		return n.Ask(ip)
	}
	return n.set("confirm", ip, &netlink.Neigh{State: netlink.NUD_PROBE})
}

func (n *Neighbours) set(doing string, ip netip.Addr, x *netlink.Neigh) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.link == nil {
		return fmt.Errorf("ipoib: %s %v: there is no IPoIB interface", doing, ip)
	}
	x.LinkIndex, x.IP = n.link.Index, net.IP(ip.AsSlice())
	if err := n.kernel.NeighSet(x); err != nil {
		return fmt.Errorf("ipoib: %s %v on %s: %w; the bridge needs CAP_NET_ADMIN, and room for neighbours (net.ipv4.neigh.default.gc_thresh3)",
			doing, ip, n.link.Name, err)
	}
	return nil
}

// run follows the interface, whenever there is one.
func (n *Neighbours) run(ctx context.Context) {
	defer close(n.changes)
	said := ""
	for ctx.Err() == nil {
		err := n.follow(ctx)
		if err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			n.cfg.Log.Warn("ipoib_missing", "error", err, "note", "no node is learned meanwhile")
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		}
	}
}

// follow follows one interface until it is gone, or ctx ends. Sockets are of the network namespace that the process was
// started in.
func (n *Neighbours) follow(ctx context.Context) error {
	link, err := n.cfg.find()
	if err != nil {
		return err
	}
	kernel, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("ipoib: netlink: %w", err)
	}
	defer kernel.Close()
	updates, done := make(chan netlink.NeighUpdate), make(chan struct{})
	failed := make(chan error, 1)
	err = netlink.NeighSubscribeWithOptions(updates, done, netlink.NeighSubscribeOptions{ListExisting: true, ErrorCallback: func(err error) {
		select {
		case failed <- err:
		default:
		}
	}})
	if err != nil {
		return fmt.Errorf("ipoib: the kernel's neighbours: %w", err)
	}
	defer func() { // the subscription ends with its channel
		close(done)
		for range updates {
		}
	}()
	n.attach(link, kernel)
	defer n.detach()
	n.cfg.Log.Info("ipoib_followed", "interface", link.Name, "subnets", subnetsOf(link))
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case u, open := <-updates:
			if !open {
				return fmt.Errorf("ipoib: the kernel's neighbours of %s: %w", link.Name, errors.Join(errLost, received(failed)))
			}
			if !n.update(ctx, link, &u) {
				return nil
			}
		case <-look.C:
			if err := n.look(link); err != nil {
				return err
			}
		}
	}
}

var errLost = errors.New("the subscription ended")

func received(failed <-chan error) error {
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func (n *Neighbours) attach(link *net.Interface, kernel *netlink.Handle) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.link, n.kernel, n.subnets = link, kernel, subnetsOf(link)
}

// detach drops all that is known: another interface has other neighbours.
func (n *Neighbours) detach() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.link, n.kernel, n.subnets = nil, nil, nil
	clear(n.gids)
	clear(n.addrs)
}

// look reads whether the interface is still the one that is to be followed, and its addresses.
func (n *Neighbours) look(link *net.Interface) error {
	now, err := n.cfg.find()
	if err != nil {
		return err
	}
	if now.Index != link.Index {
		return fmt.Errorf("ipoib: %s is another interface now", now.Name)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.subnets = subnetsOf(now)
	return nil
}
