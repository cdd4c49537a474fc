// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"causeway/app/bridge"
	"causeway/config"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/manage"
	"causeway/lcore/pgm"
	"causeway/tables"
)

// defaultLimit is how many entries a list shows without the argument limit.
const defaultLimit = 200

// query returns what the arguments of a list ask for. When a pipe selects, all entries are read.
func query(c *Call) manage.Query {
	return manage.Query{In: value(c, "in", netip.Prefix{}), Limit: c.limit()}
}

// viewLimit bounds lists in sessions that may only view: their text stays in memory while a client reads slowly.
const viewLimit = 10_000

// empty returns what is shown for a list without entries.
func (c *Call) empty(text string) string {
	if c.Has("in") {
		return "None of these exists."
	}
	return text
}

func (c *Call) limit() int {
	n := int(value(c, "limit", uint64(defaultLimit)))
	if c.picks && !c.Has("limit") {
		n = viewLimit
	}
	if c.Role == View {
		n = min(n, viewLimit)
	}
	return n
}

// listError words an error of a list.
func listError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("management did not answer in time")
	}
	return err
}

func runHosts(ctx context.Context, c *Call) (Result, error) {
	list, err := c.Env.Bridge.ListHosts(ctx, query(c))
	part := Part{Name: "hosts", Total: list.Total, Empty: c.empty("No RoCE host is known."),
		Columns: columns("address", "MAC", "VLAN?", "version", "state", "QPs", "host GID…?", "bridge?", "last seen")}
	now, ownerOf := time.Now(), hostOwners(ctx, c)
	for _, h := range list.Entries {
		part.Rows = append(part.Rows, []any{h.IP, h.MAC, vlan(h.VLAN), roceVersion(h.Version), string(h.State), h.ProxyQPs, gidOrNil(h.GID), ownerOf(h.MAC),
			ageOf(h.Heard, now)})
	}
	return table(part), listError(err)
}

// vlan is nil for an untagged host.
func vlan(id uint16) any {
	if id == 0 {
		return nil
	}
	return id
}

func roceVersion(v uint8) any {
	if v == 0 {
		return nil
	}
	if v == tables.PlainUDP {
		return "udp"
	}
	return fmt.Sprintf("v%d", v)
}

// otherPKey is nil for [ib]'s P_Key, and where none is known.
func (c *Call) otherPKey(k ib.PKey) any {
	if cfg := c.Env.config(); k == 0 || cfg != nil && k == cfg.IB.PKey {
		return nil
	}
	return k
}

// qkey is a Q_Key for admins: it is what keeps others from sending to a queue pair.
func (c *Call) qkey(k ib.QKey) any {
	if c.Role != Admin {
		return "hidden"
	}
	return k
}

// gidOrNil is nil for the zero GID: the bridge's own is used.
func gidOrNil(g ib.GID) any {
	if g.IsZero() {
		return nil
	}
	return g
}

func addrOrNil(a netip.Addr) any {
	if !a.IsValid() {
		return nil
	}
	return a
}

func runNodes(ctx context.Context, c *Call) (Result, error) {
	list, err := c.Env.Bridge.ListNodes(ctx, query(c))
	part := Part{Name: "nodes", Total: list.Total, Empty: c.empty("No InfiniBand node is known."),
		Columns: columns("address", "IPv6…?", "GID", "LID", "SL", "MTU", "rate?", "P_Key?", "bridge", "origin", "path")}
	for _, n := range list.Entries {
		path := map[tables.LIDState]string{tables.LIDsKnown: "resolved", tables.LIDsStale: "stale", tables.LIDsLost: "lost"}[n.LIDs]
		var lid, mtu, rate any = n.LID, n.MTU, n.Rate
		if !n.Resolved {
			path, mtu = "resolving", nil
		}
		if n.LID == 0 {
			lid = nil
		}
		if n.Rate == 0 {
			rate = nil
		}
		origin := "configured"
		if n.Learned {
			origin = "learned"
		}
		part.Rows = append(part.Rows, []any{addrOrNil(n.IP4), addrOrNil(n.IP6), n.GID, lid, uint8(n.SL), mtu, rate, c.otherPKey(n.PKey), n.Bridge, origin, path})
	}
	return table(part), listError(err)
}

