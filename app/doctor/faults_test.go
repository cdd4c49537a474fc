// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"testing"

	"causeway/ibside/ib"
	"causeway/ibside/sa"
)

// TestHealthy wants nothing to be said of a machine on which all is well but that.
func TestHealthy(t *testing.T) {
	for name, edits := range map[string][]string{
		"af_packet": {}, "mlx5": {"af_packet:eth1", "mlx5:0000:5e:00.1"}, "nothing": {"nothing"},
		"tap": onTap, "bond": onBond, "kernel's bond": onMlx5,
	} {
		p := healthy(t)
		p.tree(t, map[string]string{"bond": eth2, "kernel's bond": inLAG}[name])
		found := p.examined(t, edits...)
		var b bytes.Buffer
		if err := found.WriteText(&b, true); err != nil || found.count(Well) != len(found) || len(found) < 8 {
			t.Errorf("%s: %v\n%s", name, err, &b)
		}
	}
}

// TestQuietLosses wants nothing said of what is no loss of messages, or another port's; and of each kind of loss, one
// line.
func TestQuietLosses(t *testing.T) {
	for tree, want := range map[string]int{
		portDir + "counters/link_downed = 1\n" + portDir + "counters/symbol_error = 5\n" + portDir + "counters/VL15_dropped = 2": 0,
		"sys/class/infiniband/mlx5_1/ports/1/hw_counters/out_of_buffer = 7":                                                      0,
		portDir + "hw_counters/out_of_buffer = N/A":                                                                              0,
		portDir + "hw_counters/out_of_buffer = 1\n" + portDir + "counters/port_rcv_errors = 1":                                   2,
	} {
		p := healthy(t)
		p.tree(t, tree)
		if found := p.examined(t).of("losses"); found.count(Hint) != want || want == 0 && found.count(Well) != 1 {
			t.Errorf("%s: %+v, want %d hints", tree, found, want)
		}
	}
}

// onMlx5 and the like are edits of the configuration.
var (
	onMlx5 = []string{"af_packet:eth1", "mlx5:0000:5e:00.1"}
	onTap  = []string{"af_packet:eth1", "tap:t0", "mlx5_0:1", "fabric:", "mtu = 4200", "mtu = 1504"}
	onBond = []string{"af_packet:eth1", "bond:lacp,af_packet:eth1,af_packet:eth2"}
	alone  = []string{"nothing"}
)

// A fault is one thing that is wrong with a healthy machine.
type fault struct {
	name  string
	edits []string // of the configuration
	tree  string
	body  func(*body)
	where string // group/check
	level Level
	found string // a part of what is said
	fix   string // all of it, by lines; "-": any
}

func (s *fault) run(t *testing.T) {
	p := healthy(t)
	p.tree(t, s.tree)
	if s.body != nil {
		s.body(p.body)
	}
	said := 0
	for _, f := range p.examined(t, s.edits...) {
		switch {
		case f.Level == Well:
		case f.Group+"/"+f.Check != s.where:
			t.Errorf("%s/%s complains, too: %s", f.Group, f.Check, f.Found)
		default:
			said++
			if fix := strings.Join(f.Fix, "\n"); f.Level != s.level || !strings.Contains(f.Found, s.found) || fix != s.fix && s.fix != "-" {
				t.Errorf("%s: %s; fix\n%s\nwant %s: %s; fix\n%s", f.Level, f.Found, fix, s.level, s.found, s.fix)
			}
			if (f.Verdict == OK) != (f.Level == Hint) || (f.Verdict == Fail) != (f.Level == Error) {
				t.Errorf("verdict %s, level %s", f.Verdict, f.Level)
			}
		}
	}
	if said == 0 {
		t.Error("nothing is said")
	}
}

const hugeDir = "sys/kernel/mm/hugepages/hugepages-2048kB/"

