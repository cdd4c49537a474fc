// SPDX-License-Identifier: Apache-2.0

package fabricport

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"causeway/dpdk"
	"causeway/ibside"
	"causeway/ibside/fabric"
	"causeway/ibside/fabricport/porttest"
	"causeway/ibside/ib"
)

// TestOverSocket has what is tested of a port of this process's subnet hold for one of another's.
func TestOverSocket(t *testing.T) {
	overSocket = true
	defer func() { overSocket = false }()
	t.Run("unicast", TestPortUnicast)
	t.Run("send drops", TestPortSendDrops)
	t.Run("group", TestPortGroup)
	t.Run("join again", TestPortJoinAgain)
	t.Run("renew", TestPortRenew)
	t.Run("services", TestServices)
}

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

func (l *lines) count(words string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), words)
}

// far is a subnet with a socket, as another process has it, and a port on it.
type far struct {
	socket string
	subnet *fabric.Fabric
	pool   *dpdk.Mempool
	port   *Port
	log    lines
}

const farName = "bridge"

var farGroups = []ib.GID{{0xff, 0x12, 0x40, 0x01, 0xff, 0xff, 15: 1}, {0xff, 0x12, 0x40, 0x01, 0xff, 0xff, 15: 2}}

// start makes the subnet anew, whose echo node has another LID each time.
func (x *far) start(t *testing.T, others int) {
	t.Helper()
	cfg := fabric.Config{Socket: x.socket}
	for i := range others {
		cfg.Nodes = append(cfg.Nodes, fabric.NodeConfig{Name: string(rune('a' + i)), GUID: ib.GUID(0x100 + i)})
	}
	cfg.Nodes = append(cfg.Nodes, echoNode, fabric.NodeConfig{
		Name: "listen", GUID: 0x1e, Role: fabric.RoleListen,
		Groups: []fabric.GroupConfig{{MGID: farGroups[0], QKey: groupQKey}, {MGID: farGroups[1], QKey: groupQKey}},
	})
	var err error
	if x.subnet, err = fabric.New(cfg); err != nil {
		t.Fatal(err)
	}
}

func (x *far) open(t *testing.T) {
	t.Helper()
	p, err := Open(Config{
		File: x.socket, Name: farName, Pool: x.pool, Workers: 2, Log: slog.New(slog.NewTextHandler(&x.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	x.port = p.(*Port)
}

// await waits until something holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 20 seconds", what)
		}
	}
}

// echoed sends numbered messages to the echo node until one comes back.
func (x *far) echoed(t *testing.T, qp uint32) {
	t.Helper()
	gid := ib.GIDFromGUID(fabric.PrefixLinkLocal, echoNode.GUID)
	path, err := x.port.Path(t.Context(), gid, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := porttest.Send{QP: qp, DLID: path.LID, DestQP: echoQPN, QKey: 0x1111, Mbuf: alloc(t, x.pool, []byte("to and fro"))}
	if porttest.Post(x.port.Pointer(0), []porttest.Send{s}) != 1 {
		t.Fatal("post took nothing")
	}
	await(t, "an echo", func() bool {
		got := porttest.Poll(x.port.Pointer(0), 1)
		for _, r := range got {
			r.Mbuf.Free()
		}
		return len(got) == 1
	})
}

// joined reports whether the subnet has the port in all groups, as a receiver.
func (x *far) joined() bool {
	n := 0
	for _, g := range x.subnet.SA().Groups() {
		if g.Members[x.port.Own().GIDs[0]] == ib.JoinFull {
			n++
		}
	}
	return n == len(farGroups)
}

// leftovers counts what a port may leave behind.
func leftovers(t *testing.T) (files, goroutines int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds), runtime.NumGoroutine()
}

// endSubnet ends the subnet, for the time of that number, and has a message dropped.
func (x *far) endSubnet(t *testing.T, qp uint32, round int) {
	t.Helper()
	if err := x.subnet.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, "news that the port is down", func() bool { return x.log.count("msg=ib_link_down") == round+1 })
	if down := x.port.Info().Down; !strings.Contains(down, x.socket) {
		t.Errorf("Down is %q", down)
	}
	s := porttest.Send{QP: qp, DLID: 1, DestQP: echoQPN, Mbuf: alloc(t, x.pool, []byte("lost"))}
	if porttest.Post(x.port.Pointer(0), []porttest.Send{s}) != 1 {
		t.Fatal("post took nothing")
	}
	await(t, "the drop of a message", func() bool { return x.port.counters().SendDrops[fabric.DropLinkDown] >= uint64(round+1) })
	x.port.Renewed()
}

