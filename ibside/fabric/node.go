// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"causeway/ibside/ib"
	"causeway/ibside/sa"
	"causeway/ibside/stamp"
)

// Role is what a node does.
type Role string

// The roles.
const (
	RoleNone    Role = "none"    // nothing: it has a queue pair, and counts what comes
	RoleEcho    Role = "echo"    // answers each message to its sender, with the same payload and immediate
	RolePublish Role = "publish" // sends numbered messages to its groups
	RoleListen  Role = "listen"  // checks and counts what comes
)

const (
	nodeBuffers     = 4096
	nodeJoinTimeout = 5 * time.Second
	defaultSize     = 64
	defaultRatePPS  = 10
)

// GroupConfig is a multicast group that a node joins.
type GroupConfig struct {
	MGID ib.GID
	QKey ib.QKey // of the group
}

// NodeConfig says what node to make.
type NodeConfig struct {
	Name   string
	GUID   ib.GUID
	IP     netip.Addr // informational: what the node is called outside of InfiniBand
	QPN    ib.QPN     // of its queue pair; zero: one is chosen
	QKey   ib.QKey    // of its queue pair; zero: that of rdma_cm's datagrams
	Role   Role       // "": RoleNone
	Groups []GroupConfig

	RatePPS int    // publish: messages a second to each group; zero: 10
	Size    int    // publish: payload, bytes; zero: 64
	Count   uint64 // publish: stop after so many to each group; zero: never

	// OnMessage is called with each message, one after the other. It must not keep or change the payload.
	OnMessage func(n *Node, r *Received)
}

// Node is an adapter with something behind it. Each group has a queue pair of its own, as each has a Q_Key.
type Node struct {
	cfg    NodeConfig
	hca    *HCA
	sa     *sa.Client
	qp     *QP // for unicast
	recv   *RecvQueue
	groups []nodeGroup
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu      sync.Mutex
	stats   NodeStats
	streams map[stream]*stamp.Sequence
}

type nodeGroup struct {
	qp     *QP
	record ib.MCMemberFields
	state  uint8 // the join state
}

// NodeStats counts messages.
type NodeStats struct {
	Received  uint64 // all
	Echoed    uint64 // answered
	Published uint64 // sent
	Unsent    uint64 // answers and publications that were dropped on the way out: see HCAStats.SendDrops

	Stamped uint64 // of Received: test messages (package stamp)
	Damaged uint64 // of Stamped: not as they were sent
	Missing uint64 // numbers that were skipped and did not come later
	Late    uint64 // of Stamped: with a number not above an earlier one: out of order or twice
}

// stream is what a publisher sends in order.
type stream struct {
	lid  ib.LID
	qpn  ib.QPN
	mgid ib.GID
}

// maxStreams bounds what senders can make a listener remember: 8 KiB each.
const maxStreams = 1024

// StartNode puts a node behind a port, here or in another process (Dial). The node owns the port from then on.
func StartNode(port Port, c NodeConfig) (*Node, error) {
	if err := c.setDefaults(); err != nil {
		return nil, errors.Join(err, port.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &Node{
		cfg: c, hca: NewHCA(port), recv: NewRecvQueue(nodeBuffers), cancel: cancel, streams: map[stream]*stamp.Sequence{},
	}
	n.sa = NewSAClient(n.hca)
	if err := n.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("fabric: node %s: %w", c.Name, err), n.Close())
	}
	return n, nil
}

func (c *NodeConfig) setDefaults() error {
	if c.Role == "" {
		c.Role = RoleNone
	}
	if c.QKey == 0 {
		c.QKey = ib.QKeyRDMAUDP
	}
	if c.RatePPS == 0 {
		c.RatePPS = defaultRatePPS
	}
	if c.Size == 0 {
		c.Size = defaultSize
	}
	switch {
	case c.Role != RoleNone && c.Role != RoleEcho && c.Role != RolePublish && c.Role != RoleListen:
		return fmt.Errorf("fabric: node %s: role %q is not known; use echo, publish, listen or none", c.Name, c.Role)
	case c.RatePPS < 0 || c.RatePPS > 10_000_000:
		return fmt.Errorf("fabric: node %s: rate %d; use 1 to 10000000 messages a second", c.Name, c.RatePPS)
	case c.Size < stamp.Len || c.Size > ib.MTU4096.Bytes():
		return fmt.Errorf("fabric: node %s: size %d; use %d to 4096 bytes", c.Name, c.Size, stamp.Len)
	case c.Role == RolePublish && len(c.Groups) == 0:
		return fmt.Errorf("fabric: node %s: a publisher needs a group", c.Name)
	}
	return nil
}

func (n *Node) start(ctx context.Context) error {
	var err error
	if n.qp, err = n.hca.CreateQP(QPConfig{QPN: n.cfg.QPN, QKey: n.cfg.QKey, Recv: n.recv}); err != nil {
		return err
	}
	for _, g := range n.cfg.Groups {
		if err := n.join(ctx, g); err != nil {
			return err
		}
	}
	n.ended.Go(func() { n.receive(ctx) })
	if n.cfg.Role == RolePublish {
		for i := range n.groups {
			n.ended.Go(func() { n.publish(ctx, &n.groups[i]) })
		}
	}
	return nil
}

