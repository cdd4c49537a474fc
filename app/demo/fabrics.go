// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"causeway/app/bridge"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// secondFabric is the second subnet of -fabrics 2, on which each node has a second port. The publisher sends on both.
//
//	               ┌─ a ─ echo, listen
//	… ─ Causeway ──┤
//	               └─ b ─ echo, listen
//
// The first is cut while the traffic runs, and mended again.
type secondFabric struct {
	subnet *fabric.Fabric
	nodes  []*fabric.Node
	state  atomic.Int32 // see the constants
}

// What becomes of the first fabric.
const (
	whole = iota
	isCut
	mended
)

// mayLose is how long a cut may keep messages from their receivers: the bound of docs/multipath.md.
const mayLose = 150 * time.Millisecond

func secondGUID(i int) ib.GUID { return nodeGUID(i) + 0x100 }

const fabricsTables = `[[ib]]
name = "a"
port = "fabric:"
[[ib]]
name = "b"
port = "fabric:"
[fabrics]
hold_down = 1
`

// makeSecond makes the second subnet.
func (tb *testbed) makeSecond() (err error) {
	s := &secondFabric{}
	if s.subnet, err = fabric.New(fabric.Config{}); err != nil {
		return err
	}
	tb.onClose(s.subnet.Close)
	for i, n := range tb.nodes {
		c := n.Config()
		c.GUID, c.QPN = secondGUID(i), n.QP().QPN()
		p, err := s.subnet.Attach(fabric.PortConfig{Name: c.Name, GUID: c.GUID})
		if err != nil {
			return err
		}
		second, err := fabric.StartNode(p, c)
		if err != nil {
			return err
		}
		s.nodes = append(s.nodes, second)
		tb.onClose(second.Close)
	}
	tb.second = s
	tb.notes = append(tb.notes, "Two fabrics: a is cut after a third of the time, and mended after two thirds")
	return nil
}

// subnets are those of further ports.
func (tb *testbed) subnets() []*fabric.Fabric {
	if tb.second == nil {
		return nil
	}
	return []*fabric.Fabric{tb.second.subnet}
}

// publishers are the publishing node's ports.
func (tb *testbed) publishers() []*fabric.Node {
	if tb.second == nil {
		return tb.nodes[1:]
	}
	return []*fabric.Node{tb.nodes[1], tb.second.nodes[1]}
}

// cutAndMend cuts the first fabric for a third of the duration, until ctx ends; without a second one it does nothing.
func (tb *testbed) cutAndMend(ctx context.Context, b *bridge.Bridge, d time.Duration) {
	if tb.second == nil {
		return
	}
	for _, cut := range []bool{true, false} {
		select {
		case <-time.After(d / 3):
		case <-ctx.Done():
			return
		}
		for _, p := range tb.subnet.Ports() {
			if p.Name == bridgeName {
				_ = tb.subnet.Cut(p.GUID, cut) // it is there
			}
		}
		tb.second.state.Store(map[bool]int32{true: isCut, false: mended}[cut])
	}
}

// bridgeName is the bridge's, and that of its port on the subnet.
const bridgeName = "demo"

// fabricRows are the view's of two fabrics; none for one.
func fabricRows(b source, s *secondFabric) (rows []row) {
	x, ok := b.(*bridge.Bridge)
	if s == nil || !ok {
		return nil
	}
	rows = []row{{}}
	for _, f := range x.Fabrics() {
		state := "up"
		if f.Down != "" {
			state = "DOWN"
		}
		rows = append(rows, row{text: fmt.Sprintf("fabric %s  %-4s  %d of %d groups and %d of %d nodes go by it", f.Name, state, f.ActiveGroups, f.Groups, f.ActiveNodes, f.Nodes)})
	}
	return rows
}

// excuse returns how many messages of a flow a cut may cost.
func (s *secondFabric) excuse(f *flow) uint64 {
	if s == nil || s.state.Load() == whole {
		return 0
	}
	return uint64(mayLose/pause) * f.receivers
}

// configTables returns the tables of the InfiniBand side.
func (tb *testbed) configTables() string {
	if tb.second != nil {
		return fabricsTables
	}
	return "[ib]\nport = \"fabric:\"\n"
}

// gidText returns a node's GIDs as the file has them.
func (tb *testbed) gidText(i int) string {
	if tb.second != nil {
		return fmt.Sprintf("gid = %q\nmore_gids = [%q]", nodeGID(i), ib.GIDFromGUID(subnetGID, secondGUID(i)))
	}
	return fmt.Sprintf("gid = %q", nodeGID(i))
}

// MostFabrics is the most that Options.Fabrics may be.
const MostFabrics = 2
