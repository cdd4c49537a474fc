// SPDX-License-Identifier: Apache-2.0

package house

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/ibside/sa"
	"causeway/ibside/sa/opensmtest"
	"causeway/lcore/frame"
	"causeway/lcore/manage"
	"causeway/tables"
)

// portDoor is a door without hardware: what it joins, resolves and follows is the subnet's alone.
type portDoor struct {
	*subnet
	mu     sync.Mutex
	joined map[ib.GID]bool
	last   uint32
}

func newPortDoor(port sa.Transport, r sa.RegistrarConfig, log *slog.Logger) *portDoor {
	d := &portDoor{joined: map[ib.GID]bool{}}
	impatient := sa.Config{SMKey: 1, FirstWait: 50 * time.Millisecond, Tries: 2}
	d.subnet = newSubnet(port, d.seated, impatient, r, log)
	return d
}

func membership(f ib.MCMemberFields) manage.Membership {
	return manage.Membership{MLID: f.MLID, SL: f.SL, QKey: f.QKey, HopLimit: f.HopLimit, MTU: f.MTU}
}

func (d *portDoor) seated(f ib.MCMemberFields) (manage.Membership, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return membership(f), d.joined[f.MGID], nil
}

func (d *portDoor) Join(ctx context.Context, j manage.Join) (manage.Membership, error) {
	defer d.order(j.MGID)()
	state := map[bool]uint8{true: ib.JoinFull, false: ib.JoinSendOnlyFull}[j.Receive]
	if j.Guest {
		state = map[bool]uint8{true: ib.JoinNonMember, false: ib.JoinSendOnly}[j.Receive]
	}
	f, err := d.subnet.Join(ctx, ib.MCMemberFields{MGID: j.MGID, QKey: j.QKey, PKey: j.PKey, JoinState: state})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.joined[j.MGID] = d.joined[j.MGID] || err == nil
	return membership(f), err
}

func (d *portDoor) Leave(ctx context.Context, mgid ib.GID) error {
	defer d.order(mgid)()
	d.mu.Lock()
	delete(d.joined, mgid)
	d.mu.Unlock()
	return d.subnet.Leave(ctx, mgid)
}

func (d *portDoor) Path(ctx context.Context, dgid ib.GID) (ib.LID, ib.SL, error) {
	f, err := d.subnet.Path(ctx, dgid)
	return f.DLID, f.SL, err
}

func (d *portDoor) Own() manage.Own {
	p, err := d.client.PortState()
	if err != nil || p.GID.IsZero() {
		return manage.Own{}
	}
	return manage.Own{LID: p.LID, GIDs: []ib.GID{p.GID}, Sources: []manage.Source{{GID: p.GID}}}
}

func (d *portDoor) CreateStandIn(int, ib.QKey) (uint32, ib.QPN, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last++
	return d.last, ib.QPN(0x100 + d.last), nil
}

func (d *portDoor) DestroyStandIn(uint32) error { return nil }

// crash ends what is the bridge's, and leaves what is the subnet's.
func (d *portDoor) crash() {
	d.stop()
	d.ended.Wait()
	d.keep.Close()
	_ = d.client.Close()
}

// mute is a worker to whom nothing comes.
type mute struct{}

func (mute) TakeOdd() []manage.Odd { return nil }
func (mute) Send([]byte) error     { return nil }

// lines is a log that the test looks at while others write.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// has reports whether a line has all words.
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

