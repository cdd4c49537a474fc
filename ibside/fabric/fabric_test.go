// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"causeway/ibside/ib"
)

func TestMain(m *testing.M) {
	if task := os.Getenv(childTask); task != "" {
		os.Exit(runChild(task))
	}
	os.Exit(m.Run())
}

// newFabric makes a subnet whose counters must balance when the test ends.
func newFabric(t testing.TB, cfg Config) *Fabric {
	t.Helper()
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		waitFor(t, "a quiet subnet", f.Quiet)
		checkConserved(t, f)
		if err := f.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		checkConserved(t, f)
	})
	return f
}

// checkConserved asserts that no packet was lost without being counted.
func checkConserved(t testing.TB, f *Fabric) {
	t.Helper()
	sw, ports := f.Stats()
	if sw.In+sw.Copies != sw.Out+sw.Drops.Sum() {
		t.Errorf("switch: in %d + copies %d != out %d + drops %v", sw.In, sw.Copies, sw.Out, sw.Drops)
	}
	if sw.Out != ports.Queued || ports.Queued != ports.Taken+ports.Waiting+ports.Drops.Sum() {
		t.Errorf("ports: out %d != queued %d != taken %d + waiting %d + drops %v",
			sw.Out, ports.Queued, ports.Taken, ports.Waiting, ports.Drops)
	}
	checkHCA(t, "sm", f.SA().HCA())
	for _, n := range f.Nodes() {
		checkHCA(t, n.cfg.Name, n.hca)
	}
}

func checkHCA(t testing.TB, name string, h *HCA) {
	t.Helper()
	if s := h.Stats(); s.Received != s.Delivered+s.Drops.Sum() || s.Packets > s.Received {
		t.Errorf("HCA %s: packets %d, received %d != delivered %d + drops %v", name, s.Packets, s.Received, s.Delivered, s.Drops)
	}
}

func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s within ten seconds", what)
		}
	}
}

func mustGID(s string) ib.GID {
	g, err := ib.ParseGID(s)
	if err != nil {
		panic(err)
	}
	return g
}

// attachHCA attaches one more adapter to the subnet.
func attachHCA(t testing.TB, f *Fabric, c PortConfig) *HCA {
	t.Helper()
	port, err := f.Attach(c)
	if err != nil {
		t.Fatal(err)
	}
	h := NewHCA(port)
	t.Cleanup(func() {
		checkHCA(t, c.Name, h)
		h.Close()
	})
	return h
}

func mustQP(t testing.TB, h *HCA, c QPConfig) *QP {
	t.Helper()
	q, err := h.CreateQP(c)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func equalCounts(got, want Counts) bool { return maps.Equal(got, want) }

func TestAttach(t *testing.T) {
	f := newFabric(t, Config{PKeys: []ib.PKey{0x8001, 0x7fff}, MTU: ib.MTU2048})
	p, err := f.Attach(PortConfig{Name: "a", GUID: 0x10, MTU: ib.MTU4096})
	if err != nil {
		t.Fatal(err)
	}
	want := PortInfo{
		Name: "a", GUID: 0x10, GID: mustGID("fe80::10"), LID: 2, SMLID: 1, MTU: ib.MTU2048, PKeys: []ib.PKey{0x8001, 0x7fff},
	}
	if got := p.Info(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("Info = %+v\nwant %+v", got, want)
	}
	for _, c := range []struct {
		name string
		conf PortConfig
		want string
	}{
		{"no GUID", PortConfig{Name: "b"}, "GUID"},
		{"GUID in use", PortConfig{Name: "b", GUID: 0x10}, "in use by LID 0x0002"},
		{"foreign P_Key", PortConfig{Name: "b", GUID: 0x11, PKeys: []ib.PKey{0x8002}}, "P_Key 0x8002"},
		{"limited P_Key of a limited partition", PortConfig{Name: "b", GUID: 0x11, PKeys: []ib.PKey{0x7fff}}, "P_Key 0x7fff"},
	} {
		if _, err := f.Attach(c.conf); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if p.Send(nil) != 0 {
		t.Error("a closed port sends")
	}
	if _, err := p.Recv(make([][]byte, 1)); err != ErrClosed {
		t.Errorf("Recv of a closed port: %v", err)
	}
	again, err := f.Attach(PortConfig{Name: "a", GUID: 0x10})
	if err != nil || again.Info().LID != 3 {
		t.Errorf("the second port with the GUID: %v, %v; want LID 3: one given back does not come again at once", again, err)
	}
}

func TestNewRejects(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"MTU", Config{MTU: 6}, "mtu 6"},
		{"P_Key", Config{PKeys: []ib.PKey{0x8000}}, "P_Key 0x8000"},
		{"no P_Keys", Config{PKeys: []ib.PKey{}}, "0 P_Keys"},
		{"queue", Config{Queue: -1}, "queue -1"},
		{"two captures", Config{Capture: &strings.Builder{}, CaptureFile: "x"}, "choose one"},
		{"capture file", Config{CaptureFile: "/nonexistent/x"}, "/nonexistent/x"},
		{"socket", Config{Socket: "/nonexistent/x"}, "/nonexistent/x"},
		{"node", Config{Nodes: []NodeConfig{{Name: "n", GUID: 2, Role: "x"}}}, `role "x"`},
		{"two nodes with one GUID", Config{Nodes: []NodeConfig{{Name: "n", GUID: 2}, {Name: "m", GUID: 2}}}, "in use"},
		{"QPN", Config{Nodes: []NodeConfig{{Name: "n", GUID: 2, QPN: 1}}}, "QPN 0x000001"},
		{"join rejected", Config{Nodes: []NodeConfig{{Name: "n", GUID: 2, Role: RoleListen, Groups: []GroupConfig{{}, {}}}}}, ""},
	} {
		f, err := New(c.cfg)
		if c.name == "join rejected" { // a zero MGID asks the SA for one: no error
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			f.Close()
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
	}
}
