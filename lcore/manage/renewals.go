// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"time"

	"causeway/ibside/ib"
)

// renewals is what the loop has still to do about that.
type renewals struct {
	groups map[ib.GID]Membership
	asking map[ib.GID]bool // nodes whose path is asked for
	again  map[ib.GID]bool // of them, those to ask for once more
}

// subnetBooks is what the loop knows of what the subnet has granted, and what it is asked for besides groups.
type subnetBooks struct {
	renewals renewals
	nodeBooks
}

func newSubnetBooks() subnetBooks {
	return subnetBooks{
		renewals{groups: map[ib.GID]Membership{}, asking: map[ib.GID]bool{}, again: map[ib.GID]bool{}},
		nodeBooks{resolving: map[ib.GID]resolving{}, unput: map[ib.GID]Node{}, has: map[ib.GID]bool{}},
	}
}

// followSubnet has the tables follow what the subnet has changed, and the subnet what hosts there are.
func (l *Loop) followSubnet(now time.Time) {
	l.tendAliases(now)
	door, ok := l.door.(Renewer)
	if !ok {
		return
	}
	r := door.Renewed()
	for mgid, got := range r.Groups {
		l.renewals.groups[mgid] = got
	}
	for mgid, got := range l.renewals.groups {
		if l.renew(l.groups[mgid], got) {
			delete(l.renewals.groups, mgid)
		}
	}
	if r.Paths {
		l.resolveAgain()
		l.hurry(now)
	}
}

// renew takes the renewal of a group. It reports false while a question is under way, whose answer may be older.
func (l *Loop) renew(m *membership, got Membership) bool {
	if m == nil || m.gone {
		return true
	}
	if m.asking {
		return false
	}
	if !m.joined || m.granted == got {
		return true
	}
	l.log.Info("group_renewed", "group", m.IP, "mgid", m.MGID, "mlid", got.MLID, "was", m.granted.MLID)
	m.granted = got
	l.pursue(m)
	return true
}

// resolveAgain asks for the paths to all nodes whose LID is not configured, and that have had an answer. Meanwhile, and where
// there is none, they stay where they were: messages at worst go nowhere.
func (l *Loop) resolveAgain() {
	for _, n := range l.cfg.Nodes {
		switch _, _, known := l.tables.FindNodeGID(n.GID); {
		case n.LID != 0 || !known:
		case l.renewals.asking[n.GID]:
			l.renewals.again[n.GID] = true
		default:
			l.resolveOne(n)
		}
	}
}

// pathTries bounds the questions for one path, some seconds in all: a node that is off must not be asked for all the time.
const pathTries = 6

func (l *Loop) resolveOne(n Node) {
	l.renewals.asking[n.GID] = true
	tries := 0
	l.ask(l.running, func(asking context.Context) error {
		lid, sl, err := l.door.Path(asking, n.GID)
		if tries++; err != nil && tries < pathTries {
			return err
		}
		l.work.Tell(l.running, func() { l.resolvedAgain(n, lid, sl, err) })
		return nil
	})
}

func (l *Loop) resolvedAgain(n Node, lid ib.LID, sl ib.SL, err error) {
	delete(l.renewals.asking, n.GID)
	again := l.renewals.again[n.GID]
	delete(l.renewals.again, n.GID)
	old, _, _ := l.tables.FindNodeGID(n.GID)
	now, configured := l.configuredNode(n.GID)
	switch {
	case !configured || now.LID != 0: // changed meanwhile
		return
	case err != nil:
		l.log.Warn("path_missing", "node", n.addrs(), "gid", n.GID, "error", err, "note", "it stays where it was")
	case old.LID != lid || old.SL != sl:
		n = now
		n.LID, n.SL = lid, sl
		if err := l.putNode(n); err != nil {
			l.log.Error("node_refused", "error", err)
			return
		}
		l.log.Info("node_moved", "node", n.addrs(), "gid", n.GID, "lid", lid, "was", old.LID, "sl", sl)
		l.publish()
	}
	if again && l.running.Err() == nil {
		l.resolveOne(now)
	}
}
