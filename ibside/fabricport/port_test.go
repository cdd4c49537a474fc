// SPDX-License-Identifier: Apache-2.0

package fabricport

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"causeway/dpdk"
	"causeway/ibside"
	"causeway/ibside/fabric"
	"causeway/ibside/fabricport/porttest"
	"causeway/ibside/ib"
)

// rig is a port on a subnet, with the test as its workers.
type rig struct {
	pool   *dpdk.Mempool
	rings  *Rings
	fabric *fabric.Fabric
	hca    *fabric.HCA
	port   *Port
}

func newRig(t *testing.T, cfg fabric.Config, depth int, pkey ib.PKey) *rig {
	t.Helper()
	r := &rig{pool: newPool(t, testMbufs, testRoom, PrivSize)}
	r.rings = newRings(t, r.pool, 2, depth)
	var err error
	r.fabric = newSubnet(t, &cfg)
	r.hca = fabric.NewHCA(attachTo(t, r.fabric, cfg.Socket, "bridge", 0xb))
	if r.port, err = newPort("fabric", r.rings, r.hca, pkey, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.settle(t)
		r.checkCounters(t)
		err := r.port.administration.Close()
		r.port.stopPumps()
		r.port.cm.Close()
		if err := errors.Join(err, r.hca.Close(), r.fabric.Close()); err != nil {
			t.Errorf("Close: %v", err)
		}
		r.checkCounters(t)
	})
	return r
}

// overSocket has the tests' ports attach as those of another process do.
var overSocket bool

