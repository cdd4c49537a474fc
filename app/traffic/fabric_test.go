// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"causeway/ibside/fabric"
	"causeway/ibside/ib"
)

// subnet starts a software subnet with a socket, until the test ends.
func subnet(t *testing.T) (on string, end func() error) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	f, err := fabric.New(fabric.Config{Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	end = sync.OnceValue(f.Close)
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return "fabric:" + socket, end
}

// openOn opens an endpoint on a subnet.
func openOn(t *testing.T, c Config) (Endpoint, *inbox) {
	t.Helper()
	h := &inbox{}
	c.OnMessage = h.note
	e, err := open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e, h
}

func TestFabric(t *testing.T) {
	on, _ := subnet(t)
	one, toOne := openOn(t, Config{On: on, GUID: 0x11, QPN: 0x111})
	two, toTwo := openOn(t, Config{On: on, GUID: 0x12})
	if w := one.Info(); w.GID != "fe80::11" || w.QPN != 0x111 || w.MTU != 4096 {
		t.Errorf("%+v", w)
	}
	to, err := two.Resolve(soon(t), netip.MustParseAddr("fe80::11"), 0x111)
	if err != nil {
		t.Fatal(err)
	}
	if err := to.Send([]byte("ask")); err != nil {
		t.Fatal(err)
	}
	asked := toOne.await(t, 1)[0]
	if asked.From.String() != "fe80::12" || asked.To.String() != "fe80::11" || asked.SrcQP != two.Info().QPN {
		t.Errorf("%+v", asked)
	}
	if err := one.ReplyTo(&asked).Send([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	if m := toTwo.await(t, 1)[0]; string(m.Payload) != "answer" || m.SrcQP != 0x111 {
		t.Errorf("%+v", m)
	}
	for _, g := range []Group{
		{Addr: netip.MustParseAddr("239.1.2.3")}, {Addr: netip.MustParseAddr("239.1.2.3"), Port: 4711, Form: "ff15:4001::{port}:{ip32}"},
		{Addr: netip.MustParseAddr("239.1.2.3"), Form: "ipoib", Scope: 5}, {Addr: netip.MustParseAddr("ff12:4001:ffff::f01:204"), QKey: 77},
	} {
		if _, err := one.Join(soon(t), g, true); err != nil {
			t.Fatal(err)
		}
		to, err := two.Join(soon(t), g, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := to.Send([]byte("all")); err != nil {
			t.Fatal(err)
		}
		if m := toOne.await(t, 1)[0]; string(m.Payload) != "all" || !m.To.IsMulticast() {
			t.Errorf("%v: %+v", g, m)
		}
	}
	_, err = two.Join(soon(t), Group{Addr: netip.MustParseAddr("239.1.2.3"), QKey: 99}, true)
	if err == nil || !strings.Contains(err.Error(), "Q_Key 0x00000063") {
		t.Errorf("another Q_Key: %v", err)
	}
	_, err = two.Join(soon(t), Group{Addr: netip.MustParseAddr("239.1.2.3"), Port: 4711}, true)
	if err != nil {
		t.Errorf("a group that has a port: %v", err)
	}
	for ip, want := range map[string]string{"10.9.0.1": "has GIDs", "fe80::99": "is there a port with this GID?"} {
		if _, err := two.Resolve(soon(t), netip.MustParseAddr(ip), 7); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", ip, err)
		}
	}
}

func TestMGID(t *testing.T) {
	for _, c := range []struct {
		g    Group
		mgid string
		qkey ib.QKey
	}{
		{Group{Addr: netip.MustParseAddr("239.1.2.3")}, "ff12:4001:ffff::f01:203", ib.QKeyRDMAUDP},
		{Group{Addr: netip.MustParseAddr("239.1.2.3"), Scope: 5}, "ff15:4001:ffff::f01:203", ib.QKeyRDMAUDP},
		{Group{Addr: netip.MustParseAddr("239.1.2.3"), Form: "ipoib"}, "ff12:401b:ffff::f01:203", ib.QKeyIPoIB},
		{Group{Addr: netip.MustParseAddr("239.1.2.3"), Port: 4711}, "ff15:a01b::1267:ef01:203", ib.QKeyRDMAUDP},
		{Group{Addr: netip.MustParseAddr("ff12:401b:ffff::f01:203")}, "ff12:401b:ffff::f01:203", ib.QKeyIPoIB},
		{Group{Addr: netip.MustParseAddr("ff12:601b:ffff::1")}, "ff12:601b:ffff::1", ib.QKeyIPoIB},
		{Group{Addr: netip.MustParseAddr("ff15::1:3"), QKey: 5}, "ff12:6001:ffff::1:3", 5},
		{Group{Addr: netip.MustParseAddr("239.1.2.3"), Form: "nonsense"}, "", 0},
	} {
		mgid, qkey, err := c.g.mgid(ib.PKeyDefault)
		if (err == nil) != (c.mgid != "") || err == nil && (mgid.String() != c.mgid || qkey != c.qkey) {
			t.Errorf("%+v: %v, %v, %v, want %s, %v", c.g, mgid, qkey, err, c.mgid, c.qkey)
		}
	}
}

// TestSendAndListen has a listener send to a sender first, so that this can answer, and end by its count, by silence,
// and with its subnet.
func TestSendAndListen(t *testing.T) {
	on, end := subnet(t)
	waits := make(chan Info, 2)
	sent := make(chan SendReport, 1)
	go func() {
		r, err := Send(t.Context(), Config{On: on, GUID: 0x11}, SendConfig{Size: 100, Count: 50, Rate: 5000, Burst: 3, Ready: func(w Info, _ string) error { waits <- w; return nil }})
		if err != nil {
			t.Error(err)
		}
		sent <- r
	}()
	ready := func(Info, []string) error { return nil }
	r, err := Listen(t.Context(), Config{On: on}, ListenConfig{Call: netip.MustParseAddr("fe80::11"), CallQPN: (<-waits).QPN, Count: 50, Expect: 50, Ready: ready})
	if err != nil || !r.Met || r.Sum.Whole != 50 || r.Sum.Bytes != 5000 {
		t.Errorf("%+v, %v", r, err)
	}
	if s := <-sent; s.Sent != 50 || s.Unsent != 0 {
		t.Errorf("%+v", s)
	}
	r, err = Listen(t.Context(), Config{On: on}, ListenConfig{Idle: 50 * time.Millisecond, Expect: 1, Ready: ready})
	if err != nil || r.Met || r.Seconds < 0.05 {
		t.Errorf("nothing came: %+v, %v", r, err)
	}
	_, err = Send(t.Context(), Config{On: on}, SendConfig{To: Group{Addr: netip.MustParseAddr("239.1.2.3")}, Size: 5000, Burst: 1})
	if err == nil || !strings.Contains(err.Error(), "-size 5000") {
		t.Errorf("too large: %v", err)
	}
	_, err = Listen(t.Context(), Config{On: on}, ListenConfig{Ready: func(Info, []string) error { return end() }})
	if err == nil || !strings.Contains(err.Error(), "has gone") {
		t.Errorf("without its subnet: %v", err)
	}
}
