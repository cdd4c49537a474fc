// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"causeway/config"
	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/manage"
)

// configuration is the configuration in force, and how it becomes another.
//
//	new file ─▶ Diff ─▶ possible? ─▶ one call in the management loop: checked, then the workers' policy, nodes, hosts, ranges,
//	                      │           groups, services
//	                      └─ no: an error that names every key, and nothing is done
//
// What can fail is checked before anything is done. What takes the subnet's time goes on after Reload has returned, and
// is tried again until it succeeds: joins, paths, the port's listeners. The bridge is not ready meanwhile.
type configuration struct {
	now     atomic.Pointer[config.Config]
	token   chan struct{} // holds one while a change is under way
	drained atomic.Bool   // by an operator; only the holder of the token changes it
	barred  bool          // the bridge carries nothing because of another one; the same
	alone   error         // why the bridge cannot be drained alone; nil: it can
	ended   bool          // the same: management, and soon the ports
	// The one before the last change; nil: none. Only the holder of the token changes it.
	before   *config.Config
	pending  atomic.Pointer[unconfirmed] // only the holder of the token changes it
	setLevel func(string) error
	reloaded func(file *config.Config) (*config.Config, error) // with what the bridge's fleet shares
	log      *slog.Logger

	// Of the bridge, when it is built.
	change      func(context.Context, manage.Change) error // management's
	checkPKeys  func(*manage.Change) error                 // management's
	setPolicy   func(lcore.Policy) error                   // the workers'
	checkPorts  func([]ibside.PortRange) error             // the IB port's
	awaitRivals func(context.Context)                      // which may carry what the bridge would take up
	checkRivals func(now, to *config.Config) error         // with what other bridges carry
	ibEthernet  bool                                       // its link layer
	place       func(config.Place) manage.Place            // where management has a segment
	placesOf    func(map[manage.Place]uint8) map[config.Place]uint8
	// Of Ethernet ports: opens those that a configuration names besides, and closes those that it does not name.
	openPorts  func(context.Context, *config.Config) (undo func() error, err error)
	closePorts func(*config.Config)
	// Of segments: what management calls, why they cannot be added, and what makes the Ethernet port ready for them.
	complete      func(*manage.Change, *config.Config)
	checkSegments func(now, to *config.Config) error
	addSegments   func([]config.RoCE) (undo func() error, err error)
}

func newConfiguration(cfg *config.Config, setLevel func(string) error, log *slog.Logger) *configuration {
	c := &configuration{token: make(chan struct{}, 1), setLevel: setLevel, log: log,
		checkRivals: func(_, _ *config.Config) error { return nil }, awaitRivals: func(context.Context) {},
		reloaded: func(file *config.Config) (*config.Config, error) { return file, nil }}
	c.now.Store(cfg)
	return c
}

func (c *configuration) attach(b *Bridge) {
	c.place, c.placesOf, c.openPorts, c.closePorts = b.ports.place, b.ports.placesOf, b.ports.openNew, b.ports.closeUnused
	c.change, c.checkPKeys, c.setPolicy = b.loop.Change, b.loop.CheckPKeys, b.datapath.SetPolicy
	c.checkPorts, c.ibEthernet = b.ibPort.CheckPorts, b.ibPort.Info().Ethernet
	s := segmenter{b}
	c.complete, c.checkSegments, c.addSegments = s.complete, s.checkSegments, b.ports.addSegments
}

// changeTo is management's part of a configuration.
func (c *configuration) changeTo(to *config.Config, drained bool) manage.Change {
	x := changeTo(c.place, to, c.ibEthernet, drained)
	c.complete(&x, to)
	return x
}

// NeedsRestart is the error of changes that a running bridge cannot make.
type NeedsRestart config.Changes

// Error has a line for each key.
func (n NeedsRestart) Error() string {
	lines := []string{"reload: nothing was changed, because this needs a restart:"}
	for _, c := range n {
		lines = append(lines, fmt.Sprintf("  %s %s", c.Where, c.Detail))
	}
	return strings.Join(lines, "\n")
}

// ReloadReasons returns the lines of a failed reload's error, for the log.
func ReloadReasons(err error) (lines []string) {
	var restart NeedsRestart
	if errors.As(err, &restart) {
		for _, c := range restart {
			lines = append(lines, c.Where+" "+c.Detail+": needs a restart")
		}
		return lines
	}
	return strings.Split(err.Error(), "\n")
}

// Config returns the configuration in force. It must not be changed.
func (c *configuration) Config() *config.Config { return c.now.Load() }

// Plan returns what reloading a file would change, and an error if the bridge cannot change to it while it runs.
func (c *configuration) Plan(file *config.Config) (config.Changes, error) {
	to, err := c.reloaded(file)
	if err == nil {
		err = c.checkAgainstRivals(to)
	}
	if err != nil {
		return nil, err
	}
	return c.plan(to)
}

