// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"causeway/ibside/ib"
)

// follow attaches an adapter that attaches again.
func follow(t *testing.T, path string, guid ib.GUID) *HCA {
	t.Helper()
	port, err := Follow(path, guid, "follower")
	if err != nil {
		t.Fatal(err)
	}
	h := NewHCA(port)
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		checkHCA(t, "follower", h)
	})
	return h
}

// awaitLink waits until the adapter has news and is up, or down for a reason with these words.
func awaitLink(t *testing.T, h *HCA, words string) {
	t.Helper()
	for end := time.After(10 * time.Second); ; {
		if down := h.Down(); (down == "") == (words == "") && strings.Contains(down, words) {
			return
		}
		select {
		case <-h.Link():
		case <-end:
			t.Fatalf("no news that Down is %q; it is %q", words, h.Down())
		}
	}
}

// TestFollow: the subnet of another process ends, and another one takes its place, with other LIDs, another prefix and
// without one of the partitions.
func TestFollow(t *testing.T) {
	path := socketPath(t)
	first, err := New(Config{Socket: path, PKeys: []ib.PKey{0xffff, 0x8001}})
	if err != nil {
		t.Fatal(err)
	}
	h := follow(t, path, 0x77)
	recv := NewRecvQueue(8)
	q, err := h.CreateQP(QPConfig{QPN: 0x77, QKey: 5, Recv: recv})
	if err != nil {
		t.Fatal(err)
	}
	apart, err := h.CreateQP(QPConfig{QPN: 0x78, QKey: 5, PKeyIndex: 1, Recv: recv})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	awaitLink(t, h, "no subnet answers at "+path)
	if cause := q.Send(&Send{AH: AH{DLID: 1}, DestQP: 9}); cause != DropLinkDown {
		t.Errorf("a send without a link was dropped as %q", cause)
	}
	sm := h.Info().SMLID
	second := newFabric(t, Config{
		Socket: path, Prefix: 0xfec0 << 48, PKeys: []ib.PKey{0x8002, 0xffff}, MTU: ib.MTU1024,
		Nodes: []NodeConfig{{Name: "n", GUID: 0x5}, {Name: "m", GUID: 0x6}},
	})
	awaitLink(t, h, "")
	waitFor(t, "what the new subnet has assigned", func() bool { return h.Info().GID == mustGID("fec0::77") })
	if i := h.Info(); i.LID != 4 || i.SMLID != sm || i.MTU != ib.MTU1024 || i.PKeys[1] != 0xffff {
		t.Errorf("Info = %+v", i)
	}
	near, got := attachHCA(t, second, PortConfig{Name: "near", GUID: 0x7}), NewRecvQueue(8)
	peer, err := near.CreateQP(QPConfig{QPN: 0x10, QKey: 5, PKeyIndex: 1, Recv: got})
	if err != nil {
		t.Fatal(err)
	}
	if cause := apart.Send(&Send{AH: AH{DLID: 5}, DestQP: 0x10, QKey: 5}); cause != DropPKey {
		t.Errorf("a send in a partition that the port has left was dropped as %q", cause)
	}
	if there, back := q.Send(&Send{AH: AH{DLID: 5}, DestQP: 0x10, QKey: 5}), peer.Send(&Send{AH: AH{DLID: 4}, DestQP: 0x77, QKey: 5}); there+back != "" {
		t.Fatal(there, back)
	}
	waitFor(t, "a message each way", func() bool { return recv.Len() == 1 && got.Len() == 1 })
	if s := h.Stats(); s.Sent != 1 || s.SendDrops[DropLinkDown] != 1 || s.SendDrops[DropPKey] != 1 || s.SendDrops.Sum() != 2 {
		t.Errorf("sent %d, dropped %v; want 1, and one as %s and one as %s", s.Sent, s.SendDrops, DropLinkDown, DropPKey)
	}
	if len(second.Ports()) != 5 {
		t.Errorf("ports %v", second.Ports())
	}
}