// startAgain starts another subnet, and waits for the port to be on it, with its groups, and for management to know.
func (x *far) startAgain(t *testing.T, round int) {
	t.Helper()
	began := time.Now()
	x.start(t, 3*(round+1))
	await(t, "all groups", x.joined)
	t.Logf("attached and joined %v after the subnet's start", time.Since(began).Round(time.Millisecond))
	news := x.port.Renewed()
	await(t, "news for management", func() bool {
		n := x.port.Renewed()
		news.Back, news.LIDs, news.Paths = news.Back || n.Back, news.LIDs || n.LIDs, news.Paths || n.Paths
		return news.Back && news.LIDs && news.Paths
	})
	if down := x.port.Info().Down; down != "" || x.log.count("msg=ib_link_up") != round+1 {
		t.Errorf("Down is %q; %d times up, want %d", down, x.log.count("msg=ib_link_up"), round+1)
	}
}

// TestOpenFollows: the process that has the subnet ends, twice, and another takes its place. Each time the port is down,
// drops by name, attaches again with its groups and its alias, and leaves nothing behind in the end.
func TestOpenFollows(t *testing.T) {
	x := &far{socket: filepath.Join(t.TempDir(), "subnet.sock"), pool: newPool(t, testMbufs, testRoom, PrivSize)}
	files, goroutines := leftovers(t)
	x.start(t, 0)
	x.open(t)
	qp, qpn, err := x.port.CreateProxyQP(0, ib.PKeyDefault, 0x1111)
	if err != nil {
		t.Fatal(err)
	}
	for i, mgid := range farGroups {
		if _, err := x.port.Join(t.Context(), ibside.Join{MGID: mgid, QKey: groupQKey, PKey: ib.PKeyDefault, Worker: i, Receive: true}); err != nil {
			t.Fatal(err)
		}
	}
	const alias = ib.GUID(0xa11a5)
	if err := x.port.SetAlias(t.Context(), alias); err != nil {
		t.Fatal(err)
	}
	x.echoed(t, qp)
	for round := range 2 {
		x.endSubnet(t, qp, round)
		x.startAgain(t, round)
		await(t, "the alias", func() bool {
			p, err := x.port.Path(t.Context(), ib.GIDFromGUID(fabric.PrefixLinkLocal, alias), 0)
			return err == nil && p.LID == x.port.Own().LID
		})
		x.echoed(t, qp)
	}
	if h := x.port.qps[qp]; h.qp.QPN() != qpn {
		t.Errorf("the proxy QP has QPN %v, and had %v", h.qp.QPN(), qpn)
	}
	if err := x.port.Close(); err != nil {
		t.Error(err)
	}
	c := x.port.counters()
	if c.Received != c.Delivered+c.Management+c.Drops.Sum() || c.Posted != c.Sent+c.SendDrops.Sum() || c.Posted != 5 || c.Sent != 3 {
		t.Errorf("posted %d, sent %d; the counters: %+v", c.Posted, c.Sent, c)
	}
	if err := x.subnet.Close(); err != nil {
		t.Error(err)
	}
	await(t, "files and goroutines as before", func() bool {
		f, g := leftovers(t)
		return f <= files && g <= goroutines && x.pool.InUse() == 0
	})
}

// TestOpenSameName: a second bridge with the name of another is told what to change; one that starts again is not.
func TestOpenSameName(t *testing.T) {
	x := &far{socket: filepath.Join(t.TempDir(), "subnet.sock"), pool: newPool(t, testMbufs, testRoom, PrivSize)}
	c := Config{File: x.socket, Name: farName, Pool: x.pool, Workers: 1, Log: slog.New(slog.DiscardHandler)}
	if _, err := Open(c); err == nil || !strings.Contains(err.Error(), "no subnet is there") {
		t.Errorf("Open without a subnet: %v", err)
	}
	x.start(t, 0)
	x.open(t)
	want := x.socket + `: another bridge on this subnet has the name "bridge", of which the port's GUID `
	if _, err := Open(c); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "[bridge] name of its own") {
		t.Errorf("Open with the name of another: %v", err)
	}
	c.Name = strings.Repeat("ä", 100) // longer than the subnet's names
	for range 3 {
		p, err := Open(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := x.port.Close(); err != nil {
		t.Error(err)
	}
	if err := x.subnet.Close(); err != nil {
		t.Error(err)
	}
}

// TestCloseWithoutSubnet: a port whose subnet has ended closes at once.
func TestCloseWithoutSubnet(t *testing.T) {
	x := &far{socket: filepath.Join(t.TempDir(), "subnet.sock"), pool: newPool(t, testMbufs, testRoom, PrivSize)}
	x.start(t, 0)
	x.open(t)
	if _, err := x.port.Join(t.Context(), ibside.Join{MGID: farGroups[0], QKey: groupQKey, PKey: ib.PKeyDefault, Receive: true}); err != nil {
		t.Fatal(err)
	}
	if err := x.subnet.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, "the port down", func() bool { return x.port.Info().Down != "" })
	began := time.Now()
	if err := x.port.Close(); err != nil || time.Since(began) > 2*time.Second {
		t.Errorf("Close took %v: %v", time.Since(began), err)
	}
}