var memoryFaults = []fault{
	{"few hugepages", nil, hugeDir + "free_hugepages = 100", nil, "hugepages/memory", Warning,
		"200 MiB are free, [workers] memory_mib wants 512: the bridge runs on ordinary memory, slower (there are 2048 MiB; if the bridge has them",
		"sysctl -w vm.nr_hugepages=1180\n# at each boot: vm.nr_hugepages=1180 in /etc/sysctl.d/60-causeway.conf; or boot with hugepagesz=1G hugepages=1"},
	{"no hugepages", nil, "- sys/kernel/mm", nil, "hugepages/memory", Warning, "0 MiB are free, [workers] memory_mib wants 512", "-"},
	{"no memory", nil, "- sys/kernel/mm\nproc/meminfo = MemAvailable:  300000 kB", nil, "hugepages/memory", Error,
		"0 MiB of hugepages and 292 MiB of other memory are free", "# write memory_mib = 256, or less, under [workers]; or free memory"},
	{"far", nil, "sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages = 6", nil, "hugepages/numa", Warning,
		"only 12 MiB of 512 are free on the workers' NUMA node 0", "echo 762 > /sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"},
	{"none, alone", alone, "- sys/kernel/mm", nil, "hugepages/memory", Hint, "none are free", "-"},
}

const boot13 = "# boot parameters (GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub): isolcpus=managed_irq,domain,1,3 nohz_full=1,3 rcu_nocbs=1,3"

// managedOn gives management a core.
func managedOn(cpu int) []string {
	return []string{"[policy]", strings.Replace(workersWith("poll"), "idle", fmt.Sprintf("management = %d\nidle", cpu), 1)}
}

var cpuFaults = []fault{
	{"offline", nil, "sys/devices/system/cpu/online = 0-2,4-7", nil, "cpu/lcores", Error, "[workers] lcores names CPU 3; online are 0-2,4-7",
		"# write [workers] lcores out of 0-2,4-7"},
	{"kept off", nil, "- sys/devices/system/cpu/isolated", func(b *body) { b.cpus = []int{0, 2} }, "cpu/lcores", Error, "CPU 1,3 is not in this process's affinity, which is 0,2",
		"# start it by taskset -c 0-7 causeway run …; in its systemd unit: CPUAffinity=0-7; in a container: --cpuset-cpus=0-7"},
	{"all", nil, "sys/devices/system/cpu/online = 1,3", func(b *body) { b.cpus = nil }, "cpu/lcores", Warning, "workers have all CPUs (1,3)",
		"# write [workers] lcores out of 1"},
	{"far device", nil, "sys/class/infiniband/mlx5_0/device/numa_node = 1", nil, "cpu/numa", Warning, "mlx5_0 is on NUMA node 1, workers are on 0",
		"# write [workers] lcores out of 4-7"},
	{"far card", onMlx5, "sys/bus/pci/devices/0000:5e:00.1/numa_node = 1", nil, "cpu/numa", Warning, "0000:5e:00.1 is on NUMA node 1, workers are on 0", "-"},
	{"far interface", nil, "sys/class/net/eth1/device/numa_node = 1", nil, "cpu/numa", Warning, "eth1 is on NUMA node 1", "-"},
	{"no CPU for management", managedOn(9), "", nil, "cpu/lcores", Error, "[workers] management names CPU 9; online are 0-7",
		"# write [workers] management = one of 0,2,4-7"},
	{"far management", managedOn(4), "", nil, "cpu/numa", Hint, "management is on CPU 4, on another NUMA node than workers",
		"# write [workers] management = one of 0-3"},
	{"shared", nil, "sys/devices/system/cpu/isolated = 3", nil, "cpu/isolated", Warning, "CPU 1 is not isolated", boot13},
	{"shared, by default", []string{"[policy]", workersWith("auto")}, "sys/devices/system/cpu/isolated = 3\nsys/devices/system/cpu/nohz_full = (null)", nil,
		"cpu/isolated", Hint, "CPU 1 is not isolated: idle workers sleep", boot13},
	{"ticks", nil, "sys/devices/system/cpu/nohz_full = (null)", nil, "cpu/nohz_full", Hint, "CPU 1,3 is not in nohz_full", boot13},
	{"one core", nil, "sys/devices/system/cpu/cpu1/topology/thread_siblings_list = 1,3\nsys/devices/system/cpu/cpu3/topology/thread_siblings_list = 1,3", nil,
		"cpu/siblings", Hint, "workers on CPU 1,3 are threads of one core", "# write lcores of different cores; lscpu -e shows them"},
	{"a sibling", nil, "sys/devices/system/cpu/cpu3/topology/thread_siblings_list = 3,7", nil, "cpu/siblings", Hint, "CPU 7 shares a core with the worker on 3",
		"echo 0 > /sys/devices/system/cpu/cpu7/online"},
	{"governor", nil, "sys/devices/system/cpu/cpu3/cpufreq/scaling_governor = powersave", nil, "cpu/governor", Warning,
		"the frequency of CPU 3 is governed by powersave", "echo performance > /sys/devices/system/cpu/cpu3/cpufreq/scaling_governor"},
	{"interrupts", nil, "proc/irq/30/effective_affinity_list = 3", nil, "cpu/irqs", Hint, "1 device interrupt may come to CPU 1,3",
		"# IRQBALANCE_BANNED_CPULIST=1,3 in /etc/default/irqbalance; or the boot parameter irqaffinity=0,2,4-7"},
}

