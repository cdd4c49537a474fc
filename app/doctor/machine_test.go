// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "write the tables of testdata anew")

// machines are those of testdata: NAME.tree is a sysfs, NAME.txt the table of it.
var machines = []string{"connectx_ib", "connectx_roce", "rxe", "virtio", "empty"}

// sysfs reads a made-up sysfs, a line for each file: "path = content", with \n for a line's end. Edits are more
// such lines; a path without " = " removes the file or the folder.
func sysfs(t *testing.T, name string, edits ...string) fstest.MapFS {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".tree"))
	if err != nil {
		t.Fatal(err)
	}
	sys := fstest.MapFS{}
	for line := range strings.Lines(string(text) + strings.Join(edits, "\n")) {
		line = strings.TrimSuffix(line, "\n")
		path, content, sets := strings.Cut(line, " = ")
		switch {
		case line == "" || line[0] == '#':
		case sets:
			sys[path] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(content, `\n`, "\n") + "\n"), Mode: 0o444}
		default:
			remove(t, sys, path)
		}
	}
	return sys
}

func remove(t *testing.T, sys fstest.MapFS, path string) {
	t.Helper()
	before := len(sys)
	for file := range sys {
		if file == path || strings.HasPrefix(file, path+"/") {
			delete(sys, file)
		}
	}
	if len(sys) == before {
		t.Fatalf("an edit removes %s, which is not there", path)
	}
}

