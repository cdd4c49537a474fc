// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"causeway/app/bridge"
	"causeway/app/condition"
	"causeway/config"
	"causeway/lcore"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
)

// streamTop shows the bridge's rates, and refreshes them until ctx ends.
func streamTop(ctx context.Context, c *Call, out Out) error {
	if c.has("vlan") && len(c.segmentsOf()) == 0 {
		return usagef("no segment is VLAN %d; show segments lists them", value(c, "vlan", config.Place{}).VLAN)
	}
	every := max(value(c, "every", time.Second), 200*time.Millisecond)
	left := value(c, "count", uint64(0))
	defer c.Env.hosts.start(c.Env.Bridge)()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := uint64(1); ; n++ {
		select {
		case <-tick.C: // before the first picture, too: the hosts' shares need samples
		case <-ctx.Done():
			return nil
		}
		if err := out.Draw(c.picture(ctx, out)); err != nil {
			return err
		}
		if n == left {
			return nil
		}
	}
}

// picture returns what top shows, no longer than the screen.
func (c *Call) picture(ctx context.Context, out Out) Result {
	b := c.Env.Bridge
	status, _ := runStatus(ctx, c)
	workers, _ := runWorkers(ctx, c)
	short := Part{Lines: []string{topLine(c)}}
	_, height := out.Size()
	room := max(3, (height-14-len(b.WorkerCPUs()))/2)
	if height == 0 {
		room = 20
	}
	from, to := c.Env.Sampler.span(sampleEvery)
	return Result{Parts: []Part{short, status.Parts[len(status.Parts)-1], workers.Parts[0], topGroups(c, room), c.hosts(&from, &to, room)}}
}

func topLine(c *Call) string {
	s := c.Env.Bridge.Status()
	state := "ready"
	if !condition.Ready(c.Env.Bridge) {
		state = "NOT READY"
	} else if len(c.Env.Sampler.Dropping()) > 0 {
		state = "READY, DROPS MOST"
	}
	name := "causeway"
	if cfg := c.Env.config(); cfg != nil && cfg.Name != "" {
		name = cfg.Name
	}
	line := fmt.Sprintf("%s  %s  %s  up %s  %s  %s  %s  %s", time.Now().Format("15:04:05"), name, state, ageOf(c.Env.Began, time.Now()),
		counted(s.Hosts, "host"), counted(s.Nodes, "node"), counted(s.Groups, "group"), counted(s.ProxyQPs, "proxy QP"))
	if c.injecting() > 0 {
		line += "  INJECTING FAULTS"
	}
	return line
}

// topGroups returns the busiest groups.
func topGroups(c *Call, room int) Part {
	rates := c.Env.Sampler.groupRates()
	part := Part{Name: "groups", Columns: columns("group", "to IB/s", "to RoCE/s", "to IB bits/s", "to RoCE bits/s", "segment?"), Empty: "No group is bridged."}
	places := slices.SortedFunc(maps.Keys(rates), func(a, b bridge.GroupPlace) int {
		x, y := rates[a], rates[b]
		return cmp.Or(cmp.Compare(y.packets[0]+y.packets[1], x.packets[0]+x.packets[1]), a.Compare(b))
	})
	for _, at := range places[:min(len(places), room)] {
		r := rates[at]
		var segments any
		if at.Segments != "" {
			segments = at.Segments
		}
		part.Rows = append(part.Rows, []any{at.IP, r.packets[0], r.packets[1], r.bits[0], r.bits[1], segments})
	}
	if more := len(places) - room; more > 0 {
		part.Note = fmt.Sprintf("and %d more", more)
	}
	return part
}

// hostShares counts a sample of the received packets by their senders, once for all sessions that run top. The number
// of hosts is bounded, because senders can forge addresses.
type hostShares struct {
	mu      sync.Mutex
	users   int
	stop    context.CancelFunc
	now     shares // being counted
	last    shares // of the last whole second
	turned  time.Time
	missing string // why nothing is counted
}

// shares are counts by direction: of each sender, and of all.
type shares struct {
	of    [2]map[sender]uint64
	total [2]uint64
}

// A sender is who sends in a segment, or to one.
type sender struct {
	ip      netip.Addr
	segment string // its name; "": not known
}

