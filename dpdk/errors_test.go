// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"causeway/dpdk/dpdktest"
)

func TestPortErrors(t *testing.T) {
	pool := newPool(t)
	small, err := NewMempool("small", 7, 2048, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer small.Free()
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		config PortConfig
		want   []string // after dpdk: port "name":
	}{
		{"", PortConfig{Pool: pool}, []string{`"" is no kind of port; use mlx5:`}},
		{"eth0", PortConfig{Pool: pool}, []string{`"eth0" is no kind of port; use `, "mlx5:", "af_packet:", "tap:", "memif:", "ring", "null", "pcap:"}},
		{"ring", PortConfig{}, []string{"it needs a mempool"}},
		{"ring:1", PortConfig{Pool: pool}, []string{"a ring port has no argument"}},
		{"ring", PortConfig{Pool: pool, RxQueues: 17}, []string{"17 Rx and 1 Tx queues: a ring port has at most 16"}},
		{"ring", PortConfig{Pool: pool, TxQueues: 65}, []string{"65 Tx queues: use 1 to 64"}},
		{"ring", PortConfig{Pool: pool, RxDescs: -1}, []string{"-1 Rx descriptors: use 1 to 32768"}},
		{"ring", PortConfig{Pool: pool, MTU: 70000}, []string{"MTU 70000: use 68 to 65517"}},
		{"ring", PortConfig{Pool: small, MTU: 4200}, []string{"mbufs hold 1920 bytes, and with MTU 4200 this port needs 4218; ", "a data room of at least 4346"}},
		{"null:x", PortConfig{Pool: pool}, []string{`"x" is no frame length; use 14 to 1518 bytes`}},
		{"null", PortConfig{Pool: pool, RxQueues: 2000}, []string{"2000 Rx queues: use 1 to 64"}},
		{"pcap:", PortConfig{Pool: pool}, []string{"write it as pcap:IN-FILE[,OUT-FILE]"}},
		{"pcap:" + dir + "/none", PortConfig{Pool: pool}, []string{"capture file " + dir + "/none: no such file or directory"}},
		{"pcap:" + empty + "," + dir + "/no/out", PortConfig{Pool: pool}, []string{"capture file " + dir + "/no/out: its folder: no such"}},
		{"pcap:" + empty, PortConfig{Pool: pool}, []string{"Couldn't open " + empty + ": "}},
		{"memif:", PortConfig{Pool: pool}, []string{"write it as memif:SOCKET"}},
		{"memif:/none/x.sock", PortConfig{Pool: pool}, []string{"socket /none/x.sock: there is no folder /none"}},
		{"memif:/tmp/" + strings.Repeat("x", 120), PortConfig{Pool: pool}, []string{"socket /tmp/xxx", "125 bytes are too long a path"}},
		{"memif:/tmp/x.sock,role=boss", PortConfig{Pool: pool}, []string{`option "role=boss": write it as memif:`}},
		{"memif:/tmp/x.sock,id=x", PortConfig{Pool: pool}, []string{`option "id=x": write it as memif:`}},
		{"memif:" + empty + ",role=server", PortConfig{Pool: pool}, []string{"Failed to setup socket " + empty + ": Address already in use"}},
		{"tap:a-name-beyond-15", PortConfig{Pool: pool}, []string{`"a-name-beyond-15" is no interface name`}},
		{"af_packet:", PortConfig{Pool: pool}, []string{`"" is no interface name`, "af_packet:INTERFACE"}},
		{"af_packet:lo", PortConfig{Pool: pool, MTU: 100, RxQueues: 2}, []string{"2 Rx and 1 Tx queues: af_packet has them in pairs"}},
		{"mlx5:eth0", PortConfig{Pool: pool}, []string{`"eth0" is no PCI address; write it as mlx5:0000:3b:00.0`}},
		{"mlx5:ffff:ff:1f.7", PortConfig{Pool: pool}, []string{"there is no PCI device ffff:ff:1f.7; of ConnectX devices there are: "}},
	} {
		_, err := OpenPort(c.name, c.config)
		c.want[0] = `dpdk: port "` + c.name + `": ` + c.want[0]
		wantError(t, err, c.want...)
	}
}

