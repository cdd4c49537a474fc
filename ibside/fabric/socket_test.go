// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"causeway/ibside/ib"
	"causeway/ibside/stamp"
)

const (
	childTask = "CAUSEWAY_FABRIC_TEST_CHILD" // role of a child process
	childPath = "CAUSEWAY_FABRIC_TEST_PATH"  // its socket

	waitLimit = time.Minute
)

// childDone reports whether a child has done everything that its test needs.
var childDone = map[Role]func(NodeStats) bool{
	RolePublish: func(s NodeStats) bool { return s.Published == 50 },
	RoleListen:  func(s NodeStats) bool { return s.Received == 3 },
	RoleEcho:    func(s NodeStats) bool { return s.Echoed == 3 },
}

// runChild is the main function of a child process: a node of the given role behind the socket, until its standard
// input ends and it has done its task.
func runChild(role string) int {
	port, err := Dial(os.Getenv(childPath), 0xc0ffee, "child")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	n, err := StartNode(port, NodeConfig{
		Name: "child", GUID: 0xc0ffee, QPN: 0x1234, Role: Role(role), Groups: testGroups[:1], RatePPS: 1000, Count: 50,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	for end := time.Now().Add(waitLimit); !childDone[Role(role)](n.Stats()) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	s := n.HCA().Stats()
	fmt.Printf("%+v balanced=%v\n", n.Stats(), s.Received == s.Delivered+s.Drops.Sum())
	if err := n.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// child starts the test binary again as a node of that role. The returned function ends it and returns its output.
func child(t *testing.T, path, role string) func() string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childTask+"="+role, childPath+"="+path)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(stdout, ready); err != nil {
		t.Fatalf("the child did not start: %v", err)
	}
	return func() string {
		t.Helper()
		stdin.Close()
		said, _ := io.ReadAll(stdout)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the child: %v", err)
		}
		return string(said)
	}
}

func socketPath(t testing.TB) string { return filepath.Join(t.TempDir(), "s") }

func TestTwoProcesses(t *testing.T) {
	for _, c := range []struct {
		role  Role
		peer  NodeConfig
		ready func(*Node) bool
		want  string
	}{
		{RolePublish, NodeConfig{Role: RoleListen, Groups: testGroups[:1]}, func(n *Node) bool { return n.Stats().Stamped == 50 }, "Published:50 Unsent:0"},
		{RoleListen, NodeConfig{Role: RoleListen, Groups: testGroups[:1]}, nil, "Received:3 "},
		{RoleEcho, NodeConfig{Role: RoleNone}, nil, "Echoed:3 "},
	} {
		t.Run(string(c.role), func(t *testing.T) {
			path := socketPath(t)
			c.peer.Name, c.peer.GUID = "peer", 0x2
			f := newFabric(t, Config{Socket: path, Nodes: []NodeConfig{c.peer}})
			end, peer := child(t, path, string(c.role)), f.Node("peer")
			if c.role == RolePublish {
				waitFor(t, "the child's messages", func() bool { return c.ready(peer) })
			} else {
				exchange(t, peer, c.role)
			}
			if said := end(); !strings.Contains(said, c.want) || !strings.Contains(said, "balanced=true") {
				t.Errorf("the child printed %q; want %q", said, c.want)
			}
			waitFor(t, "the port's end", func() bool { return len(f.Ports()) == 2 })
			for _, g := range f.SA().Groups() {
				if len(g.Members) != 1 || c.peer.Groups == nil {
					t.Errorf("a membership of the child outlived it: %+v", g)
				}
			}
			if s := peer.Stats(); s.Missing+s.Late+s.Damaged != 0 {
				t.Errorf("peer %+v", s)
			}
		})
	}
}

// exchange sends three messages to the child, to its group when it listens, and waits for an echo's answers.
func exchange(t *testing.T, n *Node, role Role) {
	t.Helper()
	path, err := n.SA().Path(t.Context(), mustGID("fe80::c0:ffee"))
	if err != nil {
		t.Fatal(err)
	}
	send := Send{AH: AH{DLID: path.DLID}, DestQP: 0x1234, QKey: n.QP().QKey()}
	if role == RoleListen {
		rec := n.groups[0].record
		send = Send{AH: AH{DLID: rec.MLID, GRH: &ib.GRHFields{DGID: rec.MGID}}, DestQP: ib.QPMulticast, QKey: rec.QKey}
	}
	for i := range 3 {
		send.Payload = stamp.Message(uint64(i+1), 100)
		if cause := n.QP().Send(&send); cause != "" {
			t.Fatal(cause)
		}
	}
	if role == RoleEcho {
		waitFor(t, "the answers", func() bool { return n.Stats().Received == 3 })
	}
}

