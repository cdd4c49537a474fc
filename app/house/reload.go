// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"causeway/config"
	"causeway/ibside/ib"
)

// force is the configuration in force, and how it becomes another.
//
//	new file ─▶ Diff ─▶ possible? ─▶ one turn of the management loop: checked, then workers' policy, nodes, hosts, ranges,
//	                      │           groups, services
//	                      └─ no: an error that names every key, and nothing is done
//
// What can fail is asked before anything is done. What takes the subnet's time goes on after Reload has returned, and is tried
// again until it succeeds: joins, paths, the door's listeners. The bridge is not ready meanwhile.
type force struct {
	now      atomic.Pointer[config.Config]
	one      chan struct{} // holds a token while a change is under way
	setLevel func(string) error
	drained  bool // changed by whoever holds the token
}

func newForce(cfg *config.Config, setLevel func(string) error) *force {
	f := &force{one: make(chan struct{}, 1), setLevel: setLevel}
	f.now.Store(cfg)
	return f
}

// NeedsRestart is why a running bridge does not follow a configuration: these changes it cannot do.
type NeedsRestart config.Changes

// Error is a line for each key.
func (n NeedsRestart) Error() string {
	lines := []string{"reload: nothing was changed, because this needs a restart:"}
	for _, c := range n {
		lines = append(lines, fmt.Sprintf("  %s %s", c.Where, c.Detail))
	}
	return strings.Join(lines, "\n")
}

// Config returns the configuration in force. Nobody changes it.
func (h *House) Config() *config.Config { return h.now.Load() }

// Plan returns what another configuration would change, and as an error why the bridge cannot follow it while it runs.
func (h *House) Plan(to *config.Config) (config.Changes, error) {
	changes := config.Diff(h.Config(), to)
	if never := changes.NeedRestart(); len(never) > 0 {
		return changes, NeedsRestart(never)
	}
	policy := policyOf(to)
	if err := policy.Validate(); err != nil {
		return changes, fmt.Errorf("reload: nothing was changed: %w", err)
	}
	if !h.cfg.IB.Port.Fabric {
		if _, err := eachPort(servicePorts(to)); err != nil {
			return changes, fmt.Errorf("reload: nothing was changed: %w", err)
		}
	}
	return changes, nil
}

// Reload has the running bridge follow another configuration, all of it or nothing, and returns what it changed. With an error
// nothing was done. Packets of what stays are not lost; what goes, loses its own. One reload at a time: others wait.
func (h *House) Reload(ctx context.Context, to *config.Config) (config.Changes, error) {
	return h.edit(ctx, func(*config.Config) (*config.Config, error) { return to, nil })
}

// edit makes another configuration of the one in force, and follows it.
func (h *House) edit(ctx context.Context, make func(*config.Config) (*config.Config, error)) (config.Changes, error) {
	select {
	case h.one <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-h.one }()
	to, err := make(h.Config())
	if err != nil {
		return nil, err
	}
	changes, err := h.Plan(to)
	if err != nil || len(changes) == 0 {
		return changes, err
	}
	c := h.changeTo(to)
	c.Commit = func() error { return h.commit(to) }
	if err := h.loop.Change(ctx, c); err != nil {
		return changes, fmt.Errorf("reload: nothing was changed: %w", err)
	}
	for _, x := range changes {
		h.log.Info("configuration_changed", "what", x.What, "where", x.Where, "detail", x.Detail)
	}
	return changes, nil
}

// Drain hands what the bridge carries to another one: it leaves all groups and services, and answers for InfiniBand nodes no
// more. What still comes to it crosses; stand-ins stay. A reload changes what Resume takes up again.
func (h *House) Drain(ctx context.Context) error { return h.setDrained(ctx, true) }

// Resume takes up again what Drain has left, and announces it.
func (h *House) Resume(ctx context.Context) error { return h.setDrained(ctx, false) }