const rebindCard = "modprobe mlx5_core\necho > /sys/bus/pci/devices/0000:5e:00.1/driver_override\n" +
	"echo 0000:5e:00.1 > /sys/bus/pci/drivers/vfio-pci/unbind\necho 0000:5e:00.1 > /sys/bus/pci/drivers/mlx5_core/bind"

var driversFaults = []fault{
	{"no PMD", nil, "- usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_net_af_packet.so.23", nil, "drivers/pmd", Error,
		"DPDK's driver net_af_packet is not installed", "apt-get install -y librte-net-af-packet23 || apt-get install -y '^librte-net-af-packet[0-9]+$'"},
	{"no mempool", nil, "- usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_mempool_ring.so.23", nil, "drivers/pmd", Error, "driver mempool_ring is not", "-"},
	{"vfio", onMlx5, "sys/bus/pci/devices/0000:5e:00.1/uevent = DRIVER=vfio-pci\nsys/class/net/eth1/device/uevent = DRIVER=vfio-pci", nil, "drivers/card", Error,
		"0000:5e:00.1 is vfio-pci's", rebindCard},
	{"no driver", onMlx5, "sys/bus/pci/devices/0000:5e:00.1/uevent = x\nsys/class/net/eth1/device/uevent = x", nil, "drivers/card", Error, "has no driver", "modprobe mlx5_core"},
	{"no RDMA device", onMlx5, "- sys/bus/pci/devices/0000:5e:00.1/infiniband", nil, "drivers/card", Error, "0000:5e:00.1 has no RDMA device", "modprobe mlx5_ib"},
	{"no card", []string{"af_packet:eth1", "mlx5:0000:99:00.0"}, "", nil, "drivers/card", Error, "no network card at 0000:99:00.0", "-"},
	{"no port", nil, "- sys/class/infiniband", nil, "drivers/rdma_device", Error, "there is no RDMA port mlx5_0:1 here", "modprobe mlx5_ib"},
	{"no verbs", nil, "- sys/class/infiniband_verbs", func(b *body) { b.denied = map[string]error{"/dev/infiniband/uverbsN": fs.ErrNotExist} }, "drivers/device_files", Error,
		"there is no /dev/infiniband/uverbsN, which verbs of mlx5_0 needs", "modprobe ib_uverbs"},
	{"no udev", nil, "", func(b *body) { b.denied = map[string]error{"/dev/infiniband/uverbs0": fs.ErrNotExist} }, "drivers/device_files", Error,
		"the kernel has /dev/infiniband/uverbs0, but", "# run udev; in a container, pass it in: docker run --device /dev/infiniband/uverbs0"},
	{"no rdma_cm", nil, "- sys/class/misc/rdma_cm", func(b *body) { b.denied = map[string]error{"/dev/infiniband/rdma_cm": fs.ErrNotExist} }, "drivers/device_files", Error,
		"/dev/infiniband/rdma_cm, which groups and services needs", "modprobe rdma_ucm"},
	{"not ours", onMlx5, "", func(b *body) { b.denied = map[string]error{"/dev/infiniband/uverbs1": fs.ErrPermission} }, "drivers/device_files", Error,
		"/dev/infiniband/uverbs1, which verbs of mlx5_1 needs: permission denied", "-"},
	{"no tun", onTap, "- sys/class/misc/tun", func(b *body) { b.denied = map[string]error{"/dev/net/tun": fs.ErrNotExist} }, "drivers/device_files", Error,
		"there is no /dev/net/tun", "modprobe tun"},
	{"vfio, alone", alone, "sys/bus/pci/devices/0000:af:00.0/class = 0x020000\nsys/bus/pci/devices/0000:af:00.0/vendor = 0x8086\nsys/bus/pci/devices/0000:af:00.0/uevent = DRIVER=vfio-pci",
		nil, "iommu/vfio", Hint, "0000:af:00.0 is bound to vfio-pci", "-"},
	{"translated", nil, "sys/bus/pci/devices/0000:5e:00.0/iommu_group/type = DMA-FQ", nil, "iommu/iommu", Hint, "the IOMMU translates for 0000:5e:00.0 (DMA-FQ)",
		"# boot parameter: iommu=pt (GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub)"},
}

