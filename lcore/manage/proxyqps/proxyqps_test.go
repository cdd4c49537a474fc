// SPDX-License-Identifier: Apache-2.0

package proxyqps_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/frame"
	"causeway/lcore/manage/ask"
	"causeway/lcore/manage/inbox"
	"causeway/lcore/manage/proxyqps"
	"causeway/lcore/manage/punt"
	"causeway/lcore/manage/ratelog"
	"causeway/tables"
)

var (
	host  = netip.MustParseAddr("10.9.0.1")
	other = netip.MustParseAddr("10.9.0.2")
	mac   = frame.MAC{2, 0, 0, 0, 0, 1}
)

// A rig is ProxyQPs with real tables and fakes. It implements the Port, the Hosts and the Sources, too, and the test
// runs the loop.
type rig struct {
	*proxyqps.ProxyQPs
	t       *testing.T
	tables  *tables.Tables
	inbox   *inbox.Inbox
	ask     *ask.Asker
	stop    context.CancelFunc
	slow    chan struct{}  // not nil: the port makes a queue pair for each that it receives
	mu      sync.Mutex     // of the port
	open    map[uint32]int // by handle: the worker
	next    uint32
	failed  error // of the port
	most    int   // queue pairs that the device makes; 0: no limit
	log     *bytes.Buffer
	given   map[netip.Addr]bool
	strange map[netip.Addr]bool // have not shown that they exist
	routed  map[netip.Addr]bool // and cannot be asked to
	asked   map[netip.Addr]int
	learned error
}

func newRig(t *testing.T, c proxyqps.Config) *rig {
	ts, err := tables.New(tables.Config{MaxHosts: 512, MaxProxyQPs: 512, MaxNodes: 8, MaxGroups: 8, MaxReaders: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ts.Close)
	c.PKey = func(uint8) ib.PKey { return ib.PKeyDefault }
	r := &rig{t: t, tables: ts, open: map[uint32]int{}, given: map[netip.Addr]bool{}, strange: map[netip.Addr]bool{}, routed: map[netip.Addr]bool{},
		asked: map[netip.Addr]int{}, log: &bytes.Buffer{}, inbox: inbox.New(256, errors.New("ended"))}
	r.ask = ask.New(r.inbox)
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	r.stop = stop
	r.ask.Start(ctx)
	r.ProxyQPs = proxyqps.New(c, proxyqps.Deps{
		Tables: ts.ProxyQPs, Port: r, IsShort: func(err error) bool { return errors.Is(err, ibside.ErrNoQueuePair) }, Ask: r.ask,
		Log: ratelog.New(slog.New(slog.NewTextHandler(r.log, nil))),
	})
	r.Connect(r, r)
	return r
}

func (r *rig) CreateProxyQP(worker int, _ ib.PKey, _ ib.QKey) (uint32, ib.QPN, error) {
	if r.slow != nil {
		<-r.slow
	}
	if r.failed != nil {
		return 0, 0, r.failed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.most > 0 && len(r.open) >= r.most {
		return 0, 0, fmt.Errorf("verbs: %w", ibside.ErrNoQueuePair)
	}
	r.next++
	r.open[r.next] = worker
	return r.next, ib.QPN(0x1000 + r.next), nil
}

func (r *rig) DestroyProxyQP(qp uint32) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, qp)
	return nil
}

func (r *rig) Learn(ip netip.Addr, mac frame.MAC, vlan uint16, version uint8, _ time.Time) (punt.Rejection, error) {
	if r.learned != nil {
		return punt.RejectSource, r.learned
	}
	if version == tables.PlainUDP { // a host has the version of its RoCE, whatever it sends else
		version = 2
	}
	_, err := r.tables.Hosts.Put(tables.Host{IP: ip, MAC: mac, VLAN: vlan, Version: version})
	return punt.RejectFull, err
}

func (r *rig) Standing(ip netip.Addr) (confirmed, onLink bool) { return !r.strange[ip], !r.routed[ip] }

func (r *rig) Confirm(ip netip.Addr, _ frame.MAC, _ uint16, _ time.Time) { r.asked[ip]++ }

