// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"encoding/binary"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"causeway/fleet/lease"
	"causeway/fleet/shards"
	"causeway/ibside"
	"causeway/lcore"
	"causeway/lcore/frame"
)

// shardGate opens and closes shards of the fleet's work: to the workers, and to management, which answers ARP and ND for
// those that are open and not left, and those that are held and attract hosts. nil: there is no fleet.
type shardGate struct {
	lease    lcore.Lease
	name     string    // of the fleet
	virtual  frame.MAC // of host shard 0
	takeOver func([]frame.MAC)
	reminder func([]frame.MAC) // as takeOver, but does not wait
	reminds  time.Time         // since when remind was called
	turn     int64             // of remind
	unable   func() string     // as membership's
	port     ibside.OpenPort
	// patience is how long the workers' queues may take to be empty once: they are, hundreds of times in a second. So long, too, may a
	// port take to send what it has. A lease, which is not renewed meanwhile, lasts for longer.
	patience time.Duration
	log      *slog.Logger

	founded  atomic.Uint64 // when the fleet was, Unix time in nanoseconds; 0: not known yet
	changing sync.Mutex
	part     lcore.Part
	barred   bool          // nothing is forwarded of what is open
	answered atomic.Uint64 // host shards that hosts reach here
	lapses   atomic.Uint64
	putOff   atomic.Uint64 // times that shards could not pass without a loss
	deadline atomic.Pointer[time.Time]
	opened   atomic.Pointer[lcore.Shards] // what the workers forward; nil: nothing yet
	given    lease.Forwarded              // what others forwarded of shards that were opened a moment ago, and may come late
}

// Open implements lease.Gate.
func (g *shardGate) Open(all []shards.Shard, forwarded lease.Forwarded) {
	g.changing.Lock()
	defer g.changing.Unlock()
	g.settle()
	opened := setOf(all)
	held := both(g.part.Hold, opened)
	if held != (lcore.Shards{}) && (forwarded == nil || !g.tellForwarded(forwarded)) {
		g.part.Hold = minus(g.part.Hold, opened)
		g.noOverlap("who had the shards has not told what it forwarded", "dropped", "what was kept of them")
	}
	g.given = append(g.given, forwarded...)
	g.within(g.port.AwaitReceived) // else workers would take for newer what another member may have forwarded
	g.part.Open = plus(g.part.Open, opened)
	g.apply()
	g.announce(opened.Hosts)
}

// tellForwarded has the workers know what another member has forwarded, before they send what was kept.
func (g *shardGate) tellForwarded(forwarded lease.Forwarded) bool {
	ids := make([]uint64, len(forwarded)/8)
	for i := range ids {
		ids[i] = binary.LittleEndian.Uint64(forwarded[8*i:])
	}
	return g.lease.AddForwarded(ids)
}

// Close implements lease.Gate.
func (g *shardGate) Close(all []shards.Shard) {
	g.changing.Lock()
	defer g.changing.Unlock()
	g.close(setOf(all))
}

func (g *shardGate) close(closed lcore.Shards) {
	for _, s := range []*lcore.Shards{&g.part.Open, &g.part.Leave, &g.part.Hold} {
		*s = minus(*s, closed)
	}
	g.apply()
}

// Leave implements lease.Gate.
func (g *shardGate) Leave(all []shards.Shard) bool {
	g.changing.Lock()
	defer g.changing.Unlock()
	if g.barred || g.unable() != "" {
		return false
	}
	if g.lease.Done() {
		g.given = nil
	}
	g.part.Leave = setOf(all)
	g.apply()
	return true
}

// Stay implements lease.Gate.
func (g *shardGate) Stay(all []shards.Shard, successors []string) {
	g.changing.Lock()
	defer g.changing.Unlock()
	stay := setOf(all)
	g.part.Leave = minus(g.part.Leave, stay)
	g.apply()
	g.announce(stay.Hosts)
	g.putOff.Add(1)
	hosts, groups := countOf(&stay)
	g.log.Warn("fleet_put_off", "members", successors, "host_shards", hosts, "group_shards", groups,
		"note", "they do not say in time that they hold these shards: this bridge goes on with them, and tries again")
}