func runProxyQPs(ctx context.Context, c *Call) (Result, error) {
	list, err := c.Env.Bridge.ListProxyQPs(ctx, query(c))
	part := Part{Name: "proxy_qps", Total: list.Total, Empty: c.empty("There is no proxy QP."),
		Columns: columns("host", "QPN", "proxy QP", "Q_Key", "P_Key?", "worker", "version", "host GID…?", "last used", "segment?")}
	now := time.Now()
	for _, s := range list.Entries {
		var qpn any = s.HostQPN
		if s.HostQPN == tables.PlainQPN {
			qpn = nil
		}
		part.Rows = append(part.Rows, []any{s.Host, qpn, s.QPN, c.qkey(s.QKey), c.otherPKey(s.PKey), s.Worker, roceVersion(s.Version), gidOrNil(s.GID), ageOf(s.Used, now), c.segment(s.Segment)})
	}
	return table(part), listError(err)
}

func runGroups(ctx context.Context, c *Call) (Result, error) {
	list, err := c.Env.Bridge.ListGroups(ctx, query(c))
	part := Part{Name: "groups", Total: list.Total, Empty: c.empty("No group is bridged."),
		Columns: columns("group", "UDP port?", "MGID…", "MLID?", "P_Key?", "state", "direction", "origin?", "limit?", "to IB", "to RoCE", "to IB/s", "to RoCE/s", "segment?")}
	counts, rates := c.Env.Bridge.Groups(), c.Env.Sampler.groupRates()
	for _, g := range list.Entries {
		var origin any
		direction := "both"
		if g.Learned {
			origin = "learned"
		}
		switch {
		case !g.ToRoCE:
			direction = "to-ib"
		case !g.ToIB:
			direction = "to-roce"
		}
		var limit, mlid, port any
		if g.UDPPort != 0 {
			port = g.UDPPort
		}
		if g.Rate > 0 {
			limit = Rate(g.Rate)
		}
		if g.MLID != 0 {
			mlid = g.MLID
		}
		at := bridge.GroupPlace{IP: g.IP, Segments: bridge.SegmentNames(c.Env.Bridge.Status().Segments, g.Segments)}
		n, r := counts[at], rates[at]
		part.Rows = append(part.Rows, []any{g.IP, port, g.MGID, mlid, c.otherPKey(g.PKey), g.State, direction, origin, limit, n.Packets[0], n.Packets[1], r.packets[0], r.packets[1], c.segmentsIn(g.Segments)})
	}
	return table(part), listError(err)
}

func runServices(_ context.Context, c *Call) (Result, error) {
	ports := Part{Name: "services", Columns: columns("ports", "segment?"), Empty: "No service is bridged."}
	if cfg := c.Env.config(); cfg != nil {
		for _, s := range cfg.Services {
			ports.Rows = append(ports.Rows, []any{worded{s.Ports(), object{{"first", s.First}, {"last", s.Last}}}, segmentOf(cfg, s.Scope)})
		}
	}
	s := c.Env.Bridge.Status()
	requests := Part{Name: "requests", Columns: columns("result", "from RoCE hosts", "from IB nodes"), Empty: "There were no requests."}
	for r := range s.Counters.Services[0] {
		a, b := s.Counters.Services[0][r], s.Counters.Services[1][r]
		if a+b > 0 {
			requests.Rows = append(requests.Rows, []any{manage.ServiceResult(r), a, b})
		}
	}
	parts := []Part{ports, requests}
	received, sent := c.Env.Bridge.Services()
	for name, of := range map[string]map[string]uint64{"port_requests": received, "port_connects": sent} {
		part := Part{Name: name, Columns: columns("result", "count")}
		for _, result := range slices.Sorted(maps.Keys(of)) {
			if of[result] > 0 {
				part.Rows = append(part.Rows, []any{result, of[result]})
			}
		}
		parts = append(parts, part)
	}
	slices.SortFunc(parts[2:], func(a, b Part) int { return -cmpName(a, b) })
	return Result{Parts: append(parts, translated(c.Env.config())...)}, nil
}

