// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"causeway/ibside/ib"
)

// PrefixLinkLocal is the default subnet prefix, fe80::/64.
const PrefixLinkLocal uint64 = 0xfe80 << 48

const (
	defaultQueue = 4096
	smGUID       = ib.GUID(0x0002c90300000001)
)

// Config describes a subnet. The zero value is a subnet with only its administrator.
type Config struct {
	Prefix      uint64    // of all GIDs; zero: PrefixLinkLocal
	MTU         ib.MTU    // largest of a port; zero: 4096
	LMC         uint8     // each port has 1<<LMC LIDs; at most 7
	PKeys       []ib.PKey // the default P_Key table of ports; nil: 0xffff
	Capture     io.Writer // every packet, as pcap of ERF records; nil: none
	CaptureFile string    // the same, to a file
	Socket      string    // path of a Unix socket for other processes; "": none
	Queue       int       // depth of a port's receive queue, packets; zero: 4096
	Lose        float64   // the share of all packets that the switch loses; see Fabric.Lose
	Nodes       []NodeConfig
}

// Fabric is one subnet. All its methods may be called from any goroutine.
type Fabric struct {
	cfg    Config
	sw     *Switch
	sa     *SA
	nodes  []*Node
	server *server // nil: no socket

	mu      sync.Mutex
	ports   map[ib.LID]*switchPort // by base LID
	guids   map[ib.GUID]ib.LID
	nextLID ib.LID
	gone    PortStats            // of closed ports
	leaving map[*switchPort]bool // no join finds them any more, and they are not closed yet
	closed  bool
}

// New makes a subnet and starts its nodes. The caller must Close it.
func New(cfg Config) (*Fabric, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	c, err := newCapture(cfg.Capture, cfg.CaptureFile)
	if err != nil {
		return nil, err
	}
	f := &Fabric{
		cfg: cfg, sw: newSwitch(c, cfg.LMC), ports: map[ib.LID]*switchPort{}, guids: map[ib.GUID]ib.LID{},
		nextLID: 1 << cfg.LMC, gone: PortStats{Drops: Counts{}}, leaving: map[*switchPort]bool{},
	}
	f.Lose(cfg.Lose)
	if err := f.start(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *Fabric) start() error {
	port, err := f.Attach(PortConfig{Name: "sm", GUID: smGUID})
	if err != nil {
		return err
	}
	f.sa = newSA(f, NewHCA(port))
	if err := f.startNodes(); err != nil {
		return err
	}
	if f.cfg.Socket != "" {
		f.server, err = listen(f, f.cfg.Socket)
	}
	return err
}

// startNodes assigns LIDs in the order of the configuration, and starts publishers after all other nodes have joined,
// so that listeners receive the first message.
func (f *Fabric) startNodes() error {
	ports := make([]Port, len(f.cfg.Nodes))
	f.nodes = make([]*Node, len(f.cfg.Nodes))
	for i, n := range f.cfg.Nodes {
		var err error
		if ports[i], err = f.Attach(PortConfig{Name: n.Name, GUID: n.GUID}); err != nil {
			return err
		}
	}
	for _, publishers := range []bool{false, true} {
		for i, n := range f.cfg.Nodes {
			if (n.Role == RolePublish) != publishers {
				continue
			}
			var err error
			if f.nodes[i], err = StartNode(ports[i], n); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Config) setDefaults() error {
	if c.Prefix == 0 {
		c.Prefix = PrefixLinkLocal
	}
	if c.MTU == 0 {
		c.MTU = ib.MTU4096
	}
	if c.Queue == 0 {
		c.Queue = defaultQueue
	}
	if c.PKeys == nil {
		c.PKeys = []ib.PKey{ib.PKeyDefault}
	}
	switch bad := slices.IndexFunc(c.PKeys, func(k ib.PKey) bool { return !k.Valid() }); {
	case !c.MTU.Valid():
		return fmt.Errorf("fabric: mtu %d is not one of the codes 1 (256) to 5 (4096)", c.MTU)
	case len(c.PKeys) == 0 || len(c.PKeys) > maxPKeys:
		return fmt.Errorf("fabric: %d P_Keys; a port has 1 to %d", len(c.PKeys), maxPKeys)
	case bad >= 0:
		return fmt.Errorf("fabric: P_Key %v is not a partition", c.PKeys[bad])
	case c.LMC > ib.MaxLMC:
		return fmt.Errorf("fabric: LMC %d; use 0 to %d", c.LMC, ib.MaxLMC)
	case !(c.Lose >= 0 && c.Lose <= 1):
		return fmt.Errorf("fabric: lose %v; use 0 to 1", c.Lose)
	case c.Queue < 0:
		return fmt.Errorf("fabric: queue %d is negative", c.Queue)
	}
	return nil
}

// Attach adds a port of this process to the subnet.
func (f *Fabric) Attach(c PortConfig) (Port, error) {
	p, err := f.attach(c)
	if err != nil {
		return nil, err // not a nil *switchPort in a Port
	}
	return p, nil
}

// attach adds a port to the subnet and makes the administrator send notices, before any answer that tells of the port.
func (f *Fabric) attach(c PortConfig) (*switchPort, error) {
	if f.sa == nil {
		return f.register(c)
	}
	f.sa.mu.Lock()
	defer f.sa.mu.Unlock()
	p, err := f.register(c)
	if err == nil {
		f.sa.portCame(p.info)
	}
	return p, err
}

func (f *Fabric) register(c PortConfig) (*switchPort, error) {
	pkeys, err := f.pkeysFor(c)
	if err != nil {
		return nil, err
	}
	if c.Queue <= 0 {
		c.Queue = f.cfg.Queue
	}
	if !c.MTU.Valid() || c.MTU > f.cfg.MTU {
		c.MTU = f.cfg.MTU
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, ErrClosed
	}
	if c.GUID == 0 {
		return nil, fmt.Errorf("fabric: node %s has no GUID; give it one, such as 0x0002c90300000007", c.Name)
	}
	if lid, used := f.guids[c.GUID]; used {
		return nil, fmt.Errorf("fabric: node %s: GUID %v %w by LID %v; stop that node, or use another GUID", c.Name, c.GUID, ErrGUIDInUse, lid)
	}
	lid, err := f.freeLID()
	if err != nil {
		return nil, err
	}
	p := &switchPort{fabric: f, queue: newQueue(c.Queue), info: PortInfo{
		Name: c.Name, GUID: c.GUID, GID: ib.GIDFromGUID(f.cfg.Prefix, c.GUID), LID: lid, LMC: f.cfg.LMC,
		SMLID: 1 << f.cfg.LMC, MTU: c.MTU, PKeys: pkeys,
	}}
	f.ports[lid], f.guids[c.GUID] = p, lid
	f.sw.add(p)
	return p, nil
}

func (f *Fabric) pkeysFor(c PortConfig) ([]ib.PKey, error) {
	if len(c.PKeys) == 0 {
		return slices.Clone(f.cfg.PKeys), nil
	}
	for _, k := range c.PKeys {
		if !slices.ContainsFunc(f.cfg.PKeys, k.Matches) {
			return nil, fmt.Errorf("fabric: port %s: P_Key %v is not of the subnet", c.Name, k)
		}
	}
	return slices.Clone(c.PKeys), nil
}

// freeLID assigns LIDs in turn, so that a freed LID is not reused at once.
func (f *Fabric) freeLID() (ib.LID, error) {
	step := ib.LID(1) << f.cfg.LMC
	for range ib.LIDLast / step {
		lid := f.nextLID
		f.nextLID += step
		if f.nextLID > ib.LIDLast {
			f.nextLID = step
		}
		if f.ports[lid] == nil {
			return lid, nil
		}
	}
	return 0, errors.New("fabric: all LIDs are in use")
}

// detach removes a port: first from the registry, so that no join finds it, then its memberships, then its LID.
func (f *Fabric) detach(p *switchPort) {
	if f.sa == nil {
		f.unregister(p)
	} else {
		f.sa.mu.Lock()
		f.unregister(p)
		f.sa.portGone(p.info)
		f.sa.mu.Unlock()
	}
	f.sw.remove(p)
	p.queue.close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.leaving, p)
	f.gone.add(p.queue.stats())
}

func (f *Fabric) unregister(p *switchPort) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.ports, p.info.LID)
	delete(f.guids, p.info.GUID)
	f.leaving[p] = true
}

