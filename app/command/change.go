// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"causeway/config"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
)

func clearCounters(_ context.Context, c *Call) (Result, error) {
	b := baseline{time.Now(), c.Env.Bridge.Counters(), c.Env.Bridge.Workers()}
	c.Env.mu.Lock()
	c.Env.base = &b
	c.Env.mu.Unlock()
	c.changed("clear counters")
	return text("show drops and show workers count from zero."), nil
}

func clearLatency(_ context.Context, c *Call) (Result, error) {
	b, ok := c.Env.Bridge.(interface{ ClearLatency() })
	if !ok {
		return Result{}, notAvailable("clear latency")
	}
	b.ClearLatency()
	c.changed("clear latency")
	return text("Latency is measured from now on."), nil
}

func clearNeighbour(ctx context.Context, c *Call) (Result, error) {
	ip := value(c, "address", netip.Addr{})
	done := false
	var err error
	for _, n := range c.segmentsOf() {
		some, failed := c.Env.Bridge.RemoveLearnedHost(ctx, n, ip)
		done, err = done || some, errors.Join(err, failed)
	}
	switch {
	case err != nil:
		return Result{}, listError(err)
	case !done:
		return Result{}, fmt.Errorf("%v was not removed: it is unknown, static, or has proxy QPs; see show hosts %v", ip, ip)
	}
	c.changed("clear neighbour", "address", ip.String())
	return text(fmt.Sprintf("%v was removed.", ip)), nil
}

func clearProxyQP(ctx context.Context, c *Call) (Result, error) {
	ip, qpn := value(c, "address", netip.Addr{}), value(c, "qpn", uint64(0))
	n := 0
	var err error
	for _, segment := range c.segmentsOf() {
		some, failed := c.Env.Bridge.RemoveProxyQPs(ctx, segment, ip, ib.QPN(qpn))
		n, err = n+some, errors.Join(err, failed)
	}
	switch {
	case err != nil:
		return Result{}, listError(err)
	case n == 0:
		return Result{}, fmt.Errorf("%v has no such proxy QP; see show proxy-qps %v", ip, ip)
	}
	c.changed("clear proxy-qp", "address", ip.String(), "qpn", qpn, "removed", n)
	return table(Part{Name: "removed", Lines: []string{fmt.Sprintf("%d removed.", n)}, Value: n}), nil
}

func clearSubnet(_ context.Context, c *Call) (Result, error) {
	b, ok := c.Env.Bridge.(interface{ RefreshSubnet() error })
	if !ok {
		return Result{}, notAvailable("clear subnet")
	}
	if err := b.RefreshSubnet(); err != nil {
		return Result{}, err
	}
	c.changed("clear subnet")
	return text("The subnet manager is asked again; the log has what it now says otherwise: node_moved, group_renewed."), nil
}

// directionOf returns a direction by its name.
func directionOf(name string) lcore.Direction {
	if name == lcore.RoCEToIB.String() {
		return lcore.RoCEToIB
	}
	return lcore.IBToRoCE
}

func setInjection(_ context.Context, c *Call) (Result, error) {
	b, ok := c.Env.Bridge.(injector)
	if !ok {
		return Result{}, notAvailable("injection")
	}
	d := directionOf(c.Value("direction"))
	i := lcore.Injection{
		Drop: value(c, "drop", 0.0), Duplicate: value(c, "duplicate", 0.0), Reorder: value(c, "reorder", 0.0),
		Delay: value(c, "delay", time.Duration(0)), Seed: value(c, "seed", rand.Uint64()>>1),
	}
	if i.Delay > 0 {
		i.DelayShare = value(c, "delayed", 1.0)
	} else if c.Has("delayed") {
		return Result{}, errors.New("delayed needs a delay, such as delay 5ms")
	}
	if i.Drop+i.Duplicate+i.Reorder+i.DelayShare == 0 {
		return Result{}, errors.New("nothing to inject: write drop, duplicate, reorder or delay; clear injection ends it")
	}
	lasts := value(c, "for", time.Minute)
	if err := b.Inject(d, i, lasts); err != nil {
		return Result{}, err
	}
	c.changed("set injection", "direction", d.String(), "drop", i.Drop, "duplicate", i.Duplicate, "reorder", i.Reorder, "delay", i.Delay,
		"delayed", i.DelayShare, "seed", i.Seed, "for", lasts)
	return runInjections(context.Background(), c)
}

