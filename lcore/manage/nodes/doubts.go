// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"time"

	"causeway/ibside/ib"
)

// A doubt is about a path that the subnet told and does not stand by: it knows no port with the LID, or did not tell a
// path when it was asked again. It may have erred, and a path is asked for once a minute only.
type doubt struct {
	lid  ib.LID // 0: it told none
	wait time.Duration
	due  time.Time
}

const (
	firstDoubt = time.Second
	// lastDoubt is how often all paths are asked for without a reason (ibside/sa): a subnet administrator that does not
	// tell of LIDs is asked no more often for long.
	lastDoubt = time.Minute
)

// doubt notes whether a path is doubted. It is asked for again a second later, then each time after twice as long: so a
// wrong path outlasts its cause by as long as that lasted, and a second, at most.
func (n *Nodes) doubt(gid ib.GID, lid ib.LID, doubted bool) {
	if !doubted {
		delete(n.doubts, gid)
		return
	}
	old, was := n.doubts[gid]
	d := doubt{lid: lid, wait: firstDoubt}
	if was && old.lid == lid {
		d.wait = min(2*old.wait, lastDoubt)
	}
	if lid != 0 && (!was || old.lid != lid) && n.Log.Allow("path_unconfirmed", doubtLines) {
		x := n.byGID[gid]
		n.Log.Warn("path_unconfirmed", "node", x.Addrs(), "gid", gid, "lid", lid,
			"note", "the subnet manager knows no port with this LID")
	}
	d.due = time.Now().Add(d.wait)
	n.doubts[gid] = d
}

// doubtLines is how many lines a second tell of doubted paths.
const doubtLines = 10

// resolveDoubted asks for the paths that are doubted for long enough.
func (n *Nodes) resolveDoubted(now time.Time) {
	for gid, d := range n.doubts {
		x, known := n.Find(gid)
		switch {
		case !known || x.LID != 0:
			delete(n.doubts, gid)
		case now.Before(d.due) || n.asking.has(gid):
		default:
			n.resolveIn(x, 1)
		}
	}
}