func (r *rig) Find(ip netip.Addr) (tables.Host, bool) {
	h, _, known := r.tables.Hosts.Find(ip)
	return h, known
}

func (r *rig) Give(host netip.Addr) uint8 {
	r.given[host] = true
	return 0
}

func (r *rig) Drop(host netip.Addr) { delete(r.given, host) }

// settle runs the loop until the port has nothing more to do.
func (r *rig) settle() {
	for range 2 { // a result may make the port destroy a queue pair
		r.ask.Wait()
		r.inbox.DoPending()
		r.inbox.DoLate()
	}
}

// askFor asks for the proxy QP of a host's service.
func (r *rig) askFor(ip netip.Addr, qpn ib.QPN, qkey ib.QKey, now time.Time) (got *result) {
	got = &result{}
	r.ForService(proxyqps.Service{HostQP: tables.HostQP{Host: ip, HostQPN: qpn}, QKey: qkey, MAC: mac, Version: 2}, now, func(q ib.QPN, err error) {
		got.ends++
		got.qpn, got.err = q, err
	})
	return got
}

type result struct {
	ends int
	qpn  ib.QPN
	err  error
}

// get gets the proxy QP of a host's service.
func (r *rig) get(ip netip.Addr, qpn ib.QPN, qkey ib.QKey, now time.Time) (ib.QPN, error) {
	r.t.Helper()
	got := r.askFor(ip, qpn, qkey, now)
	if r.settle(); got.ends != 1 {
		r.t.Errorf("it ended %d times", got.ends)
	}
	return got.qpn, got.err
}

func (r *rig) must(ip netip.Addr, qpn ib.QPN, qkey ib.QKey, now time.Time) ib.QPN {
	r.t.Helper()
	q, err := r.get(ip, qpn, qkey, now)
	if err != nil {
		r.t.Fatal(err)
	}
	return q
}

// want compares how many proxy QPs the tables and the port have with the wanted number.
func (r *rig) want(what string, n int) {
	r.t.Helper()
	r.settle()
	if r.tables.ProxyQPs.Len() != n || len(r.open) != n {
		r.t.Errorf("%s: %d in the tables, %d of the port, want %d", what, r.tables.ProxyQPs.Len(), len(r.open), n)
	}
}

// TestForService checks that a queue pair has one proxy QP while its Q_Key stays, and that workers get them in turn.
func TestForService(t *testing.T) {
	r, now := newRig(t, proxyqps.Config{Max: 8, Limits: proxyqps.Limits{PerHost: 4}, Every: time.Second, Workers: 2}), time.Now()
	a := r.must(host, 5, 7, now)
	if b := r.must(host, 5, 7, now); a != b || r.Of(host) != 1 || r.SeenUsed(tables.HostQP{Host: host, HostQPN: 5}) != now {
		t.Errorf("the same queue pair has %v and %v; %d in all", a, b, r.Of(host))
	}
	if b := r.must(host, 5, 8, now); a == b {
		t.Errorf("another Q_Key has the same proxy QP %v", b)
	}
	r.must(host, 6, 7, now)
	r.want("two queue pairs", 2)
	if r.open[2] == r.open[3] {
		t.Errorf("both on worker %d", r.open[2])
	}
	r.learned = errors.New("contradicts")
	if _, err := r.get(other, 5, 7, now); !errors.Is(err, r.learned) || r.Counters().ProxyQPsDenied != 1 {
		t.Errorf("%v, %+v", err, r.Counters())
	}
}

