// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"causeway/app/doctor"
)

// listed is a configuration for the guest of TestDevices: eth0 is the RoCE side, rxe0 over eth1 the other.
const listed = `[roce]
port = "af_packet:eth0"
addresses = ["10.9.0.254/24"]
mtu = 4200
[ib]
port = "rxe0:1"
`

// buildLister builds the program that lists a guest's devices into a folder to share with it.
func buildLister(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(folder, "lister"), "./lister")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build lister: %v\n%s", err, out)
	}
	for name, edit := range map[string][]string{
		"right.toml":     nil,
		"pkey.toml":      {`port = "rxe0:1"`, "port = \"rxe0:1\"\npkey = 0x8005"},
		"interface.toml": {"eth0", "eth7"},
	} {
		text := strings.NewReplacer(edit...).Replace(listed)
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// waitsForIt is how lister says that a bridge would start all the same.
const waitsForIt = "the bridge waits for it"

// deviceSteps are changes to the guest of TestDevices, in order, and what lister then reports for a
// configuration.
var deviceSteps = []struct {
	name, command string
	file, want    string // what lister prints about a configuration
}{
	{"all is right", "true", "right", ""},
	{"no such interface", "true", "interface",
		`roce: port "af_packet:eth7": there is no interface eth7 here; there are eth0, eth1 and eth1.100`},
	{"P_Key absent", "true", "pkey", `ib: pkey 0x8005: the port rxe0:1 does not have it; there is 0xffff; write one of these, or have the ` +
		`subnet manager add the port to the partition`},
	{"the IB side's MTU", "ip link set eth1.100 mtu 1500; ip link set eth1 mtu 1500", "right", `roce: mtu 4200 carries IB MTU 4096, ` +
		`but the port rxe0:1 has IB MTU 1024; write mtu = 1104, or raise the MTU of the interface eth1`},
	{"the interface's MTU", "ip link set eth1 mtu 4200; ip link set eth0 mtu 4000", "right", `roce: port "af_packet:eth0": its MTU 4000 is less ` +
		`than mtu 4200; ip link set eth0 mtu 4200, or write mtu = 4000`},
	{"the IB side down", "ip link set eth0 mtu 4200; ip link set eth1 down", "right",
		`ib: port "rxe0:1": the port is DOWN; set its interface eth1 up: ip link set eth1 up`},
	{"the RoCE side down", "ip link set eth1 up; ip link set eth0 down", "right",
		`roce: port "af_packet:eth0": the port is down; ip link set eth0 up; ` + waitsForIt},
	{"no such device", "ip link set eth0 up; rdma link delete rxe0", "right",
		`ib: port "rxe0:1": there is no RDMA device rxe0 here, nor any other; load the card's driver (modprobe mlx5_ib) and see "causeway devices", or write port = "fabric:" for the software subnet`},
	{"the device is back", addDevice("rxe0", "eth1"), "right", ""},
}

// TestDevices compares what Causeway reads of a guest's ports with libibverbs and the rig, and checks that there is one
// clear line for each configuration that the guest cannot run.
func TestDevices(t *testing.T) {
	r, _, _ := theRig(t)
	proof := proves(t, "a machine's ports, as libibverbs tells them; bad configurations of them, one line each")
	guests, err := r.Boot(t.Context(), GuestConfig{Name: "D", Emulated: true /* its NICs have PCI addresses */, Share: buildLister(t), NICs: []NIC{
		{MTU: hostMTU, Addrs: []string{"10.9.0.4/24"}},
		{MTU: hostMTU, RDMA: true, Addrs: []string{"10.8.0.4/24", "fd08::4/64"}, VLANs: []VLAN{{ID: 100, Addrs: []string{"10.100.0.4/24"}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	d := guests[0]
	defer d.Stop()
	ethernetOf(t, d)
	for _, address := range []string{" ::ffff:10.8.0.4 RoCE v2\n", " fd08::4 RoCE v2\n", " ::ffff:10.100.0.4 RoCE v2\n"} {
		if got := portsByLister(t, d); !strings.Contains(got, address) { // otherwise the comparisons would compare nothing
			t.Errorf("no%s in\n%s", address, got)
		}
	}
	for _, step := range deviceSteps {
		t.Run(step.name, func(t *testing.T) {
			if err := d.Must(within(t, stepTime), step.command); err != nil {
				t.Fatal(err)
			}
			comparePorts(t, d)
			// A port is ACTIVE, and an interface up, some milliseconds after the command.
			said, exit := "", -1
			for ctx := within(t, stepTime/4); ctx.Err() == nil && said != step.want+"\n"; {
				if said, exit, err = d.Run(within(t, stepTime), "/host/lister /host/"+step.file+".toml"); err != nil {
					t.Fatal(err)
				}
				if said == "" && step.want == "" {
					break
				}
			}
			runs := step.want == "" || strings.HasSuffix(step.want, waitsForIt)
			if strings.TrimSuffix(said, "\n") != step.want || (exit == 0) != runs {
				t.Fatalf("said %q, exit code %d; want %q", said, exit, step.want)
			}
			proof.add(1)
		})
	}
}

// list runs lister in a guest.
func list(t *testing.T, g *Guest) *doctor.Machine {
	t.Helper()
	out, exit, err := g.Run(within(t, stepTime), "/host/lister")
	if err != nil || exit != 0 {
		t.Fatalf("exit code %d, %v\n%s", exit, err, out)
	}
	var m doctor.Machine
	if err := json.Unmarshal([]byte(out), &m); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return &m
}

// ethernetOf checks the interfaces against how the rig has made the guest.
func ethernetOf(t *testing.T, g *Guest) {
	t.Helper()
	var got []string
	for _, e := range list(t, g).Ethernet {
		use := e.Uses[0]
		got = append(got, fmt.Sprintf("%s %s %s %d %s %s %s %s%s", e.Netdev, e.Driver, e.PCI, e.MTU, e.MAC, e.Link, e.RDMA, use.Port, use.WhyNot))
	}
	want := []string{
		"eth0 virtio_net 0000:00:10.0 4200 " + mac(g.Name, 0) + " up [] af_packet:eth0",
		"eth1 virtio_net 0000:00:11.0 4200 " + mac(g.Name, 1) + " up [rxe0] af_packet:eth1",
		"eth1.100 vlan  4200 " + mac(g.Name, 1) + " up [] af_packet:eth1.100",
	}
	if !slices.Equal(got, want) {
		t.Errorf("Ethernet ports\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The lines of ibv_devinfo -v about a port.
var (
	infoDevice = regexp.MustCompile(`hca_id:\s+(\S+)`)
	infoState  = regexp.MustCompile(`state:\s+PORT_(\S+)`)
	infoMTU    = regexp.MustCompile(`active_mtu:\s+(\d+)`)
	infoGID    = regexp.MustCompile(`GID\[\s*(\d+)\]:\s+([0-9a-f:.]+)(?:, (\S.*\S))?`)
)

// comparePorts compares the RDMA ports with libibverbs' own account, read through the device and not by sysfs.
func comparePorts(t *testing.T, g *Guest) {
	t.Helper()
	var got, want string
	for ctx := within(t, stepTime/4); ctx.Err() == nil; { // GIDs come and go some milliseconds after a command
		if got, want = portsByLister(t, g), portsByVerbs(t, g); got == want {
			return
		}
	}
	t.Errorf("lister tells\n%s\nlibibverbs\n%s", got, want)
}

func portsByLister(t *testing.T, g *Guest) string {
	t.Helper()
	var b strings.Builder
	for _, p := range list(t, g).RDMA {
		fmt.Fprintf(&b, "%s %s %d\n", p.Device, p.State, p.ActiveMTU)
		for _, gid := range p.GIDs {
			fmt.Fprintln(&b, gid.Index, gid.GID, gid.Type)
		}
	}
	return b.String()
}

func portsByVerbs(t *testing.T, g *Guest) string {
	t.Helper()
	out, _, err := g.Run(within(t, stepTime), "ibv_devinfo -v")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, hca := range strings.SplitAfter(out, "\n\n") {
		device, state, mtu := infoDevice.FindStringSubmatch(hca), infoState.FindStringSubmatch(hca), infoMTU.FindStringSubmatch(hca)
		if device == nil || state == nil || mtu == nil {
			continue
		}
		fmt.Fprintf(&b, "%s %s %s\n", device[1], state[1], mtu[1])
		for _, gid := range infoGID.FindAllStringSubmatch(hca, -1) {
			index, _ := strconv.Atoi(gid[1])
			fmt.Fprintln(&b, index, gid[2], gid[3])
		}
	}
	return b.String()
}