// eth2 is an interface like eth1, the second of a bond.
const eth2 = `sys/class/net/eth2/type = 1
	sys/class/net/eth2/ifindex = 12
	sys/class/net/eth2/mtu = 4200
	sys/class/net/eth2/flags = 0x1003
	sys/class/net/eth2/operstate = up
	sys/class/net/eth2/carrier = 1
	sys/class/net/eth2/speed = 100000
	sys/class/net/eth1/speed = 100000
`

const masterDir = "sys/class/net/eth1/master/"

// inLAG has the ConnectX in a bond of the kernel's, taken over.
const inLAG = masterDir + "uevent = INTERFACE=bond0\n" + masterDir + "bonding/mode = 802.3ad 4\n" + masterDir + "bonding/slaves = eth1\n" +
	"- sys/bus/pci/devices/0000:5e:00.1/infiniband\nsys/bus/pci/devices/0000:5e:00.1/infiniband/mlx5_bond_0/node_type = 1: CA\n" +
	"- sys/class/infiniband/mlx5_1\nsys/class/infiniband/mlx5_bond_0/node_type = 1: CA\nsys/class/infiniband/mlx5_bond_0/ports/1/link_layer = Ethernet\n" +
	"sys/class/infiniband/mlx5_bond_0/ports/1/state = 4: ACTIVE\nsys/class/infiniband_verbs/uverbs1/ibdev = mlx5_bond_0\n"

var bondFaults = []fault{
	{"a member is missing", onBond, "", nil, "roce/bond", Error, "there is no interface eth2 here", "causeway devices # lists the existing ones"},
	{"a member's MTU", onBond, eth2 + "sys/class/net/eth2/mtu = 1500", nil, "roce/bond", Error, "eth2 has MTU 1500, [roce] mtu is 4200", "ip link set eth2 mtu 4200"},
	{"a member's cable", onBond, eth2 + "sys/class/net/eth2/carrier = 0", nil, "roce/bond", Warning, "eth2, of the bond, has no carrier",
		"# check the cable and the switch's port; ethtool eth2"},
	{"all cables", onBond, eth2 + "sys/class/net/eth2/carrier = 0\nsys/class/net/eth1/carrier = 0", nil, "roce/bond", Error, "no member of the bond has a carrier",
		"# check the cables and the switches' ports"},
	{"two speeds", onBond, eth2 + "sys/class/net/eth2/speed = 25000", nil, "roce/bond", Warning, "the members of the bond have different speeds", "# use ports of one speed"},
	{"a member of the kernel's bond", nil, masterDir + "uevent = INTERFACE=bond0\n" + masterDir + "bonding/mode = active-backup 1\n" + masterDir + "bonding/slaves = eth1 eth2",
		nil, "roce/bond", Error, "eth1 is in the kernel's bond bond0", "-"},
	{"LAG mode", onMlx5, inLAG + masterDir + "bonding/mode = balance-rr 0", nil, "roce/bond", Error, "the mode of the kernel's bond bond0 is balance-rr", "-"},
	{"LAG of two cards", onMlx5, inLAG + masterDir + "bonding/slaves = eth1 eth9", nil, "roce/bond", Error, "with eth9, which is no port of the same card",
		"# bond the two ports of one card"},
	{"LAG not taken over", onMlx5, masterDir + "uevent = INTERFACE=bond0\n" + masterDir + "bonding/mode = 802.3ad 4\n" + masterDir + "bonding/slaves = eth1", nil,
		"roce/bond", Warning, "the card has not taken over the kernel's bond bond0", "-"},
}