// checkAgainstRivals reports what a configuration would have of another bridge that this one is beside.
func (c *configuration) checkAgainstRivals(to *config.Config) error {
	if err := c.checkRivals(c.Config(), to); err != nil {
		return fmt.Errorf("reload: nothing was changed: %w", err)
	}
	return nil
}

// plan returns what another configuration would change, as Plan does.
func (c *configuration) plan(to *config.Config) (config.Changes, error) {
	changes := config.Diff(c.Config(), to)
	if never := changes.NeedRestart(); len(never) > 0 {
		return changes, NeedsRestart(never)
	}
	policy := policyOf(to, atStart(to)) // whatever the numbers
	if err := policy.Validate(); err != nil {
		return changes, fmt.Errorf("reload: nothing was changed: %w", err)
	}
	if err := c.checkPorts(portsOf(to.Services)); err != nil {
		return changes, fmt.Errorf("reload: nothing was changed: %w", err)
	}
	if err := c.checkSegments(c.Config(), to); err != nil {
		return changes, fmt.Errorf("reload: nothing was changed: %w", err)
	}
	x := changeTo(c.place, to, c.ibEthernet, false) // a drained bridge will have all of it again
	if err := c.checkPKeys(&x); err != nil {
		return changes, fmt.Errorf("reload: nothing was changed: %w", err)
	}
	return changes, nil
}

// Reload changes to the configuration of a file, with what the bridge's fleet shares, all of it or nothing, and returns what it
// changed. On an error nothing was changed. Packets of what stays are not lost. One reload at a time: others wait.
func (c *configuration) Reload(ctx context.Context, file *config.Config) (config.Changes, error) {
	return c.edit(ctx, func(*config.Config) (*config.Config, error) { return c.reloaded(file) })
}

// Undo changes back to the configuration before the last change; a second one, to that after it. It takes back a
// pending change, too.
func (c *configuration) Undo(ctx context.Context) (config.Changes, error) {
	unlock, err := c.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	switch {
	case c.before == nil:
		return nil, errors.New("reload: nothing has changed since the bridge was started")
	case c.pending.Load() != nil && ctx.Value(tentative{}) != nil:
		return nil, errPending
	}
	changes, err := c.apply(ctx, c.before)
	if err == nil && ctx.Value(tentative{}) == nil {
		c.settle()
	}
	return changes, err
}

// lock waits for a change under way to end.
func (c *configuration) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case c.token <- struct{}{}:
		return func() { <-c.token }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// edit makes another configuration of the one in force, and changes to it.
func (c *configuration) edit(ctx context.Context, make func(*config.Config) (*config.Config, error)) (config.Changes, error) {
	unlock, err := c.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if c.pending.Load() != nil {
		return nil, errPending
	}
	to, err := make(c.Config())
	if err == nil {
		err = c.checkAgainstRivals(to)
	}
	if err != nil {
		return nil, err
	}
	return c.apply(ctx, to)
}

// apply changes to another configuration. The caller has the lock.
func (c *configuration) apply(ctx context.Context, to *config.Config) (config.Changes, error) {
	changes, err := c.plan(to)
	if err == nil && len(changes) == 0 {
		c.now.Store(to) // it means the same, but may be of another file
	}
	if err != nil || len(changes) == 0 {
		return changes, err
	}
	before := c.Config()
	if err := c.changeWithPorts(ctx, to); err != nil {
		return changes, fmt.Errorf("reload: nothing was changed: %w", err)
	}
	older := c.before
	c.before = before
	for _, x := range changes.Public() { // everybody may read the log by the console
		c.log.Info("configuration_changed", "what", x.What, "where", x.Where, "detail", x.Detail)
	}
	c.await(ctx, before, older)
	return changes, nil
}

// changeWithPorts changes to another configuration: ports are opened before there are segments, and closed when theirs are
// gone. All that can fail comes before anything ends.
func (c *configuration) changeWithPorts(ctx context.Context, to *config.Config) error {
	if c.ended {
		return manage.ErrEnded
	}
	undo, err := c.openPorts(ctx, to)
	if err != nil {
		return err
	}
	x := c.changeTo(to, c.hasLeft())
	x.Commit = func(numbers map[manage.Place]uint8) error { return c.commit(to, c.placesOf(numbers)) }
	if err := c.change(ctx, x); err != nil {
		return errors.Join(err, undo())
	}
	c.closePorts(to)
	return nil
}

// Drain prepares for another bridge to take over: this one leaves all groups and services, and no longer answers for
// InfiniBand nodes. Packets that still come to it are bridged; proxy QPs stay. A reload changes what Resume takes up
// again.
func (c *configuration) Drain(ctx context.Context) error { return c.leave(ctx, true) }

// Resume takes up again what Drain has left, and announces it.
func (c *configuration) Resume(ctx context.Context) error { return c.leave(ctx, false) }

