// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/ibside/multicast"
)

// joinTimeout bounds a join that renews a membership.
const joinTimeout = 5 * time.Second

// memberships are those that rdma_cm joins, where the port has no subnet administration. It joins again what the subnet
// ends or may have lost.
type memberships struct {
	cfg  *Config
	port interface {
		portInfo() PortInfo
		indexOf(pkey ib.PKey) (uint16, error)
	}
	cm     *channel
	groups *multicast.Groups // they receive what is joined
	counts *managementCounts
	log    *slog.Logger
	ctx    context.Context // ends before close
	report func(event)

	one sync.Mutex         // one join or leave at a time
	ids map[ib.GID]*joinID // under one; nil: the group needs no join

	mu        sync.Mutex
	closing   bool
	rejoining map[ib.GID]bool
	ended     sync.WaitGroup // those that rejoin
}

// join joins a group, in place of an earlier membership.
func (m *memberships) join(ctx context.Context, info *PortInfo, j ibside.Join) (ibside.Membership, error) {
	m.one.Lock()
	defer m.one.Unlock()
	return m.joinNow(ctx, info, j)
}

// joinNow is join by a caller that has m.one.
func (m *memberships) joinNow(ctx context.Context, info *PortInfo, j ibside.Join) (ibside.Membership, error) {
	if m.isClosing() {
		return ibside.Membership{}, errClosed
	}
	id, granted, err := m.request(ctx, info, j)
	if err != nil {
		m.counts.count(func(c *counters) { c.JoinErrors++ })
		return ibside.Membership{}, fmt.Errorf("verbs: join %v on %s: %w", j.MGID, m.cfg.name(), err)
	}
	got, err := m.groups.Bind(j, granted)
	if err != nil {
		id.leave()
		return got, err
	}
	m.end(j.MGID)
	m.ids[j.MGID] = id
	return got, nil
}

// leave ends a membership.
func (m *memberships) leave(mgid ib.GID) error {
	m.one.Lock()
	defer m.one.Unlock()
	if !m.groups.Unbind(mgid) {
		return fmt.Errorf("verbs: leave %v: not a member", mgid)
	}
	m.end(mgid)
	return nil
}

// end ends rdma_cm's side of a membership, if there is one. The caller has m.one.
func (m *memberships) end(mgid ib.GID) {
	m.ids[mgid].leave()
	delete(m.ids, mgid)
}

func (m *memberships) isClosing() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closing
}

// close detaches all groups, and leaves those that rdma_cm has joined. None can be joined afterwards.
func (m *memberships) close() {
	m.mu.Lock()
	m.closing = true
	m.mu.Unlock()
	m.groups.Close()
	m.one.Lock()
	for mgid := range m.ids {
		m.end(mgid)
	}
	m.one.Unlock()
	m.ended.Wait()
}

// lost takes the end of a membership by the subnet.
func (m *memberships) lost(mgid ib.GID, ev cmEvent) {
	m.counts.count(func(c *counters) { c.JoinErrors++ })
	m.log.Warn("membership_lost", "mgid", mgid, "event", ev.kind, "status", ev.status)
	m.report(event{Kind: eventMembership, Worker: -1})
	m.startRejoin(mgid)
}

// rejoinAll renews all memberships in the background.
func (m *memberships) rejoinAll() {
	for _, mgid := range m.groups.MGIDs() {
		m.startRejoin(mgid)
	}
}

// startRejoin renews one membership in the background, unless that is under way.
func (m *memberships) startRejoin(mgid ib.GID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closing || m.rejoining[mgid] {
		return
	}
	m.rejoining[mgid] = true
	m.ended.Go(func() {
		m.rejoin(m.ctx, mgid)
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.rejoining, mgid)
	})
}

// rejoin renews a membership. It retries until it succeeds, the group is left, or ctx ends.
func (m *memberships) rejoin(ctx context.Context, mgid ib.GID) {
	for pause := 10 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, time.Second) {
		member, err := m.rejoinOnce(ctx, mgid)
		if err == nil {
			if member {
				m.counts.count(func(c *counters) { c.Rejoined++ })
				m.log.Info("group_rejoined", "mgid", mgid)
			}
			return
		}
		m.log.Warn("group_rejoin", "mgid", mgid, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// rejoinOnce reports whether there still was a membership to renew.
func (m *memberships) rejoinOnce(ctx context.Context, mgid ib.GID) (bool, error) {
	m.one.Lock()
	defer m.one.Unlock()
	j, ok := m.groups.Joined(mgid)
	if !ok || m.isClosing() {
		return false, nil
	}
	if _, err := m.port.indexOf(j.PKey); err != nil {
		return true, err
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	info := m.port.portInfo()
	_, err := m.joinNow(ctx, &info, j)
	return true, err
}