// segmentNames tells a packet's segment, where there are several: a frame's by its port and VLAN, a message's by its partition.
func segmentNames(all []manage.SegmentStatus) func(*lcore.MirroredPacket) string {
	if len(all) < 2 {
		return func(*lcore.MirroredPacket) string { return "" }
	}
	return func(m *lcore.MirroredPacket) string {
		vlan := uint16(0)
		if f, _ := frame.Open(m.Data); m.IB == nil && f.Tag != nil {
			vlan = f.Tag.VID()
		}
		for _, s := range all {
			if m.IB != nil && m.IB.PKey == s.PKey || m.IB == nil && s.Place == (manage.Place{Port: m.Port, VLAN: vlan}) {
				return s.Name
			}
		}
		return ""
	}
}

// hostsKept is how many hosts are counted in a second at most.
const hostsKept = 4096

// A packetSampler copies a sample of the packets.
type packetSampler interface {
	Sample(ctx context.Context, f lcore.Filter, snap int, see func(lcore.MirroredPacket) bool) (missed uint64, err error)
}

// start counts until done is called as often as start was.
func (h *hostShares) start(b Target) (done func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users++; h.users == 1 {
		h.now, h.last, h.turned, h.missing = newShares(), newShares(), time.Now(), ""
		ctx, stop := context.WithCancel(context.Background())
		h.stop = stop
		if s, ok := b.(packetSampler); ok {
			go h.count(ctx, s, nodeAddrs(b), segmentNames(b.Status().Segments))
		} else {
			h.missing = "Hosts are not counted: this bridge cannot sample packets."
		}
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.users--; h.users == 0 {
			h.stop()
		}
	}
}

func newShares() shares { return shares{of: [2]map[sender]uint64{{}, {}}} }

// nodeAddrs returns the IP addresses of nodes by their GIDs.
func nodeAddrs(b Target) map[netip.Addr]netip.Addr {
	const moment = time.Second
	ctx, done := context.WithTimeout(context.Background(), moment)
	defer done()
	list, _ := b.ListNodes(ctx, manage.Query{}) // on an error nodes are shown by their GIDs
	names := map[netip.Addr]netip.Addr{}
	for _, n := range list.Entries {
		if n.IP4.IsValid() {
			names[gidAddr(n.GID)] = n.IP4
		} else {
			names[gidAddr(n.GID)] = n.IP6
		}
	}
	return names
}

func (h *hostShares) count(ctx context.Context, s packetSampler, names map[netip.Addr]netip.Addr, segment func(*lcore.MirroredPacket) string) {
	const headers = 96 // Ethernet, a tag, GRH
	_, err := s.Sample(ctx, lcore.Filter{Point: lcore.Received}, headers, func(m lcore.MirroredPacket) bool {
		if from, _ := endpoints(&m); from.IsValid() {
			if ip, known := names[from]; known {
				from = ip
			}
			h.note(m.Direction, sender{from, segment(&m)}, time.Now())
		}
		return true
	})
	if err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.missing = "Hosts are not counted: " + err.Error()
	}
}

func (h *hostShares) note(d lcore.Direction, from sender, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn(now)
	h.now.total[d]++
	if _, known := h.now.of[d][from]; known || len(h.now.of[d]) < hostsKept {
		h.now.of[d][from]++
	}
}

// turn starts a new count each second.
func (h *hostShares) turn(now time.Time) {
	if now.Sub(h.turned) >= sampleEvery {
		h.last, h.now, h.turned = h.now, newShares(), now
	}
}

// hosts returns the busiest hosts of the last second, by their shares of the received packets: those of the segment that
// the argument vlan selects, or of all.
func (c *Call) hosts(from, to *reading, room int) Part {
	h := &c.Env.hosts
	only := ""
	if all := c.segmentsOf(); c.has("vlan") && len(all) == 1 {
		only, _ = c.segment(all[0]).(string)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn(time.Now())
	part := Part{Name: "hosts", Columns: columns("from", "direction", "packets/s", "share", "segment?"), Empty: "No host sends."}
	if h.missing != "" {
		part.Empty = h.missing
		return part
	}
	for d := range h.last.of {
		received := rateOf(from, to, d).Received
		for s, n := range h.last.of[d] {
			if only != "" && s.segment != only {
				continue
			}
			var segment any
			if s.segment != "" {
				segment = s.segment
			}
			share := float64(n) / float64(h.last.total[d])
			part.Rows = append(part.Rows, []any{s.ip, lcore.Direction(d), Rate(share) * received, Share(share), segment})
		}
	}
	slices.SortFunc(part.Rows, func(a, b []any) int {
		return cmp.Or(cmp.Compare(b[2].(Rate), a[2].(Rate)), a[0].(netip.Addr).Compare(b[0].(netip.Addr)))
	})
	if more := len(part.Rows) - room; more > 0 {
		part.Rows, part.Note = part.Rows[:room], fmt.Sprintf("and %d more", more)
	}
	return part
}