var roceFaults = []fault{
	{"RoCE is InfiniBand", onMlx5, "sys/class/infiniband/mlx5_1/ports/1/link_layer = InfiniBand", nil, "link_type/roce", Error,
		"the link layer of mlx5_1:1 (0000:5e:00.1) is InfiniBand, [roce] wants Ethernet", "# mlxconfig -d 0000:5e:00.1 set LINK_TYPE_P2=2, then a cold reset: the machine off, and on again"},
	{"MTU", nil, "sys/class/net/eth1/mtu = 1500", nil, "mtu/roce", Error, "eth1 has MTU 1500, [roce] mtu is 4200", "ip link set eth1 mtu 4200"},
	{"no interface", []string{"af_packet:eth1", "af_packet:eth7"}, "", nil, "mtu/roce", Error, "there is no interface eth7", "-"},
	{"small", []string{"mtu = 4200", "mtu = 1500"}, "sys/class/net/eth1/mtu = 1500", nil, "mtu/roce", Hint, "[roce] mtu 1500 carries messages of 1024 bytes",
		"# write mtu = 4176 or more under [roce], and see that the switches carry it\nip link set eth1 mtu 4176"},
	{"no PFC", nil, "", func(b *body) { b.pfc = 0 }, "qos/pfc", Hint, "eth1 pauses no priority", "dcb pfc set dev eth1 prio-pfc 3:on # as the switches have it\n" +
		"# on each RoCE host, so that it sends by that priority (DSCP 24 to 31): cma_roce_tos -d DEVICE -t 104"},
	{"PFC unknown", nil, "", func(b *body) { b.pfcErr = errors.New("operation not supported") }, "qos/pfc", Hint, "cannot be read: operation not supported",
		"# look: dcb pfc show dev eth1, or mlnx_qos -i eth1"},
	{"ECN", nil, "sys/class/net/eth1/ecn/roce_rp/enable/3 = 0", nil, "qos/ecn", Hint, "on 1 of 2 priorities", "echo 1 > /sys/class/net/eth1/ecn/roce_rp/enable/3"},
	{"down", nil, "sys/class/net/eth1/flags = 0x1002", nil, "roce/link", Error, "eth1 is down", "ip link set eth1 up"},
	{"no carrier", onMlx5, "sys/class/net/eth1/carrier = 0", nil, "roce/link", Error, "eth1 has no carrier", "# check the cable and the switch's port; ethtool eth1"},
	{"rxe", nil, "sys/class/infiniband/rxe0/node_type = 1: CA\nsys/class/infiniband/rxe0/parent = eth1\nsys/class/infiniband/rxe0/ports/1/link_layer = Ethernet", nil,
		"roce/kernel_roce", Warning, "the kernel's rxe0 takes RoCE (UDP port 4791) on eth1, too", "rdma link delete rxe0"},
	{"RoCE in the card", onMlx5, "sys/class/infiniband/mlx5_1/ports/1/gids/0 = fe80::1\nsys/class/infiniband/mlx5_1/ports/1/gid_attrs/types/0 = RoCE v2", nil,
		"roce/kernel_roce", Warning, "RoCE is enabled in the card 0000:5e:00.1",
		"devlink dev param set pci/0000:5e:00.1 name enable_roce value false cmode driverinit && devlink dev reload pci/0000:5e:00.1"},
}