// segmentOf names the only segment that an entry is for; nil: it is for all.
func segmentOf(cfg *config.Config, s config.Scope) any {
	for _, r := range cfg.Segments() {
		if s.One && s.Has(&r) {
			return r.Name()
		}
	}
	return nil
}

// translated lists the address translations.
func translated(cfg *config.Config) []Part {
	if cfg == nil || len(cfg.Translates) == 0 {
		return nil
	}
	part := Part{Name: "translated", Columns: columns("on RoCE", "on InfiniBand", "segment?")}
	for _, x := range cfg.Translates {
		part.Rows = append(part.Rows, []any{x.RoCE.String(), x.IB.String(), segmentOf(cfg, x.Scope)})
	}
	return []Part{part}
}

func cmpName(a, b Part) int {
	if a.Name < b.Name {
		return -1
	}
	return 1
}

func runRequests(ctx context.Context, c *Call) (Result, error) {
	list, err := c.Env.Bridge.ListRequests(ctx, query(c))
	part := Part{Name: "requests", Total: list.Total, Empty: c.empty("No request is pending."), Columns: columns("requester", "from", "to", "port", "waiting for", "timeout?")}
	for _, r := range list.Entries {
		requester := [...]string{"RoCE host", "IB node"}[r.Direction]
		var left any
		if r.Left > 0 {
			left = r.Left.Round(100 * time.Millisecond)
		}
		part.Rows = append(part.Rows, []any{requester, r.From, r.To, r.Port, r.Waits, left})
	}
	return table(part), listError(err)
}

func runNeighbours(ctx context.Context, c *Call) (Result, error) {
	list, err := c.Env.Bridge.ListNeighbours(ctx, query(c))
	part := Part{Name: "neighbours", Total: list.Total, Empty: c.empty("No neighbour is known."), Columns: columns("address", "MAC", "VLAN?", "state", "last seen", "requests")}
	now := time.Now()
	for _, h := range list.Entries {
		var mac any
		if h.State != manage.HostUnresolved {
			mac = h.MAC
		}
		part.Rows = append(part.Rows, []any{h.IP, mac, vlan(h.VLAN), string(h.State), ageOf(h.Heard, now), h.Asked})
	}
	return table(part), listError(err)
}

func runStreams(_ context.Context, c *Call) (Result, error) {
	part := Part{Name: "streams", Empty: "No PGM stream is known.",
		Columns: columns("stream", "group", "direction", "state", "newest", "data", "repairs…", "lost", "late…", "duplicates…", "NAKs")}
	if _, enabled := c.Env.Bridge.PGM(); !enabled {
		part.Empty = "No group has pgm = true, so streams are not tracked."
	}
	of := map[int]netip.Addr{}
	for _, g := range c.Env.Bridge.Status().Joined {
		of[g.ID] = g.IP
	}
	all := c.Env.Bridge.Streams()
	slices.SortFunc(all, func(a, b pgm.Stream) int { return int(b.Counts.Lost()) - int(a.Counts.Lost()) })
	for _, s := range all[:min(len(all), c.limit())] {
		state := "running"
		switch {
		case s.Reset:
			state = "reset"
		case s.Finished:
			state = "finished"
		case !s.Begun:
			state = "awaiting data"
		}
		n := &s.Counts
		part.Rows = append(part.Rows, []any{s.TSI, addrOrNil(of[int(s.Group)]), lcore.Direction(s.Direction), state, s.Lead,
			n[pgm.ODATA], n[pgm.RDATA], n.Lost(), n[pgm.Late], n[pgm.Duplicates], n[pgm.NAK]})
	}
	part.Total = len(all)
	return table(part), nil
}