// join makes the node a member: a publisher only sends, all others receive.
func (n *Node) join(ctx context.Context, g GroupConfig) error {
	ctx, cancel := context.WithTimeout(ctx, nodeJoinTimeout)
	defer cancel()
	state := uint8(ib.JoinFull)
	if n.cfg.Role == RolePublish {
		state = ib.JoinSendOnlyFull
	}
	record, err := n.sa.Join(ctx, ib.MCMemberFields{
		MGID: g.MGID, QKey: g.QKey, PKey: n.hca.own().PKeys[0], JoinState: state,
	})
	if err != nil {
		return err
	}
	qp, err := n.hca.CreateQP(QPConfig{QKey: record.QKey, Recv: n.recv})
	if err != nil {
		return err
	}
	n.groups = append(n.groups, nodeGroup{qp, record, state})
	if state == ib.JoinFull {
		return qp.AttachMulticast(record.MGID)
	}
	return nil
}

func (n *Node) receive(ctx context.Context) {
	var burst [recvBurst]Received
	for n.recv.Wait(ctx) == nil {
		n.messages(burst[:n.recv.Poll(burst[:])])
	}
}

func (n *Node) messages(all []Received) {
	n.mu.Lock()
	n.stats.Received += uint64(len(all))
	if n.cfg.Role == RoleListen {
		for i := range all {
			n.check(&all[i])
		}
	}
	n.mu.Unlock()
	if n.cfg.Role == RoleEcho {
		n.echo(all)
	}
	if n.cfg.OnMessage != nil {
		for i := range all {
			n.cfg.OnMessage(n, &all[i])
		}
	}
}

// check reads the stamp. The caller holds the lock.
func (n *Node) check(r *Received) {
	s, verdict := stamp.Read(r.Payload)
	if verdict == stamp.Foreign || verdict == stamp.Short {
		return
	}
	n.stats.Stamped++
	if !verdict.Intact() {
		n.stats.Damaged++
	}
	if !verdict.Stamped() {
		return
	}
	key := stream{r.SLID, r.SrcQP, r.MGID()}
	seq := n.streams[key]
	if seq == nil && len(n.streams) < maxStreams {
		seq = &stamp.Sequence{}
		n.streams[key] = seq
	}
	if seq != nil {
		seq.Note(s.Number)
	}
}

// echo answers from the queue pair for unicast: nobody can answer to a group's.
func (n *Node) echo(all []Received) {
	var posts [recvBurst]Post
	var why [recvBurst]string
	for i := range all {
		r := &all[i]
		posts[i] = Post{n.qp, Send{
			AH: addressOf(r), DestQP: r.SrcQP, QKey: n.cfg.QKey, Imm: r.Imm, HasImm: r.HasImm, Solicited: r.Solicited,
			Payload: r.Payload,
		}}
	}
	n.hca.SendBurst(posts[:len(all)], why[:len(all)])
	for _, cause := range why[:len(all)] {
		n.count(cause, func(st *NodeStats) *uint64 { return &st.Echoed })
	}
}

func (n *Node) count(cause string, sent func(*NodeStats) *uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if cause != "" {
		n.stats.Unsent++
		return
	}
	*sent(&n.stats)++
}

// publish sends numbered messages at the configured rate. What a late tick missed is made up for by the next.
func (n *Node) publish(ctx context.Context, g *nodeGroup) {
	tick := time.NewTicker(max(time.Millisecond, time.Second/time.Duration(n.cfg.RatePPS)))
	defer tick.Stop()
	began, number := time.Now(), uint64(0)
	for {
		due := uint64(time.Since(began).Seconds()*float64(n.cfg.RatePPS)) + 1
		if n.cfg.Count > 0 {
			due = min(due, n.cfg.Count)
		}
		for ; number < due && ctx.Err() == nil; number++ {
			n.sendStamped(g, number+1)
		}
		if number == n.cfg.Count && n.cfg.Count > 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (n *Node) sendStamped(g *nodeGroup, number uint64) {
	rec := &g.record
	cause := g.qp.Send(&Send{
		AH: AH{DLID: rec.MLID, SL: rec.SL, GRH: &ib.GRHFields{
			DGID: rec.MGID, TClass: rec.TClass, FlowLabel: rec.FlowLabel, HopLimit: rec.HopLimit,
		}},
		DestQP: ib.QPMulticast, QKey: rec.QKey, Payload: stamp.Message(number, n.cfg.Size),
	})
	n.count(cause, func(st *NodeStats) *uint64 { return &st.Published })
}

// Config returns the node's configuration, defaults filled in.
func (n *Node) Config() NodeConfig { return n.cfg }

// HCA returns the node's adapter.
func (n *Node) HCA() *HCA { return n.hca }

// QP returns the queue pair that unicast messages go to.
func (n *Node) QP() *QP { return n.qp }

// SA returns the node's client of the subnet administrator.
func (n *Node) SA() *sa.Client { return n.sa }

// Stats returns the counters.
func (n *Node) Stats() NodeStats {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.stats
	for _, seq := range n.streams {
		s.Missing += seq.Lost()
		s.Late += seq.Duplicates + seq.Reordered + seq.Old
	}
	return s
}

// Close stops the node, leaves its groups and takes its port off the subnet.
func (n *Node) Close() error {
	n.cancel()
	n.ended.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, g := range n.groups {
		if err := n.sa.Leave(ctx, g.record.MGID, ib.GID{}, g.state); err != nil {
			break // closing the port ends all memberships
		}
	}
	return n.hca.Close()
}

// addressOf returns the address handle for an answer to a message.
func addressOf(r *Received) AH {
	ah := AH{DLID: r.SLID, SL: r.SL}
	if grh, ok := ib.AsGRH(r.GRH[:]); ok && r.HasGRH {
		ah.GRH = &ib.GRHFields{DGID: grh.SGID(), TClass: grh.TClass(), FlowLabel: grh.FlowLabel(), HopLimit: grh.HopLimit()}
	}
	return ah
}