func (h *House) setDrained(ctx context.Context, drained bool) error {
	select {
	case h.one <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-h.one }()
	was := h.drained
	if was == drained {
		return nil
	}
	h.drained = drained
	if err := h.loop.Change(ctx, h.changeTo(h.Config())); err != nil {
		h.drained = was
		return err
	}
	if drained {
		h.log.Info("drained")
	} else {
		h.log.Info("resumed")
	}
	return nil
}

// commit does what is not management's, when all is checked. The workers' policy is the last that can fail.
func (h *House) commit(to *config.Config) error {
	was := h.Config().Log.Level
	if h.setLevel != nil && to.Log.Level != was {
		if err := h.setLevel(to.Log.Level); err != nil {
			return err
		}
	}
	if err := h.bench.SetPolicy(policyOf(to)); err != nil {
		if h.setLevel != nil {
			err = errors.Join(err, h.setLevel(was))
		}
		return err
	}
	h.now.Store(to)
	return nil
}

// Add adds entries as a file has them: [[host]], [[group]], [[range]], [[service]] and [[translate]]. What is wrong with
// them is named as in a file.
func (h *House) Add(ctx context.Context, entries string) (config.Changes, error) {
	return h.edit(ctx, func(c *config.Config) (*config.Config, error) { return c.Extend(entries) })
}

// SetGroups makes the configured groups these, and no others.
func (h *House) SetGroups(ctx context.Context, groups []config.Group) (config.Changes, error) {
	return h.edit(ctx, func(c *config.Config) (*config.Config, error) { return c.WithGroups(groups) })
}

// AddGroup adds a group.
func (h *House) AddGroup(ctx context.Context, g config.Group) (config.Changes, error) {
	return h.edit(ctx, func(c *config.Config) (*config.Config, error) { return c.WithGroups(append(slices.Clone(c.Groups), g)) })
}

// RemoveGroup ends the configured group of an MGID, which Status has, too; on an Ethernet link layer that is the address itself.
func (h *House) RemoveGroup(ctx context.Context, mgid ib.GID) (config.Changes, error) {
	ethernet := h.door.portInfo().ethernet
	return h.edit(ctx, func(c *config.Config) (*config.Config, error) {
		rest := slices.DeleteFunc(slices.Clone(c.Groups), func(g config.Group) bool {
			return g.MGID == mgid || manageGroup(g, ethernet).MGID == mgid
		})
		if len(rest) == len(c.Groups) {
			return nil, fmt.Errorf("house: group %v: not configured", mgid)
		}
		return c.WithGroups(rest)
	})
}

// AddHost adds an IB node or a static RoCE host.
func (h *House) AddHost(ctx context.Context, x config.Host) (config.Changes, error) {
	return h.edit(ctx, func(c *config.Config) (*config.Config, error) { return c.WithHosts(append(slices.Clone(c.Hosts), x)) })
}

// RemoveHost removes the entry that has an address, with its other address.
func (h *House) RemoveHost(ctx context.Context, ip netip.Addr) (config.Changes, error) {
	return h.edit(ctx, func(c *config.Config) (*config.Config, error) {
		rest := slices.DeleteFunc(slices.Clone(c.Hosts), func(x config.Host) bool { return slices.Contains(x.Addrs(), ip) })
		if len(rest) == len(c.Hosts) {
			return nil, fmt.Errorf("house: host %v: not configured", ip)
		}
		return c.WithHosts(rest)
	})
}

// AddService adds a service.
func (h *House) AddService(ctx context.Context, s config.Service) (config.Changes, error) {
	return h.edit(ctx, func(c *config.Config) (*config.Config, error) {
		return c.WithServices(append(slices.Clone(c.Services), s))
	})
}

// RemoveService removes a service, by the ports that its entry has.
func (h *House) RemoveService(ctx context.Context, s config.Service) (config.Changes, error) {
	return h.edit(ctx, func(c *config.Config) (*config.Config, error) {
		rest := slices.DeleteFunc(slices.Clone(c.Services), func(o config.Service) bool { return o == s })
		if len(rest) == len(c.Services) {
			return nil, fmt.Errorf("house: service %v: not configured", s)
		}
		return c.WithServices(rest)
	})
}