var smFaults = []fault{
	{"no link", nil, "sys/class/infiniband/mlx5_0/ports/1/state = 1: DOWN\nsys/class/infiniband/mlx5_0/ports/1/phys_state = 2: Polling", nil, "sm/port", Error,
		"mlx5_0:1 is DOWN (Polling)", "# check the cable and the switch's port; ibstat mlx5_0 1"},
	{"no SM", nil, "sys/class/infiniband/mlx5_0/ports/1/state = 2: INIT", nil, "sm/port", Error, "mlx5_0:1 is INIT: there is a link, but no subnet manager",
		"systemctl start opensm # here, or wherever the subnet manager is to run\n# query it: sminfo -C mlx5_0 -P 1"},
	{"no LID", nil, "sys/class/infiniband/mlx5_0/ports/1/lid = 0x0", nil, "sm/port", Error, "mlx5_0:1 has no LID", "-"},
	{"SM lost", nil, "sys/class/infiniband/mlx5_0/ports/1/sm_lid = 0x0", nil, "sm/port", Error, "does not know a subnet manager", "-"},
	{"no SM, alone", alone, "sys/class/infiniband/mlx5_0/ports/1/state = 2: INIT", nil, "sm/port", Hint, "mlx5_0:1 is INIT", "-"},
	{"no partition", []string{`port = "mlx5_0:1"`, "port = \"mlx5_0:1\"\npkey = 0x8001"}, "sys/class/net/ib0/pkey = 0x8001", nil, "sm/pkey", Error,
		"mlx5_0:1 is not in the partition 0x8001 of [ib] pkey; it is in 0xffff", "# have the subnet manager add it (opensm: partitions.conf), or write one of these as pkey under [ib]"},
	{"no umad", nil, "- sys/class/infiniband_mad", nil, "sm/sa", Error, "mlx5_0:1 has no umad device", "modprobe ib_umad"},
	{"no umad, no need", []string{`gid = "fe80::2:c903:0:7"`, "gid = \"fe80::2:c903:0:7\"\nlid = 7", `gid = "fe80::2:c903:0:8"`, "gid = \"fe80::2:c903:0:8\"\nlid = 8"},
		"- sys/class/infiniband_mad", nil, "sm/sa", Hint, "does not need it", "modprobe ib_umad"},
	{"umad denied", nil, "", func(b *body) { b.denied = map[string]error{"/dev/infiniband/umad0": fs.ErrPermission} }, "sm/sa", Error, "umad0, by which", "-"},
	{"SA silent", nil, "", func(b *body) { b.pathErr = sa.ErrTimeout }, "sm/sa", Error, "the subnet administrator at LID 1 does not answer",
		"# try: saquery -C mlx5_0 -P 1 PR --slid 5 --dlid 5"},
	{"SA taken", nil, "", func(b *body) { b.pathErr = errors.New("does another program take notices?") }, "sm/sa", Hint, "could not be asked", "-"},
	{"small subnet", nil, "", func(b *body) { b.path.MTU = ib.MTU2048 }, "sm/sa", Hint, "the subnet carries messages of 2048 bytes, [roce] mtu 4200 lets 4096 cross",
		"# write mtu = 2128 under [roce]"},
}

const (
	portDir = "sys/class/infiniband/mlx5_0/ports/1/"
	growing = "# see whether they grow: causeway ctl show ports; then check the cable and the other end of the link, and look for congestion (perfquery, ethtool -S)"
)

var lossFaults = []fault{
	{"no receive buffers", nil, portDir + "hw_counters/out_of_buffer = 42\n" + portDir + "counters/port_rcv_errors = 0", nil, "losses/device", Hint,
		"mlx5_0:1 had no receive buffer for 42 messages since its driver was loaded, or its counters were reset: those are lost (out_of_buffer)",
		"# see whether it grows under load: causeway ctl show ports; then add a worker, or raise [workers] recv_buffers"},
	{"errors and discards", nil, portDir + "counters/port_rcv_errors = 3\n" + portDir + "counters/port_xmit_discards = 9\n" +
		portDir + "counters/link_downed = 1\n" + portDir + "counters/port_xmit_data = 7\nsys/class/infiniband/mlx5_0/hw_counters/rx_discards = 2", nil,
		"losses/device", Hint, "or its counters were reset: port_rcv_errors 3, port_xmit_discards 9, rx_discards 2", growing},
}

var restFaults = []fault{
	{"clock", nil, "", func(b *body) { b.unkept = true }, "clock/synchronised", Hint, "the system clock is not synchronised", "-"},
	{"clocksource", nil, "sys/devices/system/clocksource/clocksource0/current_clocksource = hpet", nil, "clock/clocksource", Warning, "the clocksource is hpet",
		"echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource"},
	{"clocksource alone", alone, "sys/devices/system/clocksource/clocksource0/current_clocksource = acpi_pm\n" +
		"sys/devices/system/clocksource/clocksource0/available_clocksource = hpet acpi_pm", nil, "clock/clocksource", Warning, "acpi_pm",
		"# the kernel found the TSC to be unstable: dmesg | grep -i tsc"},
	{"TSC", nil, `proc/cpuinfo = flags\t\t: fpu tsc constant_tsc`, nil, "clock/tsc", Warning, "no nonstop_tsc", "-"},
	{"files", nil, "proc/self/limits = Max open files   100   4096   files", nil, "limits/files", Warning, "100 files can be open, the bridge may need 144", "-"},
	{"no right", nil, `proc/self/status = CapEff: 0000000000005000`, nil, "limits/capabilities", Error, "this user has no CAP_NET_RAW, by which the bridge opens packet sockets", "-"},
	{"no right to a tap", onTap, `proc/self/status = CapEff: 0000000000006000`, nil, "limits/capabilities", Error, "this user has no CAP_NET_ADMIN, by which the bridge makes the tap", "-"},
	{"memlock", nil, `proc/self/status = CapEff: 0000000000003000`, nil, "limits/memlock", Error, "8 MiB of memory can be locked, for devices to reach; [workers] memory_mib is 512", "-"},
}

