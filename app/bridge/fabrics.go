// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"causeway/config"
	"causeway/ibside"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
	"causeway/ibside/multipath"
)

// fabrics are several InfiniBand ports, which are one to the rest of the bridge. With one [ib] there is none.
type fabrics struct {
	gate    *gate
	inForce func() *config.Config
	log     *slog.Logger
	fail    func(error) // ends the bridge
	use     atomic.Pointer[use]
	ports   *multipath.Port // nil: one port
}

// openIBPorts opens what [ib] names, or what all [[ib]] name.
func (b *Bridge) openIBPorts(subnets []*fabric.Fabric) (ibside.OpenPort, error) {
	if len(b.cfg.MoreIB) == 0 {
		return openIBPort(b.cfg, &b.cfg.IB, b.cfg.Name, b.pool, b.lcores, subnets[0], b.fail, b.log)
	}
	var members []multipath.Member
	p, err := b.openMembers(subnets, &members)
	if err != nil {
		for _, m := range members {
			err = errors.Join(err, m.Port.Close())
		}
		return nil, err
	}
	b.fabrics.ports = p
	return p, nil
}

func (b *Bridge) openMembers(subnets []*fabric.Fabric, members *[]multipath.Member) (*multipath.Port, error) {
	for i, x := range b.cfg.Ports() {
		name, subnet := b.cfg.Name, (*fabric.Fabric)(nil)
		if i > 0 {
			name += "/" + x.Name // its port GUID is made of it: two ports may be on one subnet
		}
		if i < len(subnets) {
			subnet = subnets[i]
		}
		log := b.log.With("path", x.Name)
		p, err := openIBPort(b.cfg, &x, name, b.pool, b.lcores, subnet, func(err error) { b.fabrics.gone(x.Name, err) }, log)
		if err != nil {
			return nil, fmt.Errorf("bridge: [[ib]] %s: %w", x.Name, err)
		}
		*members = append(*members, multipath.Member{Name: x.Name, Fabric: x.Fabric, Port: p, PKey: x.PKey})
	}
	w, f := &b.cfg.Workers, &b.cfg.Fabrics
	return multipath.New(multipath.Config{
		Members: *members, Workers: len(w.LCores), Pool: b.pool, ProxyQPs: w.ProxyQPs, Groups: w.Groups + spareGroups, Nodes: w.Nodes + spareNodes,
		Rule: b.fabrics.rule, GIDs: b.fabrics.gidsOf,
		HoldDown: f.HoldDown, MaxLoss: float64(f.MaxLoss) / 100, Log: b.log,
	})
}

// gone ends the bridge only when no other port is left.
func (f *fabrics) gone(name string, err error) {
	f.log.Error("ib_path_gone", "port", name, "error", err)
	if f.ports == nil || !f.ports.Gone(name, err) {
		f.fail(err)
	}
}

// use is how groups and nodes use the ports, of one configuration.
type use struct {
	of    *config.Config
	rules map[ib.GID]multipath.Rule
	gids  map[ib.GID][]ib.GID
}

// inUse returns the use of the configuration in force.
func (f *fabrics) inUse() *use {
	cfg, u := f.inForce(), f.use.Load()
	if u != nil && u.of == cfg {
		return u
	}
	u = &use{of: cfg, rules: map[ib.GID]multipath.Rule{}, gids: cfg.GIDsByPort()}
	for i := range cfg.Groups {
		u.rules[cfg.Groups[i].MGID] = ruleOf(cfg, &cfg.Groups[i])
	}
	f.use.Store(u)
	return u
}

// rule returns how a group uses the ports. Learned ones do as [fabrics] says.
func (f *fabrics) rule(mgid ib.GID) multipath.Rule {
	u := f.inUse()
	if r, ok := u.rules[mgid]; ok {
		return r
	}
	return ruleOf(u.of, &config.Group{})
}

func ruleOf(cfg *config.Config, g *config.Group) multipath.Rule {
	mode, dedup := cfg.ModeOf(g)
	r := multipath.Rule{Tell: map[string]multipath.Tell{config.DedupImm: multipath.TellImm, config.DedupPGM: multipath.TellPGM}[dedup]}
	if mode == config.FabricsBoth {
		r.Mode = multipath.Both
	}
	return r
}

// gidsOf returns the GIDs of a node by port.
func (f *fabrics) gidsOf(gid ib.GID) []ib.GID {
	u := f.inUse()
	if all, ok := u.gids[gid]; ok {
		return all
	}
	return slices.Repeat([]ib.GID{gid}, 1+len(u.of.MoreIB))
}

// Fabrics returns what there is to know of each of several InfiniBand ports; nil with one.
func (f *fabrics) Fabrics() (all []multipath.Report) {
	f.gate.whileOpen(func() {
		if f.ports != nil {
			all = f.ports.Reports()
		}
	})
	return all
}

// FabricSwitches returns how often a group or a node has changed its port.
func (f *fabrics) FabricSwitches() (n uint64) {
	f.gate.whileOpen(func() {
		if f.ports != nil {
			n = f.ports.Switches()
		}
	})
	return n
}

// PreferPort makes one of several InfiniBand ports the preferred one; "": none is.
func (f *fabrics) PreferPort(name string) error {
	err := errors.New("bridge: there is one InfiniBand port; several are written as [[ib]]")
	f.gate.whileOpen(func() {
		if f.ports != nil {
			err = f.ports.Prefer(name)
		}
	})
	return err
}
