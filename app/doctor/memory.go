// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"causeway/config"
)

const hugepageDir = "kernel/mm/hugepages"

// A memoryProbe checks the memory for packets. DPDK uses hugepages of any size without a hugetlbfs mount (--in-memory).
// If too few are free, it runs on ordinary memory, which needs many more address translations.
type memoryProbe struct {
	cfg       *config.Config // nil: none
	sys, proc tree
}

func newMemoryProbe(c *config.Config, s Sources) *memoryProbe {
	return &memoryProbe{cfg: c, sys: tree{s.Sys}, proc: tree{s.Proc}}
}

// hugepages adds up pages of all sizes in a folder of sysfs, in MiB: those that are free, or all (nr_hugepages).
func (p *memoryProbe) hugepages(dir, which string) (mib int) {
	for _, at := range p.sys.glob(dir + "/hugepages-*kB") {
		kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(path.Base(at), "hugepages-"), "kB"))
		if err == nil {
			mib += p.sys.number(at, which) * kib / 1024
		}
	}
	return mib
}

// checkMemory requires enough free hugepages, or at least enough memory.
func (p *memoryProbe) checkMemory() []Finding {
	free, all := p.hugepages(hugepageDir, "free_hugepages"), p.hugepages(hugepageDir, "nr_hugepages")
	if p.cfg == nil {
		if free == 0 {
			const usual = 512 // [workers] memory_mib by default
			return []Finding{hint("none are free: a bridge would run on ordinary memory, which is slower", p.reserve(usual)...)}
		}
		return fine("%d MiB are free", free)
	}
	want := p.cfg.Workers.MemoryMiB
	if free >= want {
		return fine("%d MiB are free, [workers] memory_mib wants %d", free, want)
	}
	if have := p.available(); have < want {
		return []Finding{bad(Fail, fmt.Sprintf("%d MiB of hugepages and %d MiB of other memory are free, [workers] memory_mib wants "+
			"%d: the bridge "+
			"does not start", free, have, want), fmt.Sprintf("# write memory_mib = %d, or less, under [workers]; or free memory",
			max(free, have)/64*64))}
	}
	found := fmt.Sprintf("%d MiB are free, [workers] memory_mib wants %d: the bridge runs on ordinary memory, slower", free, want)
	if all >= want {
		found += fmt.Sprintf(" (there are %d MiB; if the bridge has them, nothing is wrong)", all)
	}
	return []Finding{bad(Warn, found, p.reserve(want)...)}
}

// available returns the memory in MiB that is available without swapping.
func (p *memoryProbe) available() int {
	kib, _ := strconv.Atoi(strings.TrimSuffix(field(p.proc.text("meminfo"), "MemAvailable"), " kB"))
	return kib / 1024
}

// pageMiB returns the size of vm.nr_hugepages' pages in MiB.
func (p *memoryProbe) pageMiB() int {
	kib, _ := strconv.Atoi(strings.TrimSuffix(field(p.proc.text("meminfo"), "Hugepagesize"), " kB"))
	const usual = 2
	return max(kib/1024, usual)
}

// reserve returns commands that make so many MiB free, in addition to hugepages in use.
func (p *memoryProbe) reserve(mib int) []string {
	size := p.pageMiB()
	at := path.Join(hugepageDir, fmt.Sprintf("hugepages-%dkB", size*1024))
	n := p.sys.number(at, "nr_hugepages") - p.sys.number(at, "free_hugepages") + (mib+size-1)/size
	return []string{
		fmt.Sprintf("sysctl -w vm.nr_hugepages=%d", n),
		fmt.Sprintf("# at each boot: vm.nr_hugepages=%d in /etc/sysctl.d/60-causeway.conf; or boot with hugepagesz=1G hugepages=%d",
			n, (mib+1023)/1024),
	}
}

// checkMemoryNodes requires hugepages on the workers' NUMA node: memory of another node is slower.
func (p *memoryProbe) checkMemoryNodes() []Finding {
	if p.cfg == nil || len(p.sys.nodes()) < 2 || p.hugepages(hugepageDir, "free_hugepages") < p.cfg.Workers.MemoryMiB {
		return nil
	}
	near := p.sys.nodesOf(p.cfg.Workers.LCores)
	free := 0
	for _, n := range near {
		free += p.hugepages(nodeDir(n)+"/hugepages", "free_hugepages")
	}
	want := p.cfg.Workers.MemoryMiB
	if len(near) == 0 || free >= want {
		return fine("%d MiB on the workers' NUMA node %s", free, cpuList(near))
	}
	size := p.pageMiB()
	at := fmt.Sprintf("%s/hugepages/hugepages-%dkB/", nodeDir(near[0]), size*1024)
	n := p.sys.number(at, "nr_hugepages") + (want-free+size-1)/size
	return []Finding{bad(Warn, fmt.Sprintf("only %d MiB of %d are free on the workers' NUMA node %s: packets are in remote memory",
		free, want, cpuList(near)), fmt.Sprintf("echo %d > /sys/%snr_hugepages", n, at))}
}