func clearInjection(_ context.Context, c *Call) (Result, error) {
	b, ok := c.Env.Bridge.(injector)
	if !ok {
		return Result{}, notAvailable("injection")
	}
	for _, d := range []lcore.Direction{lcore.RoCEToIB, lcore.IBToRoCE} {
		if c.Has("direction") && directionOf(c.Value("direction")) != d {
			continue
		}
		if err := b.Inject(d, lcore.Injection{}, 0); err != nil {
			return Result{}, err
		}
		c.changed("clear injection", "direction", d.String())
	}
	return runInjections(context.Background(), c)
}

// An editor can change the configuration in force.
type editor interface {
	Config() *config.Config
	Add(ctx context.Context, entries string) (config.Changes, error)
	SetGroups(context.Context, []config.Group) (config.Changes, error)
	RemoveGroup(context.Context, ib.GID) (config.Changes, error)
	RemoveHost(ctx context.Context, ip netip.Addr, at *config.Place) (config.Changes, error)
	RemoveService(context.Context, config.Service) (config.Changes, error)
}

// edit changes the configuration in force, logs the change and returns it. One change of the console's is made at a
// time.
func (c *Call) edit(ctx context.Context, change func(context.Context, editor) (config.Changes, error)) (Result, error) {
	b, ok := c.Env.Bridge.(editor)
	if !ok {
		return Result{}, notAvailable("changes of the configuration")
	}
	c.Env.changing.Lock()
	defer c.Env.changing.Unlock()
	changes, err := c.tentatively(ctx, func(ctx context.Context) (config.Changes, error) { return change(ctx, b) })
	if err != nil {
		return Result{}, oneLine(err)
	}
	if len(changes) > 0 {
		c.changed("change", "changes", changes.Public().String()) // everybody may read the log
	}
	part := changesPart(changes)
	if part.Note = c.unlessConfirmed(changes); part.Note == "" {
		part.Note = "The file has not changed: a restart or reload undoes this, write saves it."
	}
	return table(part), nil
}

// A tentativeEditor can make a change that goes back by itself.
type tentativeEditor interface {
	Tentatively(ctx context.Context, within time.Duration, change func(context.Context) (config.Changes, error)) (config.Changes, error)
	Confirm(context.Context) error
	Pending() (until time.Time, is bool)
}

// tentatively makes a change that goes back by itself, if the argument confirm was given.
func (c *Call) tentatively(ctx context.Context, change func(context.Context) (config.Changes, error)) (config.Changes, error) {
	if !c.Has("confirm") {
		return change(ctx)
	}
	b, ok := c.Env.Bridge.(tentativeEditor)
	if !ok {
		return nil, notAvailable("confirm")
	}
	return b.Tentatively(ctx, c.within(), change)
}

// within is the time within which a change must be confirmed.
func (c *Call) within() time.Duration {
	return time.Duration(value(c, "confirm", uint64(0))) * time.Second
}

// unlessConfirmed says that a change goes back, if it does.
func (c *Call) unlessConfirmed(changes config.Changes) string {
	if !c.Has("confirm") || len(changes) == 0 {
		return ""
	}
	return fmt.Sprintf("This goes back in %v, unless you say confirm before.", c.within())
}

// runConfirm keeps a change that would go back by itself.
func runConfirm(ctx context.Context, c *Call) (Result, error) {
	b, ok := c.Env.Bridge.(tentativeEditor)
	if !ok {
		return Result{}, notAvailable("confirm")
	}
	if err := b.Confirm(ctx); err != nil {
		return Result{}, oneLine(err)
	}
	c.changed("confirm")
	return text("The change stays, until a restart or reload. write saves it."), nil
}

// aboutChange matches the prefix of a problem in a change. The change is in no file, so its line numbers help nobody.
var aboutChange = regexp.MustCompile(`^(config: the change:(\d+: )? ?|[a-z]+: )`)

// oneLine returns an error on one line.
func oneLine(err error) error {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	for i, line := range lines {
		lines[i] = aboutChange.ReplaceAllString(strings.TrimSpace(line), "")
	}
	return errors.New(strings.Join(lines, "; "))
}

func addHost(ctx context.Context, c *Call) (Result, error) {
	var b strings.Builder
	ip := value(c, "address", netip.Addr{})
	key := "ip"
	if ip.Is6() {
		key = "ip6"
	}
	fmt.Fprintf(&b, "[[host]]\n%s = %q\n", key, ip.String())
	switch {
	case c.Has("gid"):
		fmt.Fprintf(&b, "side = \"ib\"\ngid = %q\n", value(c, "gid", ib.GID{}).String())
	case c.Has("mac"):
		fmt.Fprintf(&b, "side = \"roce\"\nmac = %q\n", value(c, "mac", frame.MAC{}).String())
	case c.Has("resolve"):
		b.WriteString("side = \"roce\"\n")
	default:
		return Result{}, usagef("write gid GID for an InfiniBand node, mac MAC or resolve for a RoCE host")
	}
	if s := c.scope(); s.One {
		b.WriteString(entryOf(s))
	}
	for _, key := range []string{"lid", "sl", "pkey"} {
		if c.Has(key) {
			fmt.Fprintf(&b, "%s = %d\n", key, value(c, key, uint64(0)))
		}
	}
	return c.edit(ctx, func(ctx context.Context, e editor) (config.Changes, error) { return e.Add(ctx, b.String()) })
}

