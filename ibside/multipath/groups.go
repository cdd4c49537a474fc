// SPDX-License-Identifier: Apache-2.0

package multipath

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
)

// groups joins groups on all members. A join that fails on one is repeated until it succeeds, while the others carry the
// group.
type groups struct {
	*state
	judge    *judge
	renewals *renewals
}

// A join is what became of joining one group on one member.
type join struct {
	runs  bool
	ended uint64 // the Join that the last attempt was for
	err   error
	tries int
	again time.Time
}

const (
	joinTimeout = 10 * time.Second
	// A Join waits so long for the other members once one has joined, and a Path for their answers: see state.
	othersWait  = 300 * time.Millisecond
	shortestGap = time.Second
	longestGap  = 30 * time.Second
)

// mgidOf is a group's MGID on a member: those of IP have the P_Key in them (RFC 4391 §4).
func (s *state) mgidOf(member int, mgid ib.GID) ib.GID {
	return replacePKey(mgid, s.cfg.Members[0].PKey, s.cfg.Members[member].PKey)
}

// mgidFrom is the reverse of mgidOf.
func (s *state) mgidFrom(member int, mgid ib.GID) ib.GID {
	return replacePKey(mgid, s.cfg.Members[member].PKey, s.cfg.Members[0].PKey)
}

func replacePKey(mgid ib.GID, from, to ib.PKey) ib.GID {
	const full = 0x8000
	ip := mgid[3] == 0x1b && mgid[2]&0x0f == 0 || mgid[3] == 0x01 && (mgid[2] == 0x40 || mgid[2] == 0x60)
	if have := ib.PKey(mgid[4])<<8 | ib.PKey(mgid[5]); !ip || have != from && have != from|full {
		return mgid
	}
	mgid[4], mgid[5] = byte((to|full)>>8), byte(to)
	return mgid
}

// Join implements ibside.Port. It returns when all members have joined or failed, or soon after the first has joined.
func (g *groups) Join(ctx context.Context, j ibside.Join) (ibside.Membership, error) {
	if j.Worker < 0 || j.Worker >= g.cfg.Workers {
		return ibside.Membership{}, fmt.Errorf("multipath: join %v: worker %d; there are %d", j.MGID, j.Worker, g.cfg.Workers)
	}
	g.mu.Lock()
	d := g.byGID[j.MGID]
	if d == nil {
		var err error
		if d, err = g.add(j.MGID, true, 0); err != nil {
			g.mu.Unlock()
			return ibside.Membership{}, err
		}
	}
	d.want, d.left, d.pkey = j, false, j.PKey
	d.wanted++
	wanted := d.wanted
	for i := range g.cfg.Members {
		g.begin(d, i)
	}
	g.mu.Unlock()
	return g.await(ctx, d, wanted)
}

// await waits for the joins of a Join.
func (g *groups) await(ctx context.Context, d *destination, wanted uint64) (ibside.Membership, error) {
	var enough <-chan time.Time
	for {
		g.mu.Lock()
		joined, ended, errs := 0, 0, []error(nil)
		for i, m := range g.cfg.Members {
			if j := &d.joins[i]; j.ended >= wanted {
				ended++
				if j.err == nil {
					joined++
				} else {
					errs = append(errs, fmt.Errorf("%s: %w", m.Name, j.err))
				}
			}
		}
		news, m := d.news, g.membership(d)
		g.mu.Unlock()
		switch {
		case ended == len(g.cfg.Members) && joined == 0:
			return ibside.Membership{}, errors.Join(errs...)
		case ended == len(g.cfg.Members):
			g.settle(d)
			return m, nil
		case joined > 0 && enough == nil:
			enough = time.After(g.othersWait)
		}
		select {
		case <-news:
		case <-enough:
			g.settle(d)
			return m, nil
		case <-ctx.Done():
			return ibside.Membership{}, ctx.Err()
		}
	}
}

func (g *groups) settle(d *destination) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d.settle()
}

// membership is what all members together grant. The MLID is the Port's own. The caller holds the lock.
func (g *groups) membership(d *destination) ibside.Membership {
	m := ibside.Membership{MLID: d.lid, QKey: d.want.QKey, HopLimit: 1, MTU: g.leastMTU(d)}
	for i := range g.cfg.Members {
		if d.has(i) {
			w := d.view.ways[i]
			m.SL, m.QKey, m.HopLimit = w.sl, w.qkey, w.hopLimit
			break
		}
	}
	return m
}

