// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxLcores is RTE_MAX_LCORE of a usual DPDK build; the main lcore takes one.
const maxLcores = 128

var (
	prefixPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,47}$`)
	pciPattern    = regexp.MustCompile(`^[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$`)
)

// ealPlan is an EALConfig checked against the machine and put in the EAL's words.
type ealPlan struct {
	args      []string // argv for rte_eal_init(3)
	workers   []uint
	memoryMiB int
	node      int // of packets; -1: any
	noHuge    bool
	note      string
}

// planEAL checks config; cpus are those the process may use, isolated those that it may ask for besides.
func planEAL(config EALConfig, cpus, isolated []int) (ealPlan, error) {
	name := config.Name
	if name == "" {
		name = "causeway"
	}
	if !prefixPattern.MatchString(name) {
		return ealPlan{}, fmt.Errorf("dpdk: EAL name %q: use at most 48 letters, digits, '_', '-' and '.'", name)
	}
	plan := ealPlan{memoryMiB: config.MemoryMiB, node: nodeOfPackets(config)}
	if err := plan.chooseMemory(config); err != nil {
		return ealPlan{}, err
	}
	lcores, err := plan.placeLcores(config, cpus, isolated)
	if err != nil {
		return ealPlan{}, fmt.Errorf("dpdk: %w", err)
	}
	pci, err := pciArgs(config.PCI)
	if err != nil {
		return ealPlan{}, err
	}
	plan.args = []string{"causeway",
		"--file-prefix=" + name + "-" + strconv.Itoa(os.Getpid()),
		"--lcores=" + lcores, "--main-lcore=0",
		"--iova-mode=va", // the one mode that needs no physical addresses, hence no root
		"--no-telemetry", "--log-level=warning"}
	if plan.noHuge {
		plan.args = append(plan.args, "-m", strconv.Itoa(plan.memoryMiB), "--no-huge", "--no-shconf") // --in-memory is for hugepages only
	} else {
		plan.args = append(plan.args, socketMem(plan.memoryMiB, plan.node, config.Workers), "--in-memory")
	}
	plan.args = append(plan.args, pci...)
	return plan, nil
}

// chooseMemory decides between hugepages and ordinary memory. The EAL would take more ordinary memory than there
// is, and the kernel would end the process later: so it is compared here.
func (p *ealPlan) chooseMemory(config EALConfig) error {
	if p.memoryMiB < 0 {
		return fmt.Errorf("dpdk: EAL did not start: [workers] memory_mib is %d; it must be above 0", p.memoryMiB)
	}
	huge := freeHugepagesMiB()
	if huge >= p.memoryMiB && !config.ForceNoHuge {
		return nil
	}
	p.noHuge = true
	if available := availableMiB(); available < p.memoryMiB {
		return fmt.Errorf("dpdk: EAL did not start: cannot reserve %d MiB: %d MiB are available; free memory or lower [workers] memory_mib",
			p.memoryMiB, available)
	}
	if config.ForceNoHuge {
		p.note = fmt.Sprintf("dpdk: running on %d MiB of ordinary memory, as asked: slower than hugepages", p.memoryMiB)
		return nil
	}
	p.note = fmt.Sprintf("dpdk: %d MiB of hugepages are free and %d MiB are needed: running on ordinary memory, slower; "+
		"sysctl vm.nr_hugepages=%d would do", huge, p.memoryMiB, (p.memoryMiB+1)/2)
	return nil
}

// CheckWorkers returns an error when workers cannot have these CPUs on this machine.
func CheckWorkers(cpus []int) error {
	_, err := (&ealPlan{}).placeLcores(EALConfig{Workers: cpus}, usableCPUs(), isolatedCPUs())
	return err
}

// CheckCPU returns an error when this process cannot run on a CPU, which a key of [workers] names.
func CheckCPU(key string, cpu int) error { return checkCPU(key, cpu, usableCPUs(), isolatedCPUs()) }

func checkCPU(key string, cpu int, cpus, isolated []int) error {
	if slices.Contains(cpus, cpu) || slices.Contains(isolated, cpu) {
		return nil
	}
	return fmt.Errorf("[workers] %s names CPU %d, which this process may not use, or this machine does not have; write some of %s",
		key, cpu, cpuList(union(cpus, isolated)))
}

// placeLcores writes --lcores: lcore 0, the main one, floats over all CPUs without a worker (over all CPUs when
// every one has a worker); lcore i+1 sits on the CPU of worker i.
//
// The kernel leaves isolated CPUs out of what a process may use until it asks for them by name, as workers do.
func (p *ealPlan) placeLcores(config EALConfig, cpus, isolated []int) (string, error) {
	workers := config.Workers
	if len(workers) >= maxLcores {
		return "", fmt.Errorf("[workers] lcores names %d CPUs; DPDK has room for %d workers", len(workers), maxLcores-1)
	}
	for i, cpu := range workers {
		if err := checkCPU("lcores", cpu, cpus, isolated); err != nil {
			return "", err
		}
		if slices.Contains(workers[:i], cpu) && !config.ShareCPUs {
			return "", fmt.Errorf("[workers] lcores names CPU %d twice; a CPU can have one worker", cpu)
		}
		p.workers = append(p.workers, uint(i+1))
	}
	rest := slices.DeleteFunc(slices.Clone(cpus), func(cpu int) bool { return slices.Contains(workers, cpu) })
	if len(rest) == 0 {
		rest = cpus
	}
	var lcores strings.Builder
	fmt.Fprintf(&lcores, "0@(%s)", cpuList(rest))
	for i, cpu := range workers {
		fmt.Fprintf(&lcores, ",%d@%d", i+1, cpu)
	}
	return lcores.String(), nil
}

func union(a, b []int) []int {
	all := slices.Sorted(slices.Values(slices.Concat(a, b)))
	return slices.Compact(all)
}

// cpuList writes ascending CPU ids as the kernel and the EAL do: "0-3,6".
func cpuList(cpus []int) string {
	var ranges []string
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		if i == j {
			ranges = append(ranges, strconv.Itoa(cpus[i]))
		} else {
			ranges = append(ranges, fmt.Sprintf("%d-%d", cpus[i], cpus[j]))
		}
		i = j + 1
	}
	return strings.Join(ranges, ",")
}

// pciArgs allows the named devices and no other; without any the PCI bus is left alone.
func pciArgs(devices []string) ([]string, error) {
	if len(devices) == 0 {
		return []string{"--no-pci"}, nil
	}
	var args []string
	for _, device := range devices {
		address, _, _ := strings.Cut(device, ",")
		if !pciPattern.MatchString(address) || strings.ContainsAny(device, " \n") {
			return nil, fmt.Errorf("dpdk: PCI device %q: write it as domain:bus:device.function, such as 0000:3b:00.0", device)
		}
		args = append(args, "-a", device)
	}
	return args, nil
}
