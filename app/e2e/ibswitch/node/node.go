// SPDX-License-Identifier: Apache-2.0

// Package node has the switch's software nodes: a channel adapter with a subnet management agent of its own. While its
// port is active, a fabric.Node runs with what the subnet manager has set; when that changes, another one does.
//
//	switch ── link ── Node ─┬─ VL 15: agent
//	                        └─ attachment ── fabric.HCA ── fabric.Node: echo, publish, listen
package node

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"causeway/app/e2e/ibswitch/link"
	"causeway/app/e2e/ibswitch/sma"
	"causeway/app/e2e/ibswitch/smp"
	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// retryAfter is how long a node waits that could not start, as without its group.
const retryAfter = time.Second

// Config describes a node.
type Config struct {
	fabric.NodeConfig                   // what runs behind the port
	Event             func(text string) // one line for each thing that happens
}

// Node is a channel adapter with one port.
type Node struct {
	config  Config
	link    link.Link
	changed chan struct{} // one token: what the subnet manager has set may be new
	closed  chan struct{}
	ended   sync.WaitGroup
	drops   [dropCount]atomic.Uint64

	mu   sync.Mutex
	port sma.Port
	now  *attachment  // or nil
	node *fabric.Node // or nil
}

// New puts a node at a link; Start starts it.
func New(c Config, l link.Link) *Node {
	return &Node{
		config: c, link: l, changed: make(chan struct{}, 1), closed: make(chan struct{}), port: sma.NewPort(sma.Adapter, c.GUID),
	}
}

// Start plugs the node into its link.
func (n *Node) Start() {
	n.ended.Go(n.run)
	n.link.Start(n)
}

// LinkChanged follows the link.
func (n *Node) LinkChanged(up bool) {
	n.mu.Lock()
	n.port.LinkChanged(up)
	n.mu.Unlock()
	n.check()
}

// check has run look at what the subnet manager has set.
func (n *Node) check() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// run keeps a fabric.Node running as the port is.
func (n *Node) run() {
	var with fabric.PortInfo
	var retry <-chan time.Time
	for {
		select {
		case <-n.changed:
		case <-retry:
		case <-n.closed:
			n.stop()
			return
		}
		retry = nil
		wanted, active := n.wanted()
		if n.running() && active && reflect.DeepEqual(wanted, with) {
			continue
		}
		n.stop()
		if !active {
			continue
		}
		with = wanted
		if err := n.begin(wanted); err != nil {
			n.config.Event(fmt.Sprintf("node %s %v", n.config.Name, err))
			retry = time.After(retryAfter)
		}
	}
}

// wanted returns what the subnet manager has assigned, and whether the port is active.
func (n *Node) wanted() (fabric.PortInfo, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := &n.port.Info
	keys := slices.Clone(n.port.PKeys[:])
	for len(keys) > 1 && keys[len(keys)-1] == 0 { // an adapter has at least one
		keys = keys[:len(keys)-1]
	}
	return fabric.PortInfo{
		Name: n.config.Name, GUID: n.config.GUID, GID: ib.GIDFromGUID(i.Prefix, n.config.GUID),
		LID: i.LID, LMC: i.LMC, SMLID: i.SMLID, MTU: i.NeighborMTU, PKeys: keys,
	}, i.State == smp.Active && i.LID != 0
}

func (n *Node) running() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.node != nil
}

// begin starts a fabric.Node.
func (n *Node) begin(info fabric.PortInfo) error {
	a := newAttachment(info, n.link)
	n.mu.Lock()
	n.now = a
	n.mu.Unlock()
	node, err := fabric.StartNode(a, n.config.NodeConfig)
	n.mu.Lock()
	if n.node = node; err != nil {
		n.node, n.now = nil, nil
	}
	n.mu.Unlock()
	if err != nil {
		return err
	}
	n.config.Event(fmt.Sprintf("node %s lid %v qpn %#x active", n.config.Name, info.LID, uint32(node.QP().QPN())))
	return nil
}

// stop ends the fabric.Node that runs, if any.
func (n *Node) stop() {
	n.mu.Lock()
	node := n.node
	n.node = nil
	n.mu.Unlock()
	if node == nil {
		return
	}
	if err := node.Close(); err != nil {
		n.config.Event(fmt.Sprintf("node %s %v", n.config.Name, err))
	}
	n.mu.Lock()
	n.now = nil
	n.mu.Unlock()
	n.config.Event(fmt.Sprintf("node %s inactive", n.config.Name))
}

// Close stops the node. Its link is the caller's.
func (n *Node) Close() {
	close(n.closed)
	n.ended.Wait()
}