// mostForwarded is how many packets a member tells of at most, which etcd keeps in one value.
const mostForwarded = 32768

// Left implements lease.Gate.
func (g *shardGate) Left(late []string) lease.Forwarded {
	g.changing.Lock()
	defer g.changing.Unlock()
	g.close(g.part.Leave)
	if !g.within(g.port.AwaitSent) {
		g.noOverlap("the InfiniBand port has not sent in time what it was given", "for", g.patience)
		return nil
	}
	if len(late) > 0 {
		g.noOverlap("members do not say that they hold the shards", "members", late)
	}
	ids, all := g.lease.Noted()
	if !all || len(ids)+len(g.given)/8 > mostForwarded {
		g.noOverlap("more packets were forwarded meanwhile than can be told", "most", mostForwarded)
		return nil
	}
	forwarded := append(lease.Forwarded{}, g.given...) // may come late to the next one, too; nothing is not nil
	for _, id := range ids {
		forwarded = binary.LittleEndian.AppendUint64(forwarded, id)
	}
	return forwarded
}

// within reports whether something was done by then.
func (g *shardGate) within(wait func(context.Context) error) bool {
	ctx, end := context.WithTimeout(context.Background(), g.patience)
	defer end()
	return wait(ctx) == nil
}

// Hold implements lease.Gate.
func (g *shardGate) Hold(all []shards.Shard) bool {
	g.changing.Lock()
	defer g.changing.Unlock()
	g.settle()
	if g.part.Hold == (lcore.Shards{}) {
		g.lease.Forget()
		g.given = nil
	}
	if !g.within(g.port.AwaitReceived) {
		g.noOverlap("the InfiniBand port has not given to workers in time what had come", "for", g.patience)
		return false
	}
	held := setOf(all)
	g.part.Hold = plus(g.part.Hold, held)
	g.apply()
	if !g.await() {
		g.part.Hold = minus(g.part.Hold, held)
		g.apply()
		g.noOverlap("the workers' queues are never empty", "for", g.patience)
		return false
	}
	return true
}

// Attract implements lease.Gate.
func (g *shardGate) Attract(all []shards.Shard) {
	g.changing.Lock()
	defer g.changing.Unlock()
	hosts := setOf(all).Hosts
	g.part.Attracts |= hosts
	g.apply()
	g.announce(hosts)
}

// noOverlap says that shards pass with a loss.
func (g *shardGate) noOverlap(why string, args ...any) {
	g.log.Warn("fleet_no_overlap", append([]any{"reason", why}, args...)...)
}

// Drop implements lease.Gate.
func (g *shardGate) Drop(all []shards.Shard) {
	g.changing.Lock()
	defer g.changing.Unlock()
	g.part.Hold = minus(g.part.Hold, setOf(all))
	g.apply()
	g.noOverlap("their owner has put it off, or has not closed them in time, or the assignment has changed again", "dropped", "what was kept of them")
}

// settle ends holding what is open, when workers are done with it.
func (g *shardGate) settle() {
	if g.lease.Done() {
		g.part.Hold = minus(g.part.Hold, g.part.Open)
	}
}

func (g *shardGate) await() bool {
	return g.within(g.lease.Settled)
}

// announce has switches learn that host shards are here now.
func (g *shardGate) announce(hosts uint64) {
	var macs []frame.MAC
	for s := range shards.Shard(shards.Hosts) {
		if !g.barred && hosts>>s&1 != 0 {
			macs = append(macs, macOf(g.virtual, s))
		}
	}
	g.takeOver(macs)
}