func TestKernelPortErrors(t *testing.T) {
	ownNetwork(t)
	veth(t, "ours", "theirs", "1500")
	pool := newPool(t)
	for _, c := range []struct {
		name   string
		config PortConfig
		want   string
	}{
		{"af_packet:eth9", PortConfig{Pool: pool}, "there is no interface eth9; there are lo, theirs, ours"},
		{"af_packet:ours", PortConfig{Pool: pool, MTU: 4200}, "MTU 4200: the interface has 1500; ip link set ours mtu 4200"},
		{"tap:ours", PortConfig{Pool: pool}, "there is an interface ours already; tap makes its own, choose another name"},
		{"tap:dtap2,remote=eth9", PortConfig{Pool: pool}, "there is no interface eth9 to share; there are lo, theirs, ours"},
		{"tap:dtap2,remote=", PortConfig{Pool: pool}, `"" is no interface name; write it as tap:NEW-INTERFACE[,remote=INTERFACE]`},
		{"tap:dtap2", PortConfig{Pool: pool, MTU: 4200}, "MTU 4200: this port can at most 1504"},
		{"tap:dtap2", PortConfig{Pool: pool, RxQueues: 17}, "17 Rx and 1 Tx queues: this port has at most 16 and 16"},
	} {
		_, err := OpenPort(c.name, c.config)
		wantError(t, err, `dpdk: port "`+c.name+`": `+c.want)
		if missing := strings.HasPrefix(c.want, "there is no interface"); errors.Is(err, ErrNoInterface) != missing {
			t.Errorf("%s: its interface is missing: %v, want %v", c.name, !missing, missing)
		}
	}
	if _, err := net.InterfaceByName("dtap2"); err == nil {
		t.Error("a tap that could not be opened has left its interface")
	}
}

func TestMemifClientWithoutServer(t *testing.T) {
	name := "memif:" + filepath.Join(t.TempDir(), "none.sock")
	p, err := OpenPort(name, PortConfig{Pool: newPool(t)})
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, p.Start(), `dpdk: port "`+name+`": start: Failed to connect socket: `)
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestMemifServerAfterADeadOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dead.sock")
	dead, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	open(t, "memif:"+path+",role=server", PortConfig{Pool: newPool(t)})
}

func TestMissingDriver(t *testing.T) {
	wantError(t, driverThere("net_bogus"), "the driver net_bogus is not installed: install the package librte-net-bogus2")
	for _, s := range schemes {
		if err := driverThere(s.driver); err != nil && s != &schemeMlx5 {
			t.Error(err)
		}
	}
	for driver, want := range map[string]string{
		"net_memif": "librte-net-memif23", "net_af_packet": "librte-net-af-packet23", "net_mlx5": "librte-net-mlx5-23",
	} {
		if got := driverPackage(driver, 23); got != want {
			t.Errorf("%s is in %s, want %s", driver, got, want)
		}
	}
}

// sysTree is a /sys and /proc of a test's own.
func sysTree(t *testing.T, files map[string]string) {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := sysRoot
	sysRoot = root
	t.Cleanup(func() { sysRoot = old })
}

func TestMlx5Errors(t *testing.T) {
	const devices = "sys/bus/pci/devices/"
	sysTree(t, map[string]string{
		devices + "0000:00:03.0/vendor":            "0x8086\n",
		devices + "0000:3b:00.0/vendor":            "0x15b3\n",
		devices + "0000:3b:00.1/vendor":            "0x15b3\n",
		devices + "0000:3b:00.1/infiniband/mlx5_1": "",
	})
	pool := newPool(t)
	for name, want := range map[string]string{
		"mlx5:0000:3b:00.2": "there is no PCI device 0000:3b:00.2; of ConnectX devices there are: 0000:3b:00.0, 0000:3b:00.1",
		"mlx5:0000:00:03.0": "PCI device 0000:00:03.0 is no ConnectX: its vendor is 0x8086, not 0x15b3",
		"mlx5:0000:3B:00.0": "PCI device 0000:3b:00.0 has no RDMA device, which the driver works through: modprobe mlx5_ib",
		"mlx5:0000:3b:00.1": "PCI device 0000:3b:00.1 cannot be used from user space: modprobe ib_uverbs",
	} {
		_, err := OpenPort(name, PortConfig{Pool: pool})
		wantError(t, err, `dpdk: port "`+name+`": `+want)
	}
}