// TestTables compares whole tables, and wants them to fit the screen.
func TestTables(t *testing.T) {
	for _, name := range machines {
		t.Run(name, func(t *testing.T) {
			got := tableOf(t, ReadMachine(sysfs(t, name)))
			file := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func tableOf(t *testing.T, m *Machine) string {
	t.Helper()
	var b strings.Builder
	if err := m.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	return b.String()
}

// TestLongNames wants 100 columns even of the longest names that the kernel allows, and nothing that moves a
// terminal's cursor.
func TestLongNames(t *testing.T) {
	device, netdev := strings.Repeat("d", 63), strings.Repeat("n", 14)+"\x1b"
	m := ReadMachine(sysfs(t, "rxe",
		"class/infiniband/"+device+"/node_type = 4: RNIC",
		"class/infiniband/"+device+"/ports/1/link_layer = Ethernet",
		"class/infiniband/"+device+"/ports/1/gids/1023 = fd09:1111:2222:3333:4444:5555:6666:7777",
		"class/infiniband/"+device+"/ports/1/gid_attrs/types/1023 = RoCE v2",
		"class/infiniband/"+device+"/ports/1/gid_attrs/ndevs/1023 = "+netdev,
		"class/infiniband/"+device+"/ports/1/pkeys/0 = 0xffff",
		"class/net/"+netdev+"/type = 1",
		"class/net/"+netdev+"/device/uevent = DRIVER="+strings.Repeat("r", 40)))
	got := tableOf(t, m)
	for _, part := range []string{device + ":1\n", strings.Repeat("r", 15) + "~", strings.Repeat("n", 14) + "?", "(over 255: unusable)"} {
		if !strings.Contains(got, part) {
			t.Errorf("no %q in\n%s", part, got)
		}
	}
	if strings.Contains(got, "\x1b") {
		t.Errorf("an escape in %q", got)
	}
}

// TestJSON wants every field back, and lists where there is nothing.
func TestJSON(t *testing.T) {
	for _, name := range machines {
		m := ReadMachine(sysfs(t, name))
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var back Machine
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		for i := range m.Ethernet {
			m.Ethernet[i].connectX = false // not told
		}
		if !reflect.DeepEqual(m, &back) || strings.Contains(string(b), "null") {
			t.Errorf("%s: %s", name, b)
		}
	}
	const want = `{"device":"mlx5_1","port":1,"node_type":"CA","link_layer":"InfiniBand","state":"DOWN","phys_state":"Polling",` +
		`"lid":65535,"sm_lid":0,"rate":"10 Gb/sec (4X SDR)","gids":[{"index":0,"gid":"fe80::2:c903:0:8","type":"IB"}],` +
		`"pkeys":["0xffff"],"pci":"0000:3b:00.1","uverbs":true,"uses":[{"side":"IB side","port":"mlx5_1:1",` +
		`"why_not":"the port is DOWN (Polling); check its cable, and the port at the other end"}`
	b, _ := json.Marshal(ReadMachine(sysfs(t, "connectx_ib")).RDMA[1])
	if !strings.HasPrefix(string(b), want) {
		t.Errorf("got\n%s\nwant\n%s", b, want)
	}
}

// TestNothing wants an empty machine of a sysfs that is not there.
func TestNothing(t *testing.T) {
	for _, sys := range []fs.FS{fstest.MapFS{}, os.DirFS(filepath.Join(t.TempDir(), "none"))} {
		if m := ReadMachine(sys); len(m.RDMA)+len(m.Ethernet) != 0 || m.RDMA == nil || m.Ethernet == nil {
			t.Errorf("%+v", m)
		}
	}
}

// TestUses provokes each reason why a port cannot serve that testdata's machines do not have.
func TestUses(t *testing.T) {
	const mlx5Port = "class/infiniband/mlx5_0/ports/1/"
	for _, c := range []struct {
		name, tree, edits string
		want              string
	}{
		{"IB INIT", "connectx_ib", mlx5Port + "state = 2: INIT",
			"IB side: not mlx5_0:1: the port is INIT: no subnet manager has set it up; start one, such as opensm"},
		{"IB ARMED", "connectx_ib", mlx5Port + "state = 3: ARMED",
			"IB side: not mlx5_0:1: the port is ARMED: no subnet manager has set it up; start one, such as opensm"},
		{"IB without a state", "connectx_ib", mlx5Port + "state\n" + mlx5Port + "phys_state",
			"IB side: not mlx5_0:1: the port is in an unknown state; check its cable, and the port at the other end"},
		{"IB without uverbs", "connectx_ib", "class/infiniband_verbs",
			"IB side: not mlx5_0:1: programs cannot use mlx5_0; modprobe ib_uverbs"},
		{"iWARP", "rxe", "class/infiniband/rxe1/node_type = 4: RNIC",
			"IB side: not rxe1:1: rxe1 is not an InfiniBand HCA; its node type is RNIC"},
		{"rxe down", "rxe", "class/infiniband/rxe1/ports/1/state = 1: DOWN",
			"IB side: not rxe1:1: the port is DOWN; set its interface eth1 up: ip link set eth1 up"},
		{"mlx5 without RDMA", "connectx_roce", "class/infiniband",
			"RoCE side: not mlx5:0000:5e:00.0: it has no RDMA device, which the PMD mlx5 works through; modprobe mlx5_ib"},
		{"mlx5 without uverbs", "connectx_roce", "class/infiniband_verbs",
			"RoCE side: not mlx5:0000:5e:00.0: programs cannot use mlx5_0; modprobe ib_uverbs"},
		{"ConnectX-3", "connectx_roce", "class/net/enp94s0f0np0/device/uevent = DRIVER=mlx4_core",
			"RoCE side: not mlx5:0000:5e:00.0: Causeway uses no PMD for the driver mlx4_core; the PMD mlx5 works beside mlx5_core"},
		{"no driver", "connectx_roce", "bus/pci/devices/0000:af:00.0/uevent = PCI_CLASS=20000",
			"RoCE side: no: it has no driver, and af_packet needs a network interface; give the card to its kernel driver"},
		{"MTU 1500", "connectx_roce", "class/net/enp94s0f0np0/mtu = 1500",
			"RoCE side: mlx5:0000:5e:00.0 (carries IB MTU 1024; 4096 needs an MTU of 4176)"},
		{"carrier unknown", "virtio", "class/net/eth0/operstate = unknown\nclass/net/eth0/carrier",
			"RoCE side: af_packet:eth0 (carries IB MTU 1024; 4096 needs an MTU of 4176; Causeway uses no PMD for the driver virtio_net)"},
		{"lower layer down", "virtio", "class/net/veth12ab34/operstate = lowerlayerdown",
			"RoCE side: not af_packet:veth12ab34: the port is down, without carrier; check its cable, and the port at the other end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := ReadMachine(sysfs(t, c.tree, strings.Split(c.edits, "\n")...))
			var all []string
			for _, p := range m.RDMA {
				all = append(all, texts(p.Uses)...)
			}
			for _, e := range m.Ethernet {
				all = append(all, texts(e.Uses)...)
			}
			for _, got := range all {
				if got == c.want {
					return
				}
			}
			t.Errorf("no\n%s\nin\n%s", c.want, strings.Join(all, "\n"))
		})
	}
}

func texts(uses []Use) []string {
	var out []string
	for _, u := range uses {
		out = append(out, u.String())
	}
	return out
}

// TestNotes wants no remark on what cannot serve.
func TestNotes(t *testing.T) {
	for _, name := range machines {
		m := ReadMachine(sysfs(t, name))
		for _, e := range m.Ethernet {
			for _, u := range e.Uses {
				if u.WhyNot != "" && u.Note != "" {
					t.Errorf("%s: %+v", name, u)
				}
			}
		}
	}
}

// TestActiveMTU wants the kernel's two rules: rxe's and the RDMA core's, which differ from 4176 to 4191.
func TestActiveMTU(t *testing.T) {
	for _, c := range []struct {
		tree, netdev, mtu string
		want              int
	}{
		{"rxe", "eth1", "4176", 4096}, {"rxe", "eth1", "4175", 2048}, {"rxe", "eth1", "1500", 1024}, {"rxe", "eth1", "100", 0},
		{"connectx_roce", "enp94s0f0np0", "4176", 2048}, {"connectx_roce", "enp94s0f0np0", "4192", 4096},
	} {
		m := ReadMachine(sysfs(t, c.tree, "class/net/"+c.netdev+"/mtu = "+c.mtu))
		if got := m.RDMA[0].ActiveMTU; got != c.want {
			t.Errorf("%s, MTU %s: got %d, want %d", c.tree, c.mtu, got, c.want)
		}
	}
}