// bar has nothing forwarded, or again what is open. It returns when the workers keep to it.
func (g *shardGate) bar(on bool) {
	g.changing.Lock()
	defer g.changing.Unlock()
	g.barred = on
	g.apply()
	g.announce(g.part.Open.Hosts)
}

// Until implements lease.Gate.
func (g *shardGate) Until(deadline time.Time) {
	if was := g.deadline.Swap(&deadline); was != nil {
		if late := time.Since(*was); late > 0 {
			g.lapses.Add(1)
			g.log.Warn("fleet_lease_lapsed", "for", late.Round(time.Millisecond), "note", "nothing was forwarded meanwhile: etcd did not answer in time")
		}
	}
	g.lease.SetDeadline(deadline)
}

// apply gives the workers their part, and returns when they keep to it. Management answers for it before, and no more
// after.
func (g *shardGate) apply() {
	g.part.Attracts &= g.part.Hold.Hosts
	part := g.part
	if g.barred {
		part = lcore.Part{}
	}
	g.answered.Store(answeredOf(&part))
	had := g.opened.Swap(&part.Open)
	_ = g.lease.Set(context.Background(), &part) // which does not end
	if had == nil && part.Open != (lcore.Shards{}) || had != nil && *had != part.Open {
		hosts, groups := countOf(&part.Open)
		g.log.Info("fleet_shards", "host_shards", hosts, "group_shards", groups)
	}
}

// answeredOf returns the host shards that hosts are to reach here. One that was held may still be so when it is left.
func answeredOf(p *lcore.Part) uint64 { return (p.Open.Hosts | p.Attracts) &^ p.Leave.Hosts }

// macOf returns the MAC address of a host shard; that of shard 0 is the fleet's.
func macOf(fleet frame.MAC, s shards.Shard) frame.MAC {
	fleet[5] = byte(s)
	return fleet
}

// MACFor implements manage.Fleet. Who has no lease any more does not answer: another may have the shard.
func (g *shardGate) MACFor(station frame.MAC) (mac frame.MAC, own bool) {
	s := shards.OfHost(station)
	return macOf(g.virtual, s), g.answered.Load()>>s&1 != 0 && g.entitled()
}

// Has implements manage.Fleet.
func (g *shardGate) Has(mac frame.MAC) bool {
	s := shards.Shard(mac[5])
	return s < shards.Hosts && macOf(g.virtual, s) == mac && g.answered.Load()>>s&1 != 0 && g.entitled()
}

// remind has switches learn again where those host shards are whose turn has come since the last call: each has one a second. Else
// they forget shards of hosts that only send.
func (g *shardGate) remind(now time.Time) {
	if g.reminds.IsZero() {
		g.reminds = now
	}
	turn := int64(now.Sub(g.reminds) / (time.Second / shards.Hosts))
	var macs []frame.MAC
	for g.turn = max(g.turn, turn-shards.Hosts); g.turn < turn; g.turn++ {
		if mac := macOf(g.virtual, shards.Shard(g.turn%shards.Hosts)); g.Has(mac) {
			macs = append(macs, mac)
		}
	}
	if len(macs) > 0 {
		g.reminder(macs)
	}
}

// fleet is what the bridge tells others of its fleet.
func (g *shardGate) fleet() ibside.Fleet { return fleetOf(g.name, g.founded.Load()) }

// comparedClock is the system's, compared with the TSC, by which workers end a lease.
type comparedClock struct {
	lease.SystemClock
	clocks *lcore.Clocks
	log    *slog.Logger
}

// Agree implements lease.Clock.
func (c *comparedClock) Agree() bool {
	err := c.clocks.Agree()
	if err != nil {
		c.log.Error("fleet_clocks_apart", "error", err, "note", "the lease is given up, and asked for anew")
	}
	return err == nil
}

// entitled reports whether the bridge may forward now.
func (g *shardGate) entitled() bool {
	until := g.deadline.Load()
	return until != nil && time.Now().Before(*until)
}