// rig is the management loop at a host of a subnet that a real SM manages; and two nodes, with clients that ask what the SA
// knows.
type rig struct {
	t      *testing.T
	door   *portDoor
	loop   *manage.Loop
	tables *tables.Tables
	log    *lines
	nodes  map[netip.Addr]*sa.Client
	other  *sa.Client // one of them
	end    func()

	abandoned bool // there is no SM to say goodbye to
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

// seldom lets a registrar do nothing but what a test provokes.
func seldom() sa.RegistrarConfig {
	return sa.RegistrarConfig{
		Watch: time.Hour, Refresh: time.Hour, Spread: time.Millisecond, FirstWait: 20 * time.Millisecond, MaxWait: 100 * time.Millisecond,
	}
}

func newRig(t *testing.T, s *opensmtest.Subnet, c sa.RegistrarConfig) *rig {
	t.Helper()
	r := &rig{t: t, log: &lines{}, nodes: map[netip.Addr]*sa.Client{}}
	port, err := sa.DialIbsim(s.Name, "bridge")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(r.log, nil))
	r.door = newPortDoor(port, c, log)
	r.tables, err = tables.New(tables.Config{MaxHosts: 8, MaxStandIns: 8, MaxNodes: 8, MaxGroups: 16, MaxReaders: 1})
	if err != nil {
		t.Fatal(err)
	}
	cfg := manage.Config{
		MAC: frame.MAC{2, 0, 0, 0, 0, 0xfe}, Addresses: []netip.Prefix{netip.MustParsePrefix("10.9.0.254/24")},
		Version: 2, IBMTU: 4096, RoCEMTU: 4096, MaxHosts: 8, StandIns: 8, StandInsPerHost: 3, Hosts: rigHosts, AliasGIDs: true, MaxGroups: 8,
		Ranges: []manage.Range{{
			Prefix: rigRange, SA: true, Most: 4, Group: manage.Group{ToIB: true, ToRoCE: true, QKey: ib.QKeyRDMAUDP, PKey: ib.PKeyDefault}, MGID: rigMGID,
		}},
	}
	for _, g := range rigGroups {
		g.MGID, g.QKey, g.PKey = rigMGID(g.IP), ib.QKeyRDMAUDP, ib.PKeyDefault
		cfg.Groups = append(cfg.Groups, g)
	}
	for i, host := range []string{"hosta", "hostb"} {
		r.other = s.Client(host, sa.Config{SMKey: 1, FirstWait: 50 * time.Millisecond, Tries: 6})
		p, err := r.other.PortState()
		if err != nil {
			t.Fatal(err)
		}
		ip := netip.AddrFrom4([4]byte{10, 9, 0, byte(101 + i)})
		r.nodes[ip] = r.other
		cfg.Nodes = append(cfg.Nodes, manage.Node{IP4: ip, GID: ib.GIDFromGUID(0xfe80<<48, p.GID.GUID())})
	}
	r.loop = manage.New(cfg, r.tables, r.door, []manage.Worker{mute{}}, log)
	r.run()
	return r
}

// run manages until r.end is called, which is to be while there is an SM to say goodbye to; at the latest when the test ends.
func (r *rig) run() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.loop.Run(ctx) }()
	r.end = sync.OnceFunc(func() {
		stop()
		if err := <-done; err != nil && !r.abandoned {
			r.t.Errorf("Run: %v", err)
		}
		if err := r.door.close(); err != nil {
			r.t.Error(err)
		}
		r.tables.Close()
		opensmtest.CheckBooks(r.t, "bridge", r.door.client.Stats())
		if r.t.Failed() {
			r.t.Logf("the log:\n%s", r.log)
		}
	})
	r.t.Cleanup(r.end)
}

// await waits until nothing is wrong.
func (r *rig) await(when string, wrong func() string) {
	r.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
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

// whole says what of the tables is not as the SA has it, but for one group; "" when nothing is.
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
		if n, _, ok := r.tables.LookupNode(ip); err != nil || !ok || n.LID != p.LID {
			return fmt.Sprintf("node %v is at %+v in the tables, at %+v in the subnet (%v)", ip, n, p, err)
		}
	}
	p, err := r.door.client.PortState()
	if err != nil || !r.tables.LookupOwnLID(p.LID) {
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

// wrongGroup compares a group's entry with the SA's record, and the bridge's membership with what it is to be.
func (r *rig) wrongGroup(ip netip.Addr) string {
	e, _, ok := r.tables.LookupGroup(ip)
	if !ok {
		return fmt.Sprintf("group %v is not in the tables", ip)
	}
	p, _ := r.door.client.PortState()
	all, err := r.other.Groups(r.t.Context(), ib.MCMemberMGID, ib.MCMemberFields{MGID: rigMGID(ip)})
	for _, f := range all {
		want := map[bool]uint8{true: ib.JoinFull, false: ib.JoinSendOnlyFull}[e.ToRoCE]
		if f.PortGID == p.GID && f.MLID == e.MLID && f.JoinState == want {
			return ""
		}
	}
	return fmt.Sprintf("group %v goes to %v in the tables; the SA has %+v, %v", ip, e.MLID, all, err)
}

// watch looks again and again whether all groups and nodes are in the tables; the result ends it and says how often they were
// not.
func (r *rig) watch() (missed func() int) {
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			for _, g := range rigGroups {
				if e, _, ok := r.tables.LookupGroup(g.IP); !ok || e.ToIB != g.ToIB || e.ToRoCE != g.ToRoCE {
					n++
				}
			}
			for ip := range r.nodes {
				if _, _, ok := r.tables.LookupNode(ip); !ok {
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