func (s *PortStats) add(o PortStats) {
	s.Queued += o.Queued
	s.Taken += o.Taken
	s.Waiting += o.Waiting
	s.Drops.add(o.Drops)
}

func (f *Fabric) prefix() uint64 { return f.cfg.Prefix }

func (f *Fabric) portByLID(lid ib.LID) (PortInfo, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.ports[lid.Base(f.cfg.LMC)]; p != nil {
		return p.info, true
	}
	return PortInfo{}, false
}

func (f *Fabric) portByGID(gid ib.GID) (PortInfo, bool) {
	if gid.Prefix() != f.cfg.Prefix {
		return PortInfo{}, false
	}
	f.mu.Lock()
	lid := f.guids[gid.GUID()]
	f.mu.Unlock()
	return f.portByLID(lid)
}

// Ports lists the ports of the subnet by LID.
func (f *Fabric) Ports() []PortInfo {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []PortInfo
	for _, p := range f.ports {
		all = append(all, p.Info())
	}
	slices.SortFunc(all, func(a, b PortInfo) int { return int(a.LID) - int(b.LID) })
	return all
}

// Stats returns the switch's counters and the sums over all ports, including closed ones, of one moment:
// SwitchStats.Out = PortStats.Queued, always.
func (f *Fabric) Stats() (SwitchStats, PortStats) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sw.mu.Lock()
	defer f.sw.mu.Unlock()
	all := PortStats{Drops: Counts{}}
	all.add(f.gone)
	for _, p := range f.ports {
		all.add(p.queue.stats())
	}
	for p := range f.leaving {
		all.add(p.queue.stats())
	}
	return f.sw.counts(), all
}

// Quiet reports whether no packet is queued for a port, and each HCA of this process has processed what it received.
func (f *Fabric) Quiet() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.ports {
		if !p.queue.idle() {
			return false
		}
	}
	return true
}

// SA returns the subnet administrator.
func (f *Fabric) SA() *SA { return f.sa }

// Node returns the node with that name, or nil.
func (f *Fabric) Node(name string) *Node {
	for _, n := range f.nodes {
		if n.cfg.Name == name {
			return n
		}
	}
	return nil
}

// Nodes lists the subnet's own nodes.
func (f *Fabric) Nodes() []*Node { return slices.Clone(f.nodes) }

// Close stops the nodes and the socket, and closes all ports.
func (f *Fabric) Close() error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	var err error
	if f.server != nil {
		err = f.server.close()
	}
	for _, n := range f.nodes {
		if n != nil { // when New failed
			err = errors.Join(err, n.Close())
		}
	}
	if f.sa != nil {
		err = errors.Join(err, f.sa.close())
	}
	f.mu.Lock()
	var left []*switchPort
	for _, p := range f.ports {
		left = append(left, p)
	}
	f.mu.Unlock()
	for _, p := range left {
		err = errors.Join(err, p.Close())
	}
	if f.sw.capture != nil {
		err = errors.Join(err, f.sw.capture.close())
	}
	return err
}