// connect opens the socket without a handshake.
func connect(t testing.TB, path string) *net.UnixConn {
	t.Helper()
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(waitLimit))
	return c
}

func TestHandshakeRejections(t *testing.T) {
	path := socketPath(t)
	f := newFabric(t, Config{Socket: path})
	good := (&hello{name: "x", guid: 7}).append(nil)
	edit := func(at int, v byte) []byte {
		b := bytes.Clone(good)
		b[at] = v
		return b
	}
	for i, c := range []struct {
		name  string
		hello []byte
		want  string
	}{
		{"noise", []byte("GET / HTTP/1.1\r\n\r\n"), "not a causeway handshake"},
		{"short", good[:15], "not a causeway handshake"},
		{"version", edit(5, 9), "handshake version 9; this subnet uses 1"},
		{"MTU", edit(6, 6), "MTU code 6"},
		{"name length", edit(7, 5), "the name is 1 bytes long, not 5"},
		{"control character", edit(16, 7), "printable"},
		{"no name", (&hello{guid: 7}).append(nil), "1 to 64 bytes"},
		{"long name", (&hello{guid: 7, name: strings.Repeat("x", 65)}).append(nil), "1 to 64 bytes"},
		{"GUID zero", (&hello{name: "x"}).append(nil), "GUID is zero"},
		{"GUID in use", (&hello{name: "x", guid: smGUID}).append(nil), "in use by LID 0x0001"},
	} {
		conn := connect(t, path)
		if _, err := conn.Write(c.hello); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1000)
		n, err := conn.Read(buf)
		if err != nil {
			t.Errorf("%s: no reply: %v", c.name, err)
			continue
		}
		if _, err := parseReply(buf[:n]); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
		if _, err := conn.Read(buf); err != io.EOF {
			t.Errorf("%s: the connection stays: %v", c.name, err)
		}
		if s := f.server.stats.counts(); s[SocketRejected] != uint64(i+1) {
			t.Errorf("%s: stats %v", c.name, s)
		}
	}
	if _, err := Dial(path, smGUID, "thief"); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("Dial with a GUID in use: %v", err)
	}
	if _, err := Dial(path+"x", 7, "x"); err == nil || !strings.Contains(err.Error(), path+"x") {
		t.Errorf("Dial of nothing: %v", err)
	}
	if _, err := Dial(path, 7, strings.Repeat("x", 300)); err == nil || !strings.Contains(err.Error(), "300 bytes") {
		t.Errorf("Dial with a long name: %v", err)
	}
}

func TestDial(t *testing.T) {
	path := socketPath(t)
	f := newFabric(t, Config{Socket: path, PKeys: []ib.PKey{0xffff, 0x8001}})
	p, err := Dialer{MTU: ib.MTU1024}.Dial(path, 0x77, "far away")
	if err != nil {
		t.Fatal(err)
	}
	want := PortInfo{
		Name: "far away", GUID: 0x77, GID: mustGID("fe80::77"), LID: 2, SMLID: 1, MTU: ib.MTU1024, PKeys: []ib.PKey{0xffff, 0x8001},
	}
	if got := p.Info(); fmt.Sprint(got) != fmt.Sprint(want) || fmt.Sprint(f.Ports()[1]) != fmt.Sprint(want) {
		t.Errorf("Info = %+v, the subnet's %+v\nwant %+v", got, f.Ports()[1], want)
	}
	p.Close()
	if err := p.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if p.Send(good(nil)) != 0 {
		t.Error("a closed port sends")
	}
	waitFor(t, "the port's end", func() bool { return len(f.Ports()) == 1 })
}

