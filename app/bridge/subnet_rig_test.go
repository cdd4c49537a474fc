// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/ibside/multicast"
	"causeway/ibside/sa"
	"causeway/ibside/sa/opensmtest"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
	"causeway/tables"
)

// rigPort is a port without hardware: its groups, and subnet administration.
type rigPort struct {
	*sa.Administration
	groups *multicast.Groups
	client *sa.Client
	mu     sync.Mutex
	lastQP uint32
}

// noQP is a queue pair that receives nothing.
type noQP struct{}

func (noQP) Attach(ib.GID, ib.LID) error { return nil }
func (noQP) Detach(ib.GID, ib.LID) error { return nil }
func (noQP) Destroy() error              { return nil }

func newRigPort(port sa.Transport, r sa.RegistrarConfig, log *slog.Logger) *rigPort {
	p := &rigPort{groups: multicast.New(multicast.Config{
		Create: func(multicast.Key) (multicast.QP, error) { return noQP{}, nil },
		MTU:    func() ib.MTU { return ib.MTU4096 }, Mbps: func() int { return 0 }, PerQP: 1, Log: log,
	})}
	// Waits only briefly for an answer.
	p.client = sa.NewClient(port, sa.Config{SMKey: 1, FirstWait: 50 * time.Millisecond, Tries: 2})
	p.Administration = sa.NewAdministration(p.client, p.groups.Renew, r, log)
	return p
}

func (p *rigPort) Join(ctx context.Context, j ibside.Join) (ibside.Membership, error) {
	return p.groups.Join(ctx, p.Administration, j)
}

func (p *rigPort) Leave(ctx context.Context, mgid ib.GID) error {
	return p.groups.Leave(ctx, p.Administration, mgid)
}

func (p *rigPort) Own() ibside.Own {
	s, err := p.client.PortState()
	if err != nil || s.GID.IsZero() {
		return ibside.Own{PKeys: []ib.PKey{ib.PKeyDefault}}
	}
	return ibside.Own{LID: s.LID, LMC: s.LMC, GIDs: []ib.GID{s.GID}, Sources: []ibside.Source{{GID: s.GID}}, PKeys: []ib.PKey{ib.PKeyDefault}}
}

func (p *rigPort) CreateProxyQP(int, ib.PKey, ib.QKey) (uint32, ib.QPN, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastQP++
	return p.lastQP, ib.QPN(0x100 + p.lastQP), nil
}

func (p *rigPort) DestroyProxyQP(uint32) error { return nil }

// subscriptions counts the subscriptions that the SA has confirmed.
type subscriptions struct {
	sa.Transport
	confirmed atomic.Int32
}

func (s *subscriptions) ReceiveMAD(mad []byte) (ib.LID, ib.SL, error) {
	from, sl, err := s.Transport.ReceiveMAD(mad)
	if m, ok := ib.AsMAD(mad); err == nil && ok && m.IsResponse() && m.AttrID() == ib.AttrInformInfo && m.Status() == 0 {
		s.confirmed.Add(1)
	}
	return from, sl, err
}

// mute is a worker that receives nothing.
type mute struct{}

func (mute) TakePunted() []manage.Punted { return nil }
func (mute) Send(uint8, []byte) error    { return nil }

