// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"causeway/ibside/ib"
)

// body is a made-up process. Its zero value may do all, its clock is right, and the subnet administrator answers.
type body struct {
	denied  map[string]error // files
	cpus    []int
	unkept  bool // the clock
	pfc     uint8
	pfcErr  error
	path    ib.PathFields
	pathErr error
}

func (b *body) Access(path string) error { return b.denied[path] }
func (b *body) CPUs() []int              { return b.cpus }
func (b *body) Clock() (bool, time.Duration) {
	return !b.unkept, time.Millisecond
}
func (b *body) PFC(string) (uint8, error) { return b.pfc, b.pfcErr }
func (b *body) Path(string, int) (ib.PathFields, error) {
	return b.path, b.pathErr
}

// tree reads made-up files, a line for each: "sys/path = content". A line "- sys/path" removes what matches.
func (m *machine) tree(t *testing.T, lines string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		path, content, sets := strings.Cut(line, " = ")
		switch gone, removes := strings.CutPrefix(line, "- "); {
		case line == "":
		case sets:
			m.files[path] = &fstest.MapFile{Data: []byte(strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(content) + "\n")}
		case removes:
			n := len(m.files)
			for file := range m.files {
				if file == gone || strings.HasPrefix(file, gone+"/") {
					delete(m.files, file)
				}
			}
			if len(m.files) == n {
				t.Fatalf("%s is not there to be removed", gone)
			}
		default:
			t.Fatalf("%q is no line of a tree", line)
		}
	}
}

// below returns a part of the made-up files.
func (m *machine) below(t *testing.T, dir string) fs.FS {
	t.Helper()
	sub, err := fs.Sub(m.files, dir)
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// healthyTree is a machine with two NUMA nodes and a ConnectX on the first, whose two functions are InfiniBand and
// Ethernet; CPUs 1 and 3 are for workers. The files of /sys/class/net/ib0 and the like come from well.
const healthyTree = `
sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages = 1024
sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages = 1000
sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages = 0
sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages = 0
sys/devices/system/node/has_cpu = 0-1
sys/devices/system/node/node0/cpulist = 0-3
sys/devices/system/node/node1/cpulist = 4-7
sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages = 512
sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages = 500
sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages = 512
sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages = 500
sys/devices/system/cpu/online = 0-7
sys/devices/system/cpu/isolated = 1,3
sys/devices/system/cpu/nohz_full = 1,3
sys/devices/system/cpu/cpu1/topology/thread_siblings_list = 1
sys/devices/system/cpu/cpu3/topology/thread_siblings_list = 3
sys/devices/system/cpu/cpu1/cpufreq/scaling_governor = performance
sys/devices/system/cpu/cpu3/cpufreq/scaling_governor = performance
sys/kernel/irq/30/actions = mlx5_comp0
sys/devices/system/clocksource/clocksource0/current_clocksource = tsc
sys/devices/system/clocksource/clocksource0/available_clocksource = tsc hpet acpi_pm
sys/bus/pci/drivers/mlx5_core/module = x
sys/bus/pci/devices/0000:5e:00.0/vendor = 0x15b3
sys/bus/pci/devices/0000:5e:00.0/class = 0x020700
sys/bus/pci/devices/0000:5e:00.0/uevent = DRIVER=mlx5_core
sys/bus/pci/devices/0000:5e:00.0/numa_node = 0
sys/bus/pci/devices/0000:5e:00.0/infiniband/mlx5_0/node_type = 1: CA
sys/bus/pci/devices/0000:5e:00.0/net/ib0/type = 32
sys/bus/pci/devices/0000:5e:00.0/iommu_group/type = identity
sys/bus/pci/devices/0000:5e:00.1/vendor = 0x15b3
sys/bus/pci/devices/0000:5e:00.1/class = 0x020000
sys/bus/pci/devices/0000:5e:00.1/uevent = DRIVER=mlx5_core
sys/bus/pci/devices/0000:5e:00.1/numa_node = 0
sys/bus/pci/devices/0000:5e:00.1/infiniband/mlx5_1/node_type = 1: CA
sys/bus/pci/devices/0000:5e:00.1/net/eth1/type = 1
sys/bus/pci/devices/0000:5e:00.1/iommu_group/type = identity
sys/class/infiniband/mlx5_0/device/numa_node = 0
sys/class/infiniband/mlx5_0/ports/1/lid = 0x5
sys/class/infiniband/mlx5_0/ports/1/sm_lid = 0x1
sys/class/infiniband/mlx5_0/ports/1/phys_state = 5: LinkUp
sys/class/infiniband/mlx5_1/node_type = 1: CA
sys/class/infiniband/mlx5_1/ports/1/link_layer = Ethernet
sys/class/infiniband/mlx5_1/ports/1/state = 4: ACTIVE
sys/class/infiniband_verbs/uverbs0/ibdev = mlx5_0
sys/class/infiniband_verbs/uverbs1/ibdev = mlx5_1
sys/class/infiniband_mad/umad0/ibdev = mlx5_0
sys/class/infiniband_mad/umad0/port = 1
sys/class/misc/rdma_cm/dev = 10:1
sys/class/misc/tun/dev = 10:200
sys/class/net/eth1/mtu = 4200
sys/class/net/eth1/flags = 0x1003
sys/class/net/eth1/device/uevent = DRIVER=mlx5_core
sys/class/net/eth1/device/numa_node = 0
sys/class/net/eth1/ecn/roce_np/enable/3 = 1
sys/class/net/eth1/ecn/roce_rp/enable/3 = 1
proc/meminfo = MemTotal:  16000000 kB\nMemAvailable:  8000000 kB\nHugepagesize:  2048 kB
proc/cpuinfo = processor\t: 0\nflags\t\t: fpu tsc constant_tsc nonstop_tsc
proc/irq/30/effective_affinity_list = 0
proc/irq/31/effective_affinity_list = 1
proc/self/status = Name:	x\nCapEff:	000001ffffffffff
proc/self/limits = Limit  Soft Limit  Hard Limit  Units\nMax open files  1024  4096  files\nMax locked memory  8388608  8388608  bytes
usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_net_af_packet.so.23 = x
usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_net_mlx5.so.23 = x
usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_net_tap.so.23 = x
usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_mempool_ring.so.23 = x
`

// patientOf is a machine of which nothing is ill, and a process on it.
type patientOf struct {
	*machine
	body *body
}

func healthy(t *testing.T) patientOf {
	t.Helper()
	m := well()
	m.files = fstest.MapFS{}
	for path, f := range m.sys {
		m.files["sys/"+path] = f
	}
	m.links["eth1"] = Link{true, true, 4200}
	m.tree(t, healthyTree)
	return patientOf{m, &body{cpus: []int{0, 1, 2, 3, 4, 5, 6, 7}, pfc: 1 << 3, path: ib.PathFields{MTU: ib.MTU4096}}}
}

// examined looks at a machine for a configuration with edits; for none, when they are "nothing".
func (p patientOf) examined(t *testing.T, edits ...string) Findings {
	t.Helper()
	m := Sources{Sys: p.below(t, "sys"), Proc: p.below(t, "proc"), Root: p.files, Kernel: p.machine, Process: p.body}
	if len(edits) == 1 {
		return Examine(nil, m)
	}
	return Examine(load(t, append(slices.Clone(edits), "[policy]", workersWith("poll"))...), m)
}

// workersWith is what stands in place of "[policy]": two workers with this idle, too.
func workersWith(idle string) string {
	return "[workers]\nlcores = [1, 3]\nidle = \"" + idle + "\"\n[policy]"
}
