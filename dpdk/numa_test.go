// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"runtime"
	"slices"
	"testing"
)

const (
	nodeDirs = "sys/devices/system/node/node"
	freeOf   = "/hugepages/hugepages-2048kB/free_hugepages"
)

// twoNodes is a machine whose even CPUs are on node 0, with memory on both nodes.
func twoNodes(more map[string]string) map[string]string {
	files := map[string]string{
		nodeDirs + "0/cpulist": "0,2,4\n", nodeDirs + "1/cpulist": "1,3,5\n", nodeDirs + "2/cpulist": "\n",
		nodeDirs + "0" + freeOf: "300\n", nodeDirs + "1" + freeOf: "100\n",
		"sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages":    "400\n",
		"sys/bus/pci/devices/0000:3b:00.0/numa_node":                 "1\n",
		"sys/class/net/eth1/device/numa_node":                        "-1\n",
		nodeDirs + "1/hugepages/hugepages-1048576kB/free_hugepages":  "0\n",
		"sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages": "0\n",
		"sys/class/infiniband/mlx5_0/device/numa_node":               "0\n",
	}
	for name, text := range more {
		files[name] = text
	}
	return files
}

func TestPlacesMemory(t *testing.T) {
	for _, c := range []struct {
		name    string
		files   map[string]string
		port    string
		workers []int
		miB     int
		node    int
		want    string
	}{
		{"the port's node, then the workers'", nil, "mlx5:0000:3B:00.0", []int{0}, 512, 1, "--socket-mem=312,200"},
		{"the port's node alone", nil, "mlx5:0000:3b:00.0", []int{0}, 200, 1, "--socket-mem=0,200"},
		{"a port that does not say", nil, "af_packet:eth1", []int{3}, 100, 1, "--socket-mem=0,100"},
		{"a port without a device", nil, "ring", []int{2, 1}, 512, 0, "--socket-mem=512,0"},
		{"both nodes", nil, "ring", []int{2, 1}, 700, 0, "--socket-mem=600,100"},
		{"1 GiB pages", map[string]string{nodeDirs + "1/hugepages/hugepages-1048576kB/free_hugepages": "1\n",
			"sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages": "1\n"}, "ring", []int{5}, 1200, 1, "--socket-mem=0,1200"},
		{"more than the nodes say", map[string]string{nodeDirs + "0" + freeOf: "1\n"}, "ring", []int{1}, 512, 1, "-m512"},
		{"no workers", nil, "ring", nil, 512, -1, "--socket-mem=512,0"},
		{"one node", map[string]string{nodeDirs + "1/cpulist": "\n"}, "mlx5:0000:3b:00.0", []int{0}, 512, -1, "-m512"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sysTree(t, twoNodes(c.files))
			plan, err := planEAL(EALConfig{Port: c.port, Workers: c.workers, MemoryMiB: c.miB}, []int{0, 1, 2, 3, 4, 5}, nil)
			if err != nil || plan.node != c.node || !slices.Contains(plan.args, c.want) {
				t.Errorf("node %d, %q, %v; want %d, %s", plan.node, plan.args, err, c.node, c.want)
			}
		})
	}
	sysTree(t, twoNodes(nil))
	if a, b := NodeOfHCA("mlx5_0"), NodeOfHCA("mlx5_1"); a != 0 || b != -1 {
		t.Errorf("HCAs on nodes %d and %d, want 0 and -1", a, b)
	}
}

// TestWhere checks that the kernel tells where memory is, on this machine's nodes.
func TestWhere(t *testing.T) {
	pool := newPool(t)
	m, err := pool.Alloc([]byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	nodes := cpuNodes()
	if n := pool.Node(); nodes[n] == nil {
		t.Errorf("the pool is on node %d of %v", n, nodes)
	}
	if n := NodeOf(nil); n != -1 {
		t.Errorf("what is not mapped is on node %d", n)
	}
	pages := testEAL.Pages()
	if len(pages) != 1 || pages[0].Bytes != 4096 || pages[0].N*pages[0].Bytes != 128<<20 || pages[0].Node != -1 {
		t.Errorf("pages %+v, want 128 MiB of ordinary ones", pages)
	}
	if short := testEAL.ShortNodes(); len(short) != 0 {
		t.Errorf("nodes %v are short of memory", short)
	}
	lcore := testEAL.WorkerLcores()[0]
	if n, want := testEAL.Node(lcore), NodeOfCPU(lastCPU()[0]); n != want {
		t.Errorf("lcore %d is on node %d, want that of its CPU, %d", lcore, n, want)
	}
}

// TestRegisterThread makes a thread an lcore, whose mempool cache then holds what it frees, and ends that.
func TestRegisterThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pool := newPool(t)
	for range 3 {
		lcore, unregister, err := RegisterThread()
		if err != nil {
			t.Fatal(err)
		}
		if lcore == 0 || slices.Contains(testEAL.WorkerLcores(), lcore) {
			t.Errorf("lcore %d is not the thread's own", lcore)
		}
		m, err := pool.Alloc([]byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		m.Free()
		unregister()
	}
}