// lines is a log that the test reads while others write.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// has reports whether a line contains all words.
func (l *lines) has(words ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(l.b.Bytes()) {
		all := true
		for _, w := range words {
			all = all && bytes.Contains(line, []byte(w))
		}
		if all {
			return true
		}
	}
	return false
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// rig is the management loop at a host of a subnet that a real SM manages; and two nodes, with clients that ask what
// the SA knows.
type rig struct {
	t      *testing.T
	ibPort *rigPort
	traps  *subscriptions
	loop   *manage.Loop
	tables *tables.Tables
	log    *lines
	nodes  map[netip.Addr]*sa.Client
	other  *sa.Client // one of them
	end    func()

	abandoned bool // there is no SM that Close could withdraw from
}

var (
	rigGroups = []manage.Group{
		{IP: netip.MustParseAddr("239.1.2.3"), ToIB: true, ToRoCE: true},
		{IP: netip.MustParseAddr("239.1.2.4"), ToIB: true},
		{IP: netip.MustParseAddr("239.1.2.5"), ToRoCE: true},
		{IP: netip.MustParseAddr("239.1.2.6"), ToIB: true, ToRoCE: true},
	}
	rigRange = netip.MustParsePrefix("239.7.0.0/24")
	rigHosts = []tables.Host{
		{IP: netip.MustParseAddr("10.9.0.1"), MAC: frame.MAC{2, 0, 0, 0, 0, 1}, Version: 2, Static: true},
		{IP: netip.MustParseAddr("fe80::abcd"), MAC: frame.MAC{2, 0, 0, 0, 0, 2}, Version: 2, Static: true},
	}
	rigAliases = []ib.GUID{0x000000fffe000001, 0xabcd} // of the hosts: by MAC address, by IP address
)

func rigMGID(ip netip.Addr) ib.GID { return ib.MGIDRDMACM(ip, ib.PKeyDefault, 2) }

// seldom makes a registrar's intervals so long that it does only what a test provokes.
func seldom() sa.RegistrarConfig {
	return sa.RegistrarConfig{
		Watch: time.Hour, Refresh: time.Hour, Spread: time.Millisecond, FirstWait: 20 * time.Millisecond, MaxWait: 100 * time.Millisecond,
	}
}

func newRig(t *testing.T, s *opensmtest.Subnet, c sa.RegistrarConfig) *rig {
	t.Helper()
	r := &rig{t: t, log: &lines{}, nodes: map[netip.Addr]*sa.Client{}}
	port, err := opensmtest.DialIbsim(s.Name, "bridge")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(r.log, nil))
	r.traps = &subscriptions{Transport: port}
	r.ibPort = newRigPort(r.traps, c, log)
	r.tables, err = tables.New(tables.Config{MaxHosts: 8, MaxProxyQPs: 8, MaxNodes: 8, MaxGroups: 16, MaxReaders: 1})
	if err != nil {
		t.Fatal(err)
	}
	cfg := manage.Config{
		MAC: frame.MAC{2, 0, 0, 0, 0, 0xfe}, Segment: manage.Segment{
			Addresses: []netip.Prefix{netip.MustParsePrefix("10.9.0.254/24")}, Version: 2, RoCEMTU: 4096,
		},
		PKey: ib.PKeyDefault, IBMTU: 4096, MaxHosts: 8, ProxyQPs: 8, ProxyQPLimits: manage.ProxyQPLimits{PerHost: 3}, AliasGIDs: true, MaxGroups: 8,
	}
	cfg.Hosts, cfg.Ranges = rigHosts, []manage.Range{{
		Prefix: rigRange, SA: true, Most: 4, Group: manage.Group{ToIB: true, ToRoCE: true, QKey: ib.QKeyRDMAUDP, PKey: ib.PKeyDefault}, MGID: rigMGID,
	}}
	for _, g := range rigGroups {
		g.MGID, g.QKey, g.PKey = rigMGID(g.IP), ib.QKeyRDMAUDP, ib.PKeyDefault
		cfg.Groups = append(cfg.Groups, g)
	}
	for i, host := range []string{"hosta", "hostb"} {
		r.other = s.Client(host, sa.Config{SMKey: 1, FirstWait: 50 * time.Millisecond, Tries: 10})
		p, err := r.other.PortState()
		if err != nil {
			t.Fatal(err)
		}
		ip := netip.AddrFrom4([4]byte{10, 9, 0, byte(101 + i)})
		r.nodes[ip] = r.other
		cfg.Nodes = append(cfg.Nodes, manage.Node{IP4: ip, GID: ib.GIDFromGUID(0xfe80<<48, p.GID.GUID())})
	}
	r.loop = manage.New(cfg, r.tables, r.ibPort, []manage.Worker{mute{}}, log)
	r.run()
	return r
}

// run manages until r.end is called, while there is an SM, or at the latest when the test ends.
func (r *rig) run() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.loop.Run(ctx) }()
	r.end = sync.OnceFunc(func() {
		stop()
		if err := <-done; err != nil && !r.abandoned {
			r.t.Errorf("Run: %v", err)
		}
		if err := r.ibPort.Close(); err != nil {
			r.t.Error(err)
		}
		r.tables.Close()
		opensmtest.CheckStats(r.t, "bridge", r.ibPort.client.Stats())
		if r.t.Failed() {
			r.t.Logf("the log:\n%s", r.log)
		}
	})
	r.t.Cleanup(r.end)
}