func (c *configuration) leave(ctx context.Context, drained bool) error {
	err := c.setDrained(ctx, drained)
	if err == nil {
		c.awaitRivals(ctx)
	}
	return err
}

func (c *configuration) setDrained(ctx context.Context, drained bool) error {
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if c.alone != nil {
		return c.alone
	}
	if c.drained.Load() == drained {
		return nil
	}
	if !c.barred {
		if err := c.change(ctx, c.changeTo(c.Config(), drained)); err != nil {
			return err
		}
	}
	c.drained.Store(drained)
	if drained {
		c.log.Info("drained")
	} else {
		c.log.Info("resumed")
	}
	return nil
}

// hasLeft reports whether the bridge has left all groups, services and nodes.
func (c *configuration) hasLeft() bool { return c.barred || c.drained.Load() }

// bar has the bridge leave what it carries, as Drain does, because of another one, or take it up.
func (c *configuration) bar(on bool) error {
	unlock, _ := c.lock(context.Background()) // which does not end
	defer unlock()
	if c.ended {
		return manage.ErrEnded
	}
	if !c.drained.Load() {
		if err := c.change(context.Background(), c.changeTo(c.Config(), on)); err != nil {
			return err
		}
	}
	c.barred = on
	return nil
}

// commit changes what is not management's, when all is checked. Numbers are the segments', by place. The workers' policy is
// the last that can fail.
func (c *configuration) commit(to *config.Config, numbers map[config.Place]uint8) error {
	was := c.Config()
	undo, err := c.addSegments(added(was, to))
	if err != nil {
		return err
	}
	if c.setLevel != nil && to.Log.Level != was.Log.Level {
		if err := c.setLevel(to.Log.Level); err != nil {
			return errors.Join(err, undo())
		}
	}
	if err := c.setPolicy(policyOf(to, numbers)); err != nil {
		if c.setLevel != nil {
			err = errors.Join(err, c.setLevel(was.Log.Level))
		}
		return errors.Join(err, undo())
	}
	c.now.Store(to)
	return nil
}

// Add adds entries as a file has them: [[host]], [[group]], [[range]], [[service]] and [[translate]]. What is wrong
// with them is named as in a file.
func (c *configuration) Add(ctx context.Context, entries string) (config.Changes, error) {
	return c.edit(ctx, func(cfg *config.Config) (*config.Config, error) { return cfg.Extend(entries) })
}

// SetGroups makes the configured groups these, and no others.
func (c *configuration) SetGroups(ctx context.Context, groups []config.Group) (config.Changes, error) {
	return c.edit(ctx, func(cfg *config.Config) (*config.Config, error) { return cfg.WithGroups(groups) })
}

// RemoveGroup ends the configured group of an MGID, which Status has, too; on an Ethernet link layer that is the
// address itself.
func (c *configuration) RemoveGroup(ctx context.Context, mgid ib.GID) (config.Changes, error) {
	return c.edit(ctx, func(cfg *config.Config) (*config.Config, error) {
		rest := slices.DeleteFunc(slices.Clone(cfg.Groups), func(g config.Group) bool {
			return g.MGID == mgid || manageGroup(g, c.ibEthernet).MGID == mgid
		})
		if len(rest) == len(cfg.Groups) {
			return nil, fmt.Errorf("bridge: group %v: not configured", mgid)
		}
		return cfg.WithGroups(rest)
	})
}

// RemoveHost removes the entry that has an address, with its other address; of several RoCE hosts, that of a segment.
func (c *configuration) RemoveHost(ctx context.Context, ip netip.Addr, at *config.Place) (config.Changes, error) {
	return c.edit(ctx, func(cfg *config.Config) (*config.Config, error) {
		rest := slices.DeleteFunc(slices.Clone(cfg.Hosts), func(x config.Host) bool {
			return slices.Contains(x.Addrs(), ip) && (at == nil || x.Side == config.SideRoCE && x.IsAt(*at))
		})
		switch n := len(cfg.Hosts) - len(rest); {
		case n == 0:
			return nil, fmt.Errorf("bridge: host %v: not configured", ip)
		case n > 1:
			return nil, fmt.Errorf("bridge: host %v: %d segments have one; name its VLAN: remove host %v vlan N", ip, n, ip)
		}
		return cfg.WithHosts(rest)
	})
}

// RemoveService removes a service, by the ports that its entry has.
func (c *configuration) RemoveService(ctx context.Context, s config.Service) (config.Changes, error) {
	return c.edit(ctx, func(cfg *config.Config) (*config.Config, error) {
		rest := slices.DeleteFunc(slices.Clone(cfg.Services), func(o config.Service) bool { return o == s })
		if len(rest) == len(cfg.Services) {
			return nil, fmt.Errorf("bridge: service %v: not configured", s)
		}
		return cfg.WithServices(rest)
	})
}