// TestLimits checks that the limits are kept, and that a host's idle proxy QP makes room for its next.
func TestLimits(t *testing.T) {
	r, now := newRig(t, proxyqps.Config{Max: 3, Limits: proxyqps.Limits{PerHost: 2}, Every: time.Second, Workers: 1}), time.Now()
	r.must(host, 11, 7, now)
	r.must(host, 12, 7, now)
	if _, err := r.get(host, 13, 7, now.Add(time.Second)); err == nil || !strings.Contains(err.Error(), "all its 2") {
		t.Error(err)
	}
	r.must(host, 12, 7, now.Add(2*time.Second))
	r.must(host, 13, 7, now.Add(2*time.Minute))
	if !r.SeenUsed(tables.HostQP{Host: host, HostQPN: 11}).IsZero() || r.SeenUsed(tables.HostQP{Host: host, HostQPN: 12}).IsZero() || r.Counters().ProxyQPsAged != 1 {
		t.Errorf("it was not the one that was idle for longest: %+v", r.Counters())
	}
	r.must(other, 11, 7, now)
	if _, err := r.get(other, 12, 7, now); err == nil || !strings.Contains(err.Error(), "all 3") {
		t.Error(err)
	}
	r.want("the limit", 3)
}

// TestEnds checks that proxy QPs end by age, by policy and with their host, in the tables and at the port, and that
// their sources are given back.
func TestEnds(t *testing.T) {
	r, now := newRig(t, proxyqps.Config{Max: 8, Limits: proxyqps.Limits{PerHost: 4, Idle: time.Minute}, Every: time.Second, Workers: 1}), time.Now()
	for qpn := range ib.QPN(3) {
		r.must(host, qpn+11, 7, now)
	}
	r.must(other, 11, 7, now)
	for range 120 {
		now = now.Add(time.Second)
		r.tables.ProxyQPs.MarkUsed(tables.HostQP{Host: other, HostQPN: 11})
		r.Tick(now)
	}
	r.want("aged", 1)
	if r.given[host] || !r.given[other] || r.LastUsed(other, now).IsZero() {
		t.Errorf("sources are given to %v", r.given)
	}
	r.must(host, 11, 7, now)
	r.SetAllow([]netip.Prefix{netip.PrefixFrom(host, 32)})
	r.want("denied", 1)
	r.SendFrom(host, 3)
	if s, _, _ := r.tables.ProxyQPs.Find(tables.HostQP{Host: host, HostQPN: 11}); s.Source != 3 {
		t.Errorf("sends from %d", s.Source)
	}
	r.RemoveHost(host, "test")
	r.want("removed", 0)
	for h := range r.Hosts() {
		t.Errorf("%v has any", h)
	}
}

// pending is a packet that waits.
type pending struct {
	requeued, rejected int
	why                punt.Rejection
}

func (p *pending) Worker() int      { return 1 }
func (p *pending) Partition() uint8 { return 0 }
func (p *pending) Requeue()         { p.requeued++ }

func (p *pending) Reject(why punt.Rejection) {
	p.rejected++
	p.why = why
}

// TestPlainUDP checks that all plain UDP of a host has one proxy QP, beside those of its RoCE queue pairs.
func TestPlainUDP(t *testing.T) {
	r, now := newRig(t, proxyqps.Config{Max: 8, Limits: proxyqps.Limits{PerHost: 4, Idle: time.Minute}, Every: time.Second, Workers: 2}), time.Now()
	r.must(host, 5, 7, now)
	for i, port := range []uint16{40000, 40001} {
		f, fault := frame.Open(frame.AppendUDP(nil, frame.Link{MAC: mac}, frame.GroupMAC(netip.MustParseAddr("239.1.2.3")), frame.Datagram{
			Src: netip.AddrPortFrom(host, port), Dst: netip.MustParseAddrPort("239.1.2.3:4711"), TTL: 1, Checksum: true}, []byte("data")))
		if fault != "" {
			t.Fatal(fault)
		}
		var p pending
		r.HandlePending(f, &p, now)
		if r.settle(); p.requeued != 1 || p.rejected != 0 {
			t.Errorf("datagram %d: %+v", i, p)
		}
	}
	r.want("two datagrams", 2)
	if x, _, ok := r.tables.ProxyQPs.Find(tables.HostQP{Host: host, HostQPN: tables.PlainQPN}); !ok || x.Version != tables.PlainUDP || x.Worker != 1 {
		t.Errorf("%+v, %v", x, ok)
	}
	for range 30 {
		now = now.Add(10 * time.Second)
		r.Tick(now)
	}
	r.want("idle", 0)
}