// await waits until nothing is wrong.
func (r *rig) await(when string, wrong func() string) {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		w := wrong()
		if w == "" {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("%s: %s", when, w)
		}
	}
}

// awaitLine waits for a line of the log.
func (r *rig) awaitLine(words ...string) {
	r.t.Helper()
	r.await("the log", func() string {
		if r.log.has(words...) {
			return ""
		}
		return fmt.Sprintf("no line with %q", words)
	})
}

// whole says what in the tables differs from the SA's records, ignoring one group; "" when nothing does.
func (r *rig) whole(but netip.Addr) string {
	for _, g := range rigGroups {
		if g.IP == but {
			continue
		}
		if w := r.wrongGroup(g.IP); w != "" {
			return w
		}
	}
	for ip, c := range r.nodes {
		p, err := c.PortState()
		if n, _, ok := r.tables.Nodes.Lookup(ip); err != nil || !ok || n.LID != p.LID {
			return fmt.Sprintf("node %v is at %+v in the tables, at %+v in the subnet (%v)", ip, n, p, err)
		}
		for i := range ib.LID(1) << p.LMC {
			if n, _, ok := r.tables.Nodes.LookupSourceLID(p.LID + i); !ok || n.IP4 != ip {
				return fmt.Sprintf("LID %v is that of %v, but names %v, %v", p.LID+i, ip, n.IP4, ok)
			}
		}
	}
	p, err := r.ibPort.client.PortState()
	if err != nil || !r.tables.Nodes.LookupOwnLID(p.LID) || !r.tables.Nodes.LookupOwnLID(p.LID+1<<p.LMC-1) {
		return fmt.Sprintf("the bridge is at %+v, which the tables do not know (%v)", p, err)
	}
	for _, guid := range rigAliases {
		gid := ib.GIDFromGUID(p.GID.Prefix(), guid)
		if path, err := r.other.Path(r.t.Context(), gid); err != nil || path.DLID != p.LID {
			return fmt.Sprintf("alias %v resolves to %+v, %v, but the bridge is at %v", gid, path, err, p.LID)
		}
	}
	return ""
}

// wrongGroup compares a group's entry with the SA's record, and the bridge's membership with the wanted one.
func (r *rig) wrongGroup(ip netip.Addr) string {
	e, _, ok := r.tables.Groups.Lookup(tables.GroupAddr{IP: ip})
	if !ok {
		return fmt.Sprintf("group %v is not in the tables", ip)
	}
	p, _ := r.ibPort.client.PortState()
	all, err := r.other.Groups(r.t.Context(), ib.MCMemberMGID, ib.MCMemberFields{MGID: rigMGID(ip)})
	for _, f := range all {
		want := map[bool]uint8{true: ib.JoinFull, false: ib.JoinSendOnlyFull}[e.ToRoCE]
		if f.PortGID == p.GID && f.MLID == e.MLID && f.JoinState == want {
			return ""
		}
	}
	return fmt.Sprintf("group %v goes to %v in the tables; the SA has %+v, %v", ip, e.MLID, all, err)
}

// watch checks repeatedly that all groups and nodes are in the tables; the function that it returns ends that and
// returns how often they were not.
func (r *rig) watch() (missed func() int) {
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			for _, g := range rigGroups {
				if e, _, ok := r.tables.Groups.Lookup(tables.GroupAddr{IP: g.IP}); !ok || e.ToIB != g.ToIB || e.ToRoCE != g.ToRoCE {
					n++
				}
			}
			for ip := range r.nodes {
				if _, _, ok := r.tables.Nodes.Lookup(ip); !ok {
					n++
				}
			}
			select {
			case <-stop:
				done <- n
				return
			case <-time.After(100 * time.Microsecond):
			}
		}
	}()
	return func() int {
		close(stop)
		return <-done
	}
}

// owners are the nodes that LIDs name as sources.
func (r *rig) owners() map[ib.LID]netip.Addr {
	all := map[ib.LID]netip.Addr{}
	for lid := range ib.LID(256) {
		if n, _, ok := r.tables.Nodes.LookupSourceLID(lid); ok {
			all[lid] = n.IP4
		}
	}
	return all
}

// wrongOwner reports whether the subnet has a LID for another port than a node's.
func (r *rig) wrongOwner(lid ib.LID, ip netip.Addr) bool {
	p, err := r.nodes[ip].PortState()
	return err != nil || lid.Base(p.LMC) != p.LID
}