// newSubnet makes a subnet, and names its socket, where there is one.
func newSubnet(t *testing.T, cfg *fabric.Config) *fabric.Fabric {
	t.Helper()
	if overSocket {
		cfg.Socket = filepath.Join(t.TempDir(), "subnet.sock")
	}
	f, err := fabric.New(*cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// attachTo attaches a port, by the socket if there is one.
func attachTo(t *testing.T, f *fabric.Fabric, socket, name string, guid ib.GUID) fabric.Port {
	t.Helper()
	attach := func() (fabric.Port, error) { return f.Attach(fabric.PortConfig{Name: name, GUID: guid}) }
	if socket != "" {
		attach = func() (fabric.Port, error) { return fabric.Follow(socket, guid, name) }
	}
	port, err := attach()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// settle waits until no packet is under way any more.
func (r *rig) settle(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	if t.Context().Err() != nil { // in a cleanup
		ctx, cancel = context.WithTimeout(context.Background(), time.Minute)
	}
	defer cancel()
	for quiet, packets := 0, uint64(0); quiet < 3; {
		if err := r.port.drain(ctx); err != nil {
			t.Fatal(err)
		}
		quiet++
		if n := r.hca.Stats().Packets; !r.fabric.Quiet() || n != packets {
			quiet, packets = 0, n
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (r *rig) checkCounters(t *testing.T) {
	t.Helper()
	if c := r.port.counters(); c.Received != c.Delivered+c.Management+c.Drops.Sum() || c.Posted != c.Sent+c.SendDrops.Sum() {
		t.Errorf("the counters do not balance: %+v", c)
	}
}

// post sends one message from a worker.
func (r *rig) post(t *testing.T, worker int, s porttest.Send, payload string) {
	t.Helper()
	s.Mbuf = alloc(t, r.pool, []byte(payload))
	if n := porttest.Post(r.rings.Pointer(worker), []porttest.Send{s}); n != 1 {
		t.Fatal("post took nothing")
	}
}

// poll waits for one message of a worker, and frees it.
func (r *rig) poll(t *testing.T, worker int) (porttest.Recv, string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if got := porttest.Poll(r.rings.Pointer(worker), 1); len(got) == 1 {
			b := got[0].Mbuf.Bytes()
			got[0].Mbuf.Free()
			return got[0], string(b[areaLen:])
		}
	}
	t.Fatalf("worker %d received nothing within a minute: %+v", worker, r.port.counters())
	return porttest.Recv{}, ""
}

const (
	echoQPN   = ib.QPN(0x48)
	groupQKey = ib.QKey(0x01234567)
)

var echoNode = fabric.NodeConfig{Name: "echo", GUID: 0xe, QPN: echoQPN, QKey: 0x1111, Role: fabric.RoleEcho}

func TestPortUnicast(t *testing.T) {
	r := newRig(t, fabric.Config{Nodes: []fabric.NodeConfig{echoNode}}, 64, 0)
	gid := r.fabric.Node("echo").HCA().Info().GID
	path, err := r.port.Path(t.Context(), gid, 0)
	lid := path.LID
	if err != nil || path != (ibside.Path{LID: 2, MTU: ib.MTU4096}) {
		t.Fatalf("Path = %+v, %v", path, err)
	}
	for worker := range 2 {
		qp, qpn, err := r.port.CreateProxyQP(worker, ib.PKeyDefault, 0x1111)
		if err != nil {
			t.Fatal(err)
		}
		r.post(t, worker, porttest.Send{
			QP: qp, DLID: lid, DestQP: echoQPN, QKey: 0x1111, Imm: 0x123456, Flags: porttest.SendImm | porttest.SendGRH | porttest.SendSolicited,
			DGID: gid, TClass: 8, HopLimit: 63,
		}, "to and fro")
		got, payload := r.poll(t, worker)
		got.Mbuf = dpdk.Mbuf{}
		want := porttest.Recv{
			QPN: qpn, SrcQP: echoQPN, Imm: 0x123456, SLID: lid, Flags: porttest.RecvImm | porttest.RecvGRH | porttest.RecvSolicited,
		}
		if got != want || payload != "to and fro" {
			t.Errorf("worker %d: %+v %q\nwant %+v", worker, got, payload, want)
		}
		if err := r.port.DestroyProxyQP(qp); err != nil {
			t.Error(err)
		}
		if err := r.port.DestroyProxyQP(qp); err == nil {
			t.Error("destroyed a proxy QP twice")
		}
	}
}

func TestPortGroup(t *testing.T) {
	mgid, _ := ib.ParseGID("ff12:4001:ffff::f01:203")
	group := []fabric.GroupConfig{{MGID: mgid, QKey: groupQKey}}
	r := newRig(t, fabric.Config{Nodes: []fabric.NodeConfig{
		{Name: "listen", GUID: 0x1e, Role: fabric.RoleListen, Groups: group},
	}}, 256, 0)
	if _, err := r.port.Join(t.Context(), ibside.Join{MGID: mgid, QKey: groupQKey + 1, PKey: 0xffff, Worker: 1, Receive: true}); err == nil {
		t.Error("joined with another Q_Key than the group's")
	}
	m, err := r.port.Join(t.Context(), ibside.Join{MGID: mgid, QKey: groupQKey, PKey: 0xffff, Worker: 1, Receive: true})
	if err != nil || m.MLID != 0xc000 || m.MTU != ib.MTU4096 || m.QKey != groupQKey {
		t.Fatalf("Join = %+v, %v", m, err)
	}
	listen := r.fabric.Node("listen")
	toGroup(t, listen, m, "from a node")
	if got, payload := r.poll(t, 1); payload != "from a node" || got.QPN != r.groupQPNs()[0] || got.Flags != porttest.RecvGRH {
		t.Errorf("received %+v %q", got, payload)
	}
	proxyQP, _, err := r.port.CreateProxyQP(0, ib.PKeyDefault, 7)
	if err != nil {
		t.Fatal(err)
	}
	r.post(t, 0, porttest.Send{
		QP: proxyQP, DLID: m.MLID, DGID: mgid, DestQP: ib.QPMulticast, QKey: m.QKey, Flags: porttest.SendGRH,
	}, "from a host")
	r.settle(t)
	for end := time.Now().Add(time.Minute); listen.Stats().Received == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if s := listen.Stats(); s.Received != 1 {
		t.Errorf("the listener received %d messages, want 1", s.Received)
	}
	if n := r.rings.pending(); n != 0 {
		t.Errorf("%d messages came back to the port", n)
	}
}

// toGroup sends a message from a node to its group.
func toGroup(t *testing.T, n *fabric.Node, m ibside.Membership, payload string) {
	t.Helper()
	if cause := n.QP().Send(&fabric.Send{
		AH:     fabric.AH{DLID: m.MLID, GRH: &ib.GRHFields{DGID: n.Config().Groups[0].MGID}},
		DestQP: ib.QPMulticast, QKey: m.QKey, Payload: []byte(payload),
	}); cause != "" {
		t.Fatalf("the node's send was dropped: %s", cause)
	}
}

func TestPortRejects(t *testing.T) {
	r := newRig(t, fabric.Config{}, 64, 0)
	mgid, _ := ib.ParseGID("ff12:4001:ffff::1")
	for name, call := range map[string]func() error{
		"join as a non-member of a group that nobody has": func() error {
			_, err := r.port.Join(t.Context(), ibside.Join{MGID: mgid, QKey: 1, PKey: 0xffff, Receive: true, NonMember: true})
			return err
		},
		"join on worker 2": func() error {
			_, err := r.port.Join(t.Context(), ibside.Join{MGID: mgid, QKey: 1, PKey: 0xffff, Worker: 2, Receive: true})
			return err
		},
		"join with P_Key": func() error {
			_, err := r.port.Join(t.Context(), ibside.Join{MGID: mgid, QKey: 1, PKey: 0x8001, Worker: 0, Receive: true})
			return err
		},
		"join unicast": func() error {
			_, err := r.port.Join(t.Context(), ibside.Join{MGID: ib.GID{0xfe}, QKey: 1, PKey: 0xffff, Worker: 0, Receive: true})
			return err
		},
		"proxy QP on -1":      func() error { _, _, err := r.port.CreateProxyQP(-1, ib.PKeyDefault, 1); return err },
		"proxy QP with P_Key": func() error { _, _, err := r.port.CreateProxyQP(0, 0x8001, 1); return err },
		"proxy QP on 2":       func() error { _, _, err := r.port.CreateProxyQP(2, ib.PKeyDefault, 1); return err },
		"path to nobody":      func() error { _, err := r.port.Path(t.Context(), mgid, 0); return err },
		"port with P_Key": func() error {
			_, err := newPort("fabric", r.rings, r.hca, 0x8001, slog.New(slog.DiscardHandler))
			return err
		},
	} {
		if err := call(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestPortDeliveryDrops(t *testing.T) {
	for _, c := range []struct {
		name       string
		held       int // mbufs that are used elsewhere
		depth      int // of the ring
		maxPayload int
		payload    int
		delivered  uint64
		drop       string
	}{
		{"all delivered", 0, 64, 4096, 4096, 20, "none"},
		{"ring full", 0, 8, 4096, 1, 8, DropRingFull},
		{"pool empty", testMbufs - 5, 64, 4096, 1, 5, DropNoMbuf},
		{"small mbufs", 0, 64, 1024, 1025, 0, DropTooLong},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, fabric.Config{Nodes: []fabric.NodeConfig{echoNode}}, c.depth, 0)
			defer r.settle(t)
			r.rings.maxPayload = c.maxPayload
			_, qpn, err := r.port.CreateProxyQP(0, ib.PKeyDefault, 0x1111)
			if err != nil {
				t.Fatal(err)
			}
			defer hold(t, r.pool, c.held)()
			for range 20 {
				if cause := r.fabric.Node("echo").QP().Send(&fabric.Send{
					AH: fabric.AH{DLID: r.port.Own().LID}, DestQP: qpn, QKey: 0x1111, Payload: make([]byte, c.payload),
				}); cause != "" {
					t.Fatal(cause)
				}
			}
			r.settle(t)
			if got := r.port.counters(); got.Delivered != c.delivered || got.Drops[c.drop] != 20-c.delivered {
				t.Errorf("counters %+v; want %d delivered and the rest dropped as %s", got, c.delivered, c.drop)
			}
		})
	}
}

// TestPortOneTooLong checks that of a burst only those messages are dropped that fit no mbuf.
func TestPortOneTooLong(t *testing.T) {
	const room, most, each = 1024, 20, 4
	r := newRig(t, fabric.Config{Nodes: []fabric.NodeConfig{echoNode}}, 64, 0)
	defer r.settle(t)
	r.rings.maxPayload = room
	_, qpn, err := r.port.CreateProxyQP(0, ib.PKeyDefault, 0x1111)
	if err != nil {
		t.Fatal(err)
	}
	qp := r.fabric.Node("echo").QP()
	posts, why := make([]fabric.Post, most), make([]string, most)
	for i := range posts {
		payload := make([]byte, room)
		if i%each == 1 {
			payload = make([]byte, room+1)
		}
		posts[i] = fabric.Post{QP: qp, Send: fabric.Send{AH: fabric.AH{DLID: r.port.Own().LID}, DestQP: qpn, QKey: 0x1111, Payload: payload}}
	}
	r.fabric.Node("echo").HCA().SendBurst(posts, why)
	r.settle(t)
	if got := r.port.counters(); got.Delivered != most-most/each || got.Drops[DropTooLong] != most/each {
		t.Errorf("counters %+v; want every fourth of %d dropped", got, most)
	}
}

// hold allocates mbufs, so that others cannot, until the returned function is called.
func hold(t *testing.T, pool *dpdk.Mempool, n int) func() {
	t.Helper()
	var held []dpdk.Mbuf
	for range n {
		m, err := pool.Alloc(nil)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, m)
	}
	return func() {
		for _, m := range held {
			m.Free()
		}
	}
}

func TestPortCloseSendsWhatIsPosted(t *testing.T) {
	r := newRig(t, fabric.Config{Nodes: []fabric.NodeConfig{{Name: "sink", GUID: 0xe, QPN: echoQPN, QKey: 5}}}, 512, 0)
	qp, _, err := r.port.CreateProxyQP(0, ib.PKeyDefault, 5)
	if err != nil {
		t.Fatal(err)
	}
	for range 300 {
		r.post(t, 0, porttest.Send{QP: qp, DLID: 2, DestQP: echoQPN, QKey: 5}, "last words")
	}
	r.port.stopPumps()
	if c := r.port.counters(); c.Sent != 300 {
		t.Errorf("counters %+v; want 300 sent", c)
	}
}

// groupQPNs lists the queue pairs that receive groups.
func (r *rig) groupQPNs() (all []ib.QPN) {
	r.port.mu.RLock()
	defer r.port.mu.RUnlock()
	for _, h := range r.port.qps {
		if h.groups {
			all = append(all, h.qp.QPN())
		}
	}
	return all
}