// begin starts to join on a member, unless that is under way: then it is done once more at its end. The caller holds the
// lock.
func (g *groups) begin(d *destination, member int) {
	j := &d.joins[member]
	if j.runs {
		return
	}
	j.runs = true
	want, wanted := d.want, d.wanted
	g.attempts.Go(func() { g.join(d, member, want, wanted) })
}

func (g *groups) join(d *destination, member int, want ibside.Join, wanted uint64) {
	ctx, cancel := context.WithTimeout(g.ctx, joinTimeout)
	defer cancel()
	port := g.cfg.Members[member].Port
	want.MGID, want.PKey = g.mgidOf(member, want.MGID), g.pkeyOf(member, want.PKey)
	m, err := port.Join(ctx, want)
	g.mu.Lock()
	defer g.mu.Unlock()
	j := &d.joins[member]
	j.runs, j.ended = false, wanted
	if d.left {
		if err == nil && g.byGID[d.view.gid] == nil { // else it has been joined again
			g.attempts.Go(func() { _ = g.leaveMember(member, want.MGID) })
		}
		return
	}
	if err == nil {
		err = g.joined(d, member, want.MGID, m)
	}
	g.result(d, member, err)
	if d.wanted != wanted {
		g.begin(d, member)
	}
	close(d.news)
	d.news = make(chan struct{})
}

// result notes how an attempt ended. The caller holds the lock.
func (g *groups) result(d *destination, member int, err error) {
	j := &d.joins[member]
	j.err = err
	if err == nil {
		j.tries = 0
		return
	}
	j.again = time.Now().Add(min(shortestGap<<j.tries, longestGap))
	j.tries = min(j.tries+1, 5)
	g.cfg.Log.Warn("ib_path_join_failed", "port", g.cfg.Members[member].Name, "mgid", d.view.gid, "error", err)
}

// joined takes what a member was granted. The caller holds the lock.
func (g *groups) joined(d *destination, member int, mgid ib.GID, m ibside.Membership) error {
	before := g.membership(d)
	was := d.settled
	d.mtu[member] = m.MTU
	err := g.setWay(d, member, way{dgid: mgid, qkey: m.QKey, lid: m.MLID, sl: m.SL, rate: m.Rate, hopLimit: m.HopLimit, grh: true})
	if err != nil {
		return err
	}
	d.rule = g.cfg.Rule(d.view.gid)
	g.judge.place(d)
	if now := g.membership(d); was && now != before {
		g.renewals.group(d.view.gid, now)
	}
	return nil
}

// Leave implements ibside.Port.
func (g *groups) Leave(_ context.Context, mgid ib.GID) error {
	g.mu.Lock()
	d := g.byGID[mgid]
	if d == nil || !d.view.group {
		g.mu.Unlock()
		return fmt.Errorf("multipath: leave %v: not a member", mgid)
	}
	d.left = true
	var on []int
	for i := range g.cfg.Members {
		if d.has(i) {
			on = append(on, i)
		}
	}
	g.remove(d)
	g.mu.Unlock()
	errs := make([]error, len(on))
	var leaving sync.WaitGroup
	for k, i := range on {
		leaving.Go(func() { errs[k] = g.leaveMember(i, g.mgidOf(i, mgid)) })
	}
	leaving.Wait()
	return errors.Join(errs...)
}

// leaveMember leaves a group on one member. One that is down cannot be asked: its subnet has dropped the membership.
func (g *groups) leaveMember(member int, mgid ib.GID) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	m := g.cfg.Members[member]
	err := m.Port.Leave(ctx, mgid)
	if err != nil && m.Port.Info().Down != "" {
		return nil
	}
	return err
}

// retryJoins repeats joins that have failed, and follows changed rules.
func (g *groups) retryJoins(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, d := range g.byGID {
		if !d.view.group {
			continue
		}
		if rule := g.cfg.Rule(d.view.gid); rule != d.rule {
			d.rule = rule
			g.judge.choose(d)
		}
		for i := range g.cfg.Members {
			if j := &d.joins[i]; !d.left && j.err != nil && now.After(j.again) {
				g.begin(d, i)
			}
		}
	}
}