func addGroup(ctx context.Context, c *Call) (Result, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "[[group]]\nip = %q\nmgid = %q\n", value(c, "group", netip.Addr{}).String(), value(c, "mgid", "rdmacm"))
	for _, key := range []string{"direction", "ethernet"} {
		if c.Has(key) {
			fmt.Fprintf(&b, "%s = %q\n", key, c.Value(key))
		}
	}
	for _, key := range []string{"ttl", "pkey"} {
		if c.Has(key) {
			fmt.Fprintf(&b, "%s = %d\n", key, value(c, key, uint64(0)))
		}
	}
	if r := value(c, "rate", uint64(0)); r > 0 {
		fmt.Fprintf(&b, "rate = \"%d pps\"\n", r)
	}
	return c.edit(ctx, func(ctx context.Context, e editor) (config.Changes, error) { return e.Add(ctx, b.String()) })
}

func addService(ctx context.Context, c *Call) (Result, error) {
	p := value(c, "ports", [2]uint16{})
	entry := fmt.Sprintf("[[service]]\nports = \"%d-%d\"\n", p[0], p[1])
	if p[0] == p[1] {
		entry = fmt.Sprintf("[[service]]\nport = %d\n", p[0])
	}
	if s := c.scope(); s.One {
		entry += entryOf(s)
	}
	return c.edit(ctx, func(ctx context.Context, e editor) (config.Changes, error) { return e.Add(ctx, entry) })
}

// scope returns which segments an entry is for.
func (c *Call) scope() config.Scope {
	at := value(c, "vlan", config.Place{})
	return config.Scope{One: c.has("vlan"), VLAN: at.VLAN, Port: at.Port}
}

// entryOf is the key of an entry for one segment.
func entryOf(s config.Scope) string {
	if s.Port != (config.EthPort{}) {
		return fmt.Sprintf("segment = %q\n", config.Place{Port: s.Port, VLAN: s.VLAN})
	}
	return fmt.Sprintf("vlan = %d\n", s.VLAN)
}

func removeHost(ctx context.Context, c *Call) (Result, error) {
	return c.edit(ctx, func(ctx context.Context, e editor) (config.Changes, error) {
		var at *config.Place
		if c.has("vlan") {
			p := value(c, "vlan", config.Place{})
			at = &p
		}
		return e.RemoveHost(ctx, value(c, "address", netip.Addr{}), at)
	})
}

// groupAt returns the index of the configured group that the arguments name.
func (c *Call) groupAt(cfg *config.Config) (int, error) {
	ip, mgid, at := value(c, "group", netip.Addr{}), value(c, "mgid", ib.GID{}), -1
	for i, g := range cfg.Groups {
		if g.IP != ip || !mgid.IsZero() && g.MGID != mgid {
			continue
		}
		if at >= 0 {
			return 0, fmt.Errorf("several groups have the address %v; select one with mgid GID", ip)
		}
		at = i
	}
	if at < 0 {
		return 0, fmt.Errorf("group %v is not configured; show config lists the groups", ip)
	}
	return at, nil
}

func removeGroup(ctx context.Context, c *Call) (Result, error) {
	return c.edit(ctx, func(ctx context.Context, e editor) (config.Changes, error) {
		cfg := e.Config()
		at, err := c.groupAt(cfg)
		if err != nil {
			return nil, err
		}
		return e.RemoveGroup(ctx, cfg.Groups[at].MGID)
	})
}

func setPolicing(ctx context.Context, c *Call) (Result, error) {
	return c.edit(ctx, func(ctx context.Context, e editor) (config.Changes, error) {
		cfg := e.Config()
		at, err := c.groupAt(cfg)
		if err != nil {
			return nil, err
		}
		groups := slices.Clone(cfg.Groups)
		groups[at].RatePPS = value(c, "rate", uint64(0))
		return e.SetGroups(ctx, groups)
	})
}

func removeService(ctx context.Context, c *Call) (Result, error) {
	p := value(c, "ports", [2]uint16{})
	return c.edit(ctx, func(ctx context.Context, e editor) (config.Changes, error) {
		return e.RemoveService(ctx, config.Service{First: p[0], Last: p[1], Scope: c.scope()})
	})
}