// TestFollowRejected: while another port has the GUID, the port says so, and goes on trying.
func TestFollowRejected(t *testing.T) {
	path := socketPath(t)
	if _, err := Follow(path, 0x77, "follower"); !errors.Is(err, ErrNoSubnet) {
		t.Errorf("Follow of nothing: %v", err)
	}
	first, err := New(Config{Socket: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Follow(path, smGUID, "thief"); !errors.Is(err, ErrGUIDInUse) {
		t.Errorf("Follow with a GUID in use: %v", err)
	}
	h := follow(t, path, 0x77)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	awaitLink(t, h, "no subnet answers")
	second := newFabric(t, Config{Socket: path, Nodes: []NodeConfig{{Name: "thief", GUID: 0x77}}})
	awaitLink(t, h, "is in use")
	if err := second.Node("thief").Close(); err != nil {
		t.Fatal(err)
	}
	awaitLink(t, h, "")
}

// TestFollowCut: another process is told that its link is cut, and that it is mended.
func TestFollowCut(t *testing.T) {
	path := socketPath(t)
	f := newFabric(t, Config{Socket: path})
	far := follow(t, path, 0x77)
	near := attachHCA(t, f, PortConfig{Name: "near", GUID: 0x78})
	for _, h := range []*HCA{far, near} {
		for _, cut := range []bool{true, false, true, false} {
			if err := f.Cut(h.Info().GUID, cut); err != nil {
				t.Fatal(err)
			}
			awaitLink(t, h, map[bool]string{true: "is cut"}[cut])
		}
	}
}

// listenSilently is a subnet that attaches one port, and from then on does nothing. It returns a channel that is closed when
// the port is attached.
func listenSilently(t *testing.T, path string) <-chan struct{} {
	t.Helper()
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	attached := make(chan struct{})
	go func() {
		c, err := l.AcceptUnix()
		if err != nil {
			return
		}
		t.Cleanup(func() { c.Close() })
		c.Read(make([]byte, maxPacket))
		c.Write(appendReply(nil, PortInfo{GID: mustGID("fe80::77"), LID: 2, SMLID: 1, MTU: ib.MTU4096, PKeys: []ib.PKey{0xffff}}))
		close(attached)
	}()
	return attached
}

// TestFollowStopped: a process that neither reads nor answers keeps nobody: its port goes down, and Close does not wait.
func TestFollowStopped(t *testing.T) {
	path := socketPath(t)
	answers := listenSilently(t, path)
	port, err := Follow(path, 0x77, "follower")
	if err != nil {
		t.Fatal(err)
	}
	<-answers
	h := NewHCA(port)
	q, err := h.CreateQP(QPConfig{QPN: 0x77, Recv: NewRecvQueue(1)})
	if err != nil {
		t.Fatal(err)
	}
	sent, begin := uint64(0), time.Now()
	for ; q.Send(&Send{AH: AH{DLID: 1}, DestQP: 9, Payload: make([]byte, 4096)}) == ""; sent++ {
	}
	if took := time.Since(begin); took > 3*followPatience {
		t.Errorf("a send waited for %v", took)
	}
	awaitLink(t, h, path)
	begin = time.Now()
	if err := h.Close(); err != nil || time.Since(begin) > followPatience/2 {
		t.Errorf("Close took %v: %v", time.Since(begin), err)
	}
	if s := h.Stats(); s.Sent != sent || s.SendDrops.Sum() != 1 {
		t.Errorf("sent %d, dropped %v; want %d and one", s.Sent, s.SendDrops, sent)
	}
}

func TestAtSocket(t *testing.T) {
	path := socketPath(t)
	newFabric(t, Config{Socket: path})
	for p, want := range map[string]bool{path: true, filepath.Dir(path): false, "nothing.sock": true, "nothing.toml": false, "follow_test.go": false} {
		if AtSocket(p) != want {
			t.Errorf("AtSocket(%q) = %v", p, !want)
		}
	}
	if err := Probe(path); err != nil {
		t.Error(err)
	}
	if err := Probe("nothing.sock"); !errors.Is(err, ErrNoSubnet) {
		t.Errorf("Probe of nothing: %v", err)
	}
}