func TestHostilePackets(t *testing.T) {
	path := socketPath(t)
	f := newFabric(t, Config{Socket: path})
	port, err := Dial(path, 0x66, "hostile")
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	mine := func(change func(p *ib.Packet)) []byte {
		return good(func(p *ib.Packet) {
			p.SLID, p.DLID, p.DestQP, p.QKey, p.Payload = 2, 1, 1, ib.QKeyGSI, make([]byte, 256)
			if change != nil {
				change(p)
			}
		})
	}
	badICRC := mine(nil)
	badICRC[60] ^= 1
	n := len(badICRC) - ib.VCRCLen
	ib.PutVCRC(badICRC[n:], ib.VCRC(badICRC[:n]))
	for _, c := range []struct {
		name           string
		packet         []byte
		atSwitch, atSM string
	}{
		{"one byte", []byte{1}, "lrh_hdr", ""},
		{"noise", bytes.Repeat([]byte{0x42}, 500), "lrh_hdr", ""},
		{"longer than any packet", make([]byte, maxPacket+100), "ib_raw", ""},
		{"cut off", mine(nil)[:100], "lrh_len", ""},
		{"VCRC", append(mine(nil)[:len(mine(nil))-1], 0x55), "vcrc", ""},
		{"spoofed", mine(func(p *ib.Packet) { p.SLID = 1 }), DropSLID, ""},
		{"group of others", multicast(func(p *ib.Packet) { p.SLID, p.DLID = 2, 0xc000 }), DropNoRoute, ""},
		{"ICRC", badICRC, "", "icrc"},
		{"Q_Key", mine(func(p *ib.Packet) { p.QKey = 1 }), "", DropQKey},
		{"no such queue pair", mine(func(p *ib.Packet) { p.DestQP = 7 }), "", DropNoQP},
		{"subnet management", mine(func(p *ib.Packet) { p.DestQP = 0 }), "", DropQP0},
	} {
		if port.Send(c.packet) != 1 {
			t.Fatalf("%s: the subnet hung up", c.name)
		}
		if c.atSwitch != "" {
			waitFor(t, c.name+" dropped as "+c.atSwitch, func() bool { s, _ := f.Stats(); return s.Drops[c.atSwitch] > 0 })
		} else {
			waitFor(t, c.name+" dropped as "+c.atSM, func() bool { return f.SA().HCA().Stats().Drops[c.atSM] > 0 })
		}
	}
	h := NewHCA(port) // and the port still works
	defer h.Close()
	if p, err := NewSAClient(h).Path(t.Context(), f.SA().HCA().Info().GID); err != nil || p.DLID != 1 {
		t.Errorf("Path = %+v, %v", p, err)
	}
}

func TestSilentClients(t *testing.T) {
	path := socketPath(t)
	f := newFabric(t, Config{Socket: path, Queue: 50, Nodes: []NodeConfig{{Name: "n", GUID: 0x5}}})
	mute := connect(t, path) // sends nothing at all
	deaf, err := Dial(path, 0x66, "deaf")
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	n := f.Node("n")
	lost := func() uint64 { _, p := f.Stats(); return p.Drops[DropQueueFull] }
	for range 20000 {
		n.QP().Send(&Send{AH: AH{DLID: deaf.Info().LID}, DestQP: 9, Payload: make([]byte, 4096)})
		if lost() > 100 {
			break
		}
	}
	if lost() <= 100 {
		t.Fatal("a client that does not read lost nothing")
	}
	before := lost()
	if _, err := n.SA().Path(t.Context(), f.SA().HCA().Info().GID); err != nil || lost() != before {
		t.Errorf("others suffer: %v", err)
	}
	deaf.Close()
	mute.Close()
	waitFor(t, "the ports' end", func() bool { return len(f.Ports()) == 2 })
	waitFor(t, "the sessions' end", func() bool {
		f.server.mu.Lock()
		defer f.server.mu.Unlock()
		return len(f.server.sessions) == 0
	})
}

func TestStaleSocket(t *testing.T) {
	path := socketPath(t)
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Socket: path}); err == nil {
		t.Error("replaced a socket that somebody listens on")
	}
	l.SetUnlinkOnClose(false)
	l.Close() // as after a crash
	newFabric(t, Config{Socket: path})
	plain := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(plain, []byte("keep me"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Socket: plain}); err == nil {
		t.Error("replaced an ordinary file")
	}
	if b, _ := os.ReadFile(plain); string(b) != "keep me" {
		t.Error("the ordinary file is gone")
	}
}

// A socket that is in use is not replaced.
func TestSocketInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := New(Config{Socket: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Socket: path}); err == nil || !strings.Contains(err.Error(), "exists and is not a stale socket") {
		t.Errorf("a second fabric on the same path: %v", err)
	}
	if _, err := Dial(path, 0x77, "node"); err != nil {
		t.Errorf("the first fabric's socket is gone: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(path + "*"); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
