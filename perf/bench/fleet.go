// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"slices"
	"time"

	"causeway/fleet/shards"
	"causeway/lcore"
	"causeway/lcore/frame"
)

// memberTurns is how many times as often as others these are read, for shorter: they differ by less than readings of the
// same do.
const memberTurns = 8

// virtualMAC is that of a fleet's host shard 0.
var virtualMAC = frame.MAC{2, 0xca, 0x5e, 0, 0, 0}

// stationMAC is to what host's packets for nodes are sent.
func (s shape) stationMAC() frame.MAC {
	if !s.member {
		return bridgeMAC
	}
	m := virtualMAC
	m[5] = byte(shards.OfHost(hostMAC))
	return m
}

// fleetRows compares a worker of a fleet's member with that of a bridge alone.
func fleetRows(cfg *Config) ([]Row, error) {
	unicast, multicast := square(Small), square(Small)
	unicast.member, multicast.member, multicast.groups = true, true, extraGroups
	var rows []Row
	for _, s := range []shape{unicast, multicast} {
		for _, d := range []lcore.Direction{lcore.RoCEToIB, lcore.IBToRoCE} {
			row, err := memberRow(cfg, s, d)
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// memberRow measures one worker, whose bridge is alone and a member in turn: where memory lies costs more than what is
// compared.
func memberRow(cfg *Config, s shape, d lcore.Direction) (Row, error) {
	what, alone := "member of a fleet", "bridge alone"
	if s.multicast() {
		what, alone = what+", groups", alone+", groups"
	}
	cfg.progress("%s, %s", directions[d], what)
	t, err := s.newTables()
	if err != nil {
		return Row{}, err
	}
	defer t.Close()
	r, err := newRig(s, t, d, 64)
	if err != nil {
		return Row{}, err
	}
	defer r.close()
	l, often := r.lanes[0], *cfg
	often.Repetitions, often.Window = memberTurns*cfg.Repetitions, cfg.Window*2/5
	ns, err := often.calm([]int{0}, &memberLoop{l.worker(), l, false}, &memberLoop{l.worker(), l, true})
	if err != nil {
		return Row{}, err
	}
	row := ratio(what+", "+directions[d], alone, ns[1], ns[0])
	row.Payload, row.Entries, row.section, row.packets, row.Limit = 64, Small, variants, true, limit(memberLimit)
	return row, r.verify()
}

// memberLoop is a worker whose bridge is a fleet's member, or alone.
type memberLoop struct {
	loop
	lane   *lane
	member bool
}

func (l *memberLoop) start(lcore uint) error {
	become := l.lane.leave
	if l.member {
		become = l.lane.join
	}
	if err := become(); err != nil {
		return err
	}
	return l.loop.start(lcore)
}

// join makes the bridge of the lane's worker, which must not run, a member.
func (l *lane) join() error {
	lease := lcore.LeaseOf(l.rig.datapath)
	lease.SetDeadline(time.Now().Add(24 * time.Hour))
	return l.become(virtualMAC, l.rig.shape.part())
}

// leave undoes it.
func (l *lane) leave() error {
	var all lcore.Part
	all.Open.Hosts = ^uint64(0)
	for i := range all.Open.Groups {
		all.Open.Groups[i] = ^uint64(0)
	}
	return l.become(frame.MAC{}, &all)
}

func (l *lane) become(mac frame.MAC, part *lcore.Part) error {
	if err := lcore.LeaseOf(l.rig.datapath).Set(context.Background(), part); err != nil {
		return err
	}
	l.setVirtualMAC(mac)
	return nil
}

// part is what a member does: all that the shape's packets need, and not all.
func (s shape) part() *lcore.Part {
	var p lcore.Part
	p.Open.Hosts = ^(uint64(1) << ((shards.OfHost(hostMAC) + 1) % shards.Hosts))
	used := make([]shards.Shard, s.groups)
	for i := range used {
		used[i] = shards.OfGroup(mgid(i)) - shards.Hosts
	}
	for x := range shards.Shard(shards.Groups) {
		if x%2 == 0 || slices.Contains(used, x) {
			p.Open.Groups[x/64] |= 1 << (x % 64)
		}
	}
	return &p
}