func TestMlx5Caveat(t *testing.T) {
	const types = "sys/bus/pci/devices/0000:3b:00.0/infiniband/mlx5_0/ports/1/gid_attrs/types/"
	for _, c := range []struct{ bus, gid, want string }{
		{"pci", "RoCE v2\n", "devlink dev param set pci/0000:3b:00.0 name enable_roce value false cmode driverinit && devlink dev reload pci/0000:3b:00.0"},
		{"pci", "", ""}, // no GID, no RoCE
		{"vdev", "RoCE v2\n", ""},
	} {
		sysTree(t, map[string]string{types + "0": "", types + "1": c.gid})
		got := (&Port{bus: c.bus, device: "0000:3b:00.0"}).Caveat()
		if !strings.HasSuffix(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestMlx5NotNamedToTheEAL(t *testing.T) {
	if err := driverThere("net_mlx5"); err != nil {
		t.Skipf("needs the mlx5 driver: %v", err)
	}
	sysTree(t, map[string]string{
		"sys/bus/pci/devices/0000:3b:00.0/vendor":            "0x15b3\n",
		"sys/bus/pci/devices/0000:3b:00.0/infiniband/mlx5_0": "",
		"sys/class/infiniband_verbs/uverbs0":                 "",
	})
	_, err := OpenPort("mlx5:0000:3b:00.0", PortConfig{Pool: newPool(t)})
	wantError(t, err, `dpdk: port "mlx5:0000:3b:00.0": the EAL was started without 0000:3b:00.0; name it in EALConfig.PCI`)
	p := &Port{name: "mlx5:0000:3b:00.0"}
	wantError(t, p.plugPCI(&EAL{pci: []string{"0000:3B:00.0,dv_flow_en=1"}}),
		"the mlx5 driver did not take 0000:3b:00.0; see its firmware")
}

func TestToldIsOneLineWithTheErrnoOnce(t *testing.T) {
	for _, c := range []struct{ log, want string }{
		{"", "cannot allocate memory"},
		{"EAL: Cannot map: Cannot allocate memory\nEAL: FATAL: Cannot init\n", "Cannot map: Cannot allocate memory"},
		{"EAL: WARNING: slow\nEAL: FATAL: No luck.\n", "No luck: cannot allocate memory"},
		{"tun_alloc(): All rt-signals are in use\n\neth_dev_tap_create(): dtap0: failed to create multiq qdisc.\n",
			"dtap0: failed to create multiq qdisc: cannot allocate memory"},
		{"memif(): Failed to register mp action callback: x\nmemif(): bad\n", "bad: cannot allocate memory"},
	} {
		clearLog()
		dpdktest.LogLine(c.log)
		if err := why(errno(-12)); err.Error() != c.want || !errors.Is(err, errno(-12)) {
			t.Errorf("log %q: %q, want %q", c.log, err, c.want)
		}
	}
	clearLog()
}

func TestLogKeepsTheLast(t *testing.T) {
	clearLog()
	for range 3000 {
		dpdktest.LogLine("a line\n")
	}
	dpdktest.LogLine("the last line\n")
	if log := logged(); len(log) >= logSize || !strings.HasSuffix(log, "a line\nthe last line\n") {
		t.Errorf("%d bytes of log, ending in %q", len(log), log[max(0, len(log)-30):])
	}
	clearLog()
}