func TestFaults(t *testing.T) {
	for _, list := range [][]fault{memoryFaults, cpuFaults, driversFaults, roceFaults, bondFaults, smFaults, lossFaults, restFaults} {
		for _, s := range list {
			t.Run(s.where+"/"+s.name, s.run)
		}
	}
}

// TestFaultCombinations are things of which more than one is wrong, or that no file tells.
func TestFaultCombinations(t *testing.T) {
	rxe := "sys/class/infiniband/mlx5_0/ports/1/link_layer = Ethernet\n- sys/bus/pci/devices/0000:5e:00.0/infiniband\nsys/class/infiniband/mlx5_0/parent = eth1"
	for _, c := range []struct {
		name  string
		edits []string
		tree  string
		make  func(*machine)
		where string
		level Level
		fix   string
	}{
		{"own address", nil, "", ownAddress, "roce/own_address", Warning, "ip address del 10.9.0.254/24 dev eth1"},
		{"own address, shared", onMlx5, "", ownAddress, "roce/own_address", Error, "ip address del 10.9.0.254/24 dev eth1"},
		{"two ports in one subnet", nil, eth2, func(m *machine) { m.eth1 = []netip.Prefix{netip.MustParsePrefix("10.9.0.5/24")} }, "roce/two_ports", Warning,
			"sysctl -w net.ipv4.conf.all.arp_ignore=1\nsysctl -w net.ipv4.conf.all.arp_announce=2"},
		{"bridge netfilter", onTap, "", func(m *machine) { m.settings["net/bridge/bridge-nf-call-iptables"] = "1" }, "roce/firewall", Hint,
			"sysctl -w net.bridge.bridge-nf-call-iptables=0"},
		{"IB is Ethernet", nil, "sys/class/infiniband/mlx5_0/ports/1/link_layer = Ethernet", nil, "link_type/ib", Error,
			"# mlxconfig -d 0000:5e:00.0 set LINK_TYPE_P1=1, then a cold reset: the machine off, and on again"},
		{"no partition of a node", []string{`gid = "fe80::2:c903:0:7"`, "gid = \"fe80::2:c903:0:7\"\npkey = 0x8001"}, "", nil, "sm/pkey", Error,
			"# have the subnet manager add it (opensm: partitions.conf), or write one of these as pkey under [[host]]"},
		{"no right to ask", append([]string{"af_packet:eth1", "ring"}, learning...), `proc/self/status = CapEff: 0000000000002000`, nil,
			"limits/capabilities", Error, "# run the bridge as root; or: setcap cap_net_raw,cap_net_admin,cap_ipc_lock+ep on its program; " +
				"or AmbientCapabilities in its systemd unit"},
		{"no umad, nodes are learned", append([]string{`gid = "fe80::2:c903:0:7"`, "gid = \"fe80::2:c903:0:7\"\nlid = 7", `gid = "fe80::2:c903:0:8"`,
			"gid = \"fe80::2:c903:0:8\"\nlid = 8"}, learning...), "- sys/class/infiniband_mad", nil, "sm/sa", Error, "modprobe ib_umad"},
		{"software", nil, rxe, nil, "link_type/ib", Hint, ""},
		{"one interface", nil, rxe, nil, "roce/kernel_roce", Error, "# name another port in [ib] or [roce]"},
		{"IB MTU", nil, rxe + "\nsys/class/net/eth1/mtu = 1500", nil, "mtu/ib", Error, "ip link set eth1 mtu 4176 # or write mtu = 1104 under [roce]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := healthy(t)
			p.tree(t, c.tree)
			if c.make != nil {
				c.make(p.machine)
			}
			for _, f := range p.examined(t, c.edits...) {
				if f.Group+"/"+f.Check == c.where && f.Level == c.level && strings.Join(f.Fix, "\n") == c.fix {
					return
				}
			}
			var b bytes.Buffer
			_ = p.examined(t, c.edits...).WriteText(&b, false)
			t.Errorf("no %s of %s; fix %q:\n%s", c.level, c.where, c.fix, &b)
		})
	}
}

func ownAddress(m *machine) { m.eth1 = []netip.Prefix{netip.MustParsePrefix("10.9.0.254/24")} }
