// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"errors"
	"testing"
	"time"

	"causeway/fleet/shards"
)

// planted are mistakes that the simulation must find; else what it does not find means nothing.
var planted = []struct {
	name  string
	plant func(*simulation, *Member)
	skip  uint64 // how many seeds to leave out: the rarest mistakes are found by one of some 4000
}{
	{"the deadline is counted from the reply", func(_ *simulation, m *Member) {
		m.rules.deadline = func(c *Config, _, replied time.Time) time.Time { return replied.Add(c.Lease) }
	}, 0},
	{"no wait before taking", func(_ *simulation, m *Member) {
		m.rules.blocked = func(*view, identity, time.Time) (out set, _ time.Time) { return out, time.Time{} }
	}, 0},
	{"an assignment of a store that was set back is taken for the one before", func(s *simulation, _ *Member) { s.store.numbered = true }, 1050},
	{"renewals do not compare the epoch", func(s *simulation, _ *Member) { s.store.careless = true }, 0},
	{"renewals do not compare the process", func(s *simulation, m *Member) {
		s.store.shared = true
		m.rules.blocked = func(v *view, own identity, now time.Time) (set, time.Time) {
			for id := range v.processes {
				if id.member == own.member && id != own {
					delete(v.processes, id) // the wait for them finds many of its overlaps alone
				}
			}
			return v.blocked(own, now)
		}
	}, 0},
	{"a member says that it has closed what it leaves before it has", func(_ *simulation, m *Member) {
		m.config.Gate = &hasty{Gate: m.config.Gate}
	}, 0},
	{"a member goes on by promises of most", func(_ *simulation, m *Member) {
		m.rules.agreed = func(u *unanimity) bool { return len(u.missing) <= len(m.view.newest().Members)/2 }
	}, 0},
	{"a member proposes though it has promised not to", func(_ *simulation, m *Member) {
		m.rules.bound = func(m *Member, now time.Time) (*Record, time.Time) {
			by, until := bound(m, now)
			if by != nil {
				until = time.Time{}
			}
			return by, until
		}
	}, 130},
	{"a member promises though it has proposed", func(_ *simulation, m *Member) {
		m.rules.unites = func(m *Member) bool {
			defer func(tried Epoch) { m.proposal.tried = tried }(m.proposal.tried)
			m.proposal.tried = Epoch{}
			return unites(m)
		}
	}, 290},
	{"who comes later proposes though nobody has ended", func(_ *simulation, m *Member) {
		m.rules.bound = func(m *Member, now time.Time) (*Record, time.Time) {
			if _, has := m.view.newest().given[m.config.Name]; !has && m.claimed {
				return nil, time.Time{}
			}
			return bound(m, now)
		}
	}, 0},
	{"a process takes its name from one that may go on", func(_ *simulation, m *Member) {
		m.rules.named = func(m *Member, now time.Time) bool {
			if !m.unanimity.has(m.view, m.own(), now) {
				m.unanimity.named = now
			}
			return true
		}
	}, 100},
	{"proposals do not compare the process", func(s *simulation, _ *Member) { s.store.anybody = true }, 5990},
	{"a member believes a clock that has jumped", func(_ *simulation, m *Member) { m.config.Clock = believed{m.config.Clock} }, 60},
	{"a member opens what it believes its dead neighbour had", func(_ *simulation, m *Member) { m.rules.mine = inherited }, 0},
}

// believed is a clock that is believed.
type believed struct{ Clock }

func (believed) Agree() bool { return true }

// hasty is a gate that closes later than it says.
type hasty struct {
	Gate
	leaving []shards.Shard
}

func (g *hasty) Leave(all []shards.Shard) bool {
	g.leaving = all
	return true
}

func (g *hasty) Left([]string) Forwarded {
	late := g.leaving
	time.AfterFunc(50*time.Millisecond, func() { g.Gate.Close(late) })
	return nil
}

// inherited is what an assignment gives a member, and the shards to which it is the successor of somebody who seems dead.
func inherited(v *view, name string, now time.Time) *set {
	out := *v.newest().to(name)
	alive := map[string]bool{}
	members, _ := v.alive(now)
	for _, m := range members {
		alive[m.Name] = true
	}
	for s := shards.Shard(0); s < shards.Count && v.epoch.Number > 0; s++ {
		if a := v.newest(); a.SuccessorOf(s) == name && !alive[a.OwnerOf(s)] {
			out.add(s)
		}
	}
	return &out
}

func TestPlantedMistakes(t *testing.T) {
	const first, enough = 3000, 9000
	for _, p := range planted {
		t.Run(p.name, func(t *testing.T) {
			for seed := first + p.skip; seed < first+enough; seed++ {
				s, err := simulate(t, seed, p.plant)
				if errors.Is(err, errOverlap) {
					t.Logf("found by seed %d: %v", seed, err)
					if s.linear() {
						t.Error("but porcupine finds an order")
					}
					return
				}
			}
			t.Errorf("not found with %d seeds", enough)
		})
	}
}
