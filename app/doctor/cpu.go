// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"causeway/config"
)

const cpuDir = "devices/system/cpu"

func nodeDir(n int) string { return fmt.Sprintf("devices/system/node/node%d", n) }

// nodes returns the NUMA nodes that have CPUs.
func (t tree) nodes() []int { return cpus(t.text("devices/system/node/has_cpu")) }

// nodesOf returns the NUMA nodes of CPUs.
func (t tree) nodesOf(list []int) []int {
	var out []int
	for _, n := range t.nodes() {
		if len(common(cpus(t.text(nodeDir(n), "cpulist")), list)) > 0 {
			out = append(out, n)
		}
	}
	return out
}

// A cpuProbe checks the workers' CPUs. A worker polls on a CPU of its own; anything else that runs there delays
// packets.
type cpuProbe struct {
	cfg       *config.Config // nil: none
	sys, proc tree
	process   Process
}

func newCPUProbe(c *config.Config, s Sources) *cpuProbe {
	return &cpuProbe{cfg: c, sys: tree{s.Sys}, proc: tree{s.Proc}, process: s.Process}
}

func (p *cpuProbe) online() []int { return cpus(p.sys.text(cpuDir, "online")) }

// polls reports whether workers need CPUs of their own; those that sleep do not.
func (p *cpuProbe) polls() bool {
	if p.cfg == nil {
		return false
	}
	w := &p.cfg.Workers
	return w.Idle == config.IdlePoll || w.Idle == config.IdleAuto && len(p.missing("isolated")) == 0
}

// checkLcores requires the workers' CPUs to be online and allowed, and at least one further CPU.
func (p *cpuProbe) checkLcores() []Finding {
	online := p.online()
	if p.cfg == nil {
		return fine("CPUs %s, isolated: %s", cpuList(online), orNone(p.sys.text(cpuDir, "isolated")))
	}
	want := slices.Sorted(slices.Values(p.cfg.Workers.LCores))
	fix := func(from []int) string { return fmt.Sprintf("# write [workers] lcores out of %s", cpuList(from)) }
	if gone := without(want, online); len(gone) > 0 {
		return []Finding{bad(Fail, fmt.Sprintf("[workers] lcores names CPU %s; online are %s", cpuList(gone), cpuList(online)), fix(online))}
	}
	if cpu := p.cfg.Workers.Management; cpu != nil && !slices.Contains(online, *cpu) {
		return []Finding{bad(Fail, fmt.Sprintf("[workers] management names CPU %d; online are %s", *cpu, cpuList(online)),
			fmt.Sprintf("# write [workers] management = one of %s", cpuList(without(online, want))))}
	}
	// The CPUs of isolcpus are in no process's default affinity; workers set theirs.
	allowed := p.process.CPUs()
	if kept := p.keptFrom(); len(kept) > 0 {
		return []Finding{bad(Fail, fmt.Sprintf("CPU %s is not in this process's affinity, which is %s: the bridge would not start "+
			"from here", cpuList(kept), cpuList(allowed)),
			fmt.Sprintf("# start it by taskset -c %s causeway run …; in its systemd unit: CPUAffinity=%[1]s; in a container: "+
				"--cpuset-cpus=%[1]s", cpuList(online)))}
	}
	if len(without(online, want)) == 0 {
		return []Finding{bad(Warn, fmt.Sprintf("workers have all CPUs (%s): management and the kernel interrupt them",
			cpuList(online)), fix(online[:len(online)-1]))}
	}
	return fine("workers on CPU %s of %s", cpuList(want), cpuList(online))
}

// keptFrom returns the workers' CPUs that this process may not use.
func (p *cpuProbe) keptFrom() []int {
	allowed := p.process.CPUs()
	if allowed == nil {
		return nil
	}
	return without(p.missing("isolated"), allowed)
}

func orNone(s string) string {
	if s == "" || s == "(null)" {
		return "none"
	}
	return s
}

// checkNodes requires workers on the NUMA node of their devices.
func (p *cpuProbe) checkNodes() []Finding {
	if p.cfg == nil || len(p.sys.nodes()) < 2 {
		return nil
	}
	var out []Finding
	workers := p.sys.nodesOf(p.cfg.Workers.LCores)
	if cpu := p.cfg.Workers.Management; cpu != nil && len(workers) > 0 && len(common(p.sys.nodesOf([]int{*cpu}), workers)) == 0 {
		out = append(out, hint(fmt.Sprintf("management is on CPU %d, on another NUMA node than workers: it writes their tables from there", *cpu),
			fmt.Sprintf("# write [workers] management = one of %s", p.sys.text(nodeDir(workers[0]), "cpulist"))))
	}
	for _, d := range p.devicesUsed() {
		node, err := strconv.Atoi(p.sys.text(d.at, "numa_node"))
		if err != nil || node < 0 || len(workers) == 0 { // -1: unknown
			continue
		}
		if len(workers) == 1 && workers[0] == node {
			out = append(out, ok("%s is on the workers' NUMA node", d.name))
			continue
		}
		out = append(out, bad(Warn, fmt.Sprintf("%s is on NUMA node %d, workers are on %s: each packet crosses between them", d.name,
			node, cpuList(workers)),
			fmt.Sprintf("# write [workers] lcores out of %s", p.sys.text(nodeDir(node), "cpulist"))))
	}
	return out
}

// used is a device that the configuration names.
type used struct{ name, at string }

// devicesUsed returns the devices of both ports.
func (p *cpuProbe) devicesUsed() []used {
	var out []used
	for _, r := range p.cfg.RoCE.Port.Links() {
		switch r.Driver {
		case "mlx5":
			out = append(out, used{r.Arg, path.Join(pciDevices, strings.ToLower(r.Arg))})
		case "af_packet":
			out = append(out, used{r.Arg, path.Join(classNet, r.Arg, "device")})
		}
	}
	if port := p.cfg.IB.Port; !port.Fabric {
		out = append(out, used{port.Device, path.Join(infiniband, port.Device, "device")})
	}
	return out
}

// checkIsolated requires the workers' CPUs to be isolated from the scheduler.
func (p *cpuProbe) checkIsolated() []Finding {
	if !p.polls() {
		return p.sleepsWhenIdle()
	}
	open := without(p.missing("isolated"), p.keptFrom())
	if len(open) == 0 {
		return fine("all isolated")
	}
	return []Finding{bad(Warn, fmt.Sprintf("CPU %s is not isolated: other tasks there delay packets by milliseconds",
		cpuList(open)), p.bootLine())}
}

// sleepsWhenIdle says what workers do by default on CPUs that are not isolated.
func (p *cpuProbe) sleepsWhenIdle() []Finding {
	if p.cfg == nil || p.cfg.Workers.Idle != config.IdleAuto {
		return nil
	}
	return []Finding{hint(fmt.Sprintf("CPU %s is not isolated: idle workers sleep, the first packet after a pause wakes them, and other "+
		"tasks delay packets", cpuList(p.missing("isolated"))), p.bootLine())}
}

// missing returns the workers' CPUs that are not in a list of sysfs.
func (p *cpuProbe) missing(list string) []int {
	want := slices.Sorted(slices.Values(p.cfg.Workers.LCores))
	return without(want, cpus(p.sys.text(cpuDir, list)))
}

func (p *cpuProbe) bootLine() string {
	list := cpuList(slices.Sorted(slices.Values(p.cfg.Workers.LCores)))
	return fmt.Sprintf("# boot parameters (GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub): "+
		"isolcpus=managed_irq,domain,%[1]s nohz_full=%[1]s rcu_nocbs=%[1]s", list)
}

// checkTicks looks for timer interrupts on the workers' CPUs.
func (p *cpuProbe) checkTicks() []Finding {
	if !p.polls() {
		return nil
	}
	ticking := p.missing("nohz_full")
	switch {
	case len(ticking) == 0:
		return fine("no timer ticks")
	case len(p.missing("isolated")) > 0: // that finding has the whole line
		return []Finding{hint(fmt.Sprintf("CPU %s is not in nohz_full: the timer interrupts it for some µs, 100 to 1000 times a "+
			"second", cpuList(ticking)))}
	}
	return []Finding{hint(fmt.Sprintf("CPU %s is not in nohz_full: the timer interrupts it for some µs, 100 to 1000 times a second",
		cpuList(ticking)), p.bootLine())}
}

// checkSiblings looks for workers that share a core.
func (p *cpuProbe) checkSiblings() []Finding {
	if !p.polls() {
		return nil
	}
	var out []Finding
	want := slices.Sorted(slices.Values(p.cfg.Workers.LCores))
	done := map[int]bool{}
	for _, cpu := range want {
		core := cpus(p.sys.text(cpuDir, fmt.Sprintf("cpu%d/topology/thread_siblings_list", cpu)))
		others := without(core, []int{cpu})
		switch workers := common(others, want); {
		case len(others) == 0 || done[cpu]:
		case len(workers) > 0:
			out = append(out, hint(fmt.Sprintf("workers on CPU %s are threads of one core, which they share: together they are hardly "+
				"faster than one", cpuList(core)),
				"# write lcores of different cores; lscpu -e shows them"))
		default:
			out = append(out, hint(fmt.Sprintf("CPU %s shares a core with the worker on %d: work there slows it", cpuList(others), cpu),
				fmt.Sprintf("echo 0 > /sys/%s/cpu%d/online", cpuDir, others[0])))
		}
		for _, c := range core {
			done[c] = true
		}
	}
	if len(out) == 0 {
		return fine("each worker has a core of its own")
	}
	return out
}

// checkGovernor requires the performance governor on the workers' CPUs.
func (p *cpuProbe) checkGovernor() []Finding {
	if !p.polls() {
		return nil
	}
	var fix []string
	var slow []int
	governor := ""
	for _, cpu := range p.cfg.Workers.LCores {
		at := fmt.Sprintf("%s/cpu%d/cpufreq/scaling_governor", cpuDir, cpu)
		if g := p.sys.text(at); g != "" && g != "performance" {
			governor, slow = g, append(slow, cpu)
			fix = append(fix, "echo performance > /sys/"+at)
		}
	}
	if len(fix) == 0 {
		return nil // virtual machines have no governor
	}
	return []Finding{bad(Warn, fmt.Sprintf("the frequency of CPU %s is governed by %s: it may be low when a packet comes",
		cpuList(slices.Sorted(slices.Values(slow))), governor), fix...)}
}

// checkInterrupts looks for device interrupts that may be delivered to the workers' CPUs.
func (p *cpuProbe) checkInterrupts() []Finding {
	if !p.polls() {
		return nil
	}
	n := 0
	for _, file := range p.proc.glob("irq/*/effective_affinity_list") {
		number := path.Base(path.Dir(file))
		asked := p.sys.text("kernel/irq", number, "actions") != "" // requested by a driver
		if asked && len(common(cpus(p.proc.text(file)), p.cfg.Workers.LCores)) > 0 {
			n++
		}
	}
	if n == 0 {
		return fine("no device interrupts them")
	}
	list := cpuList(slices.Sorted(slices.Values(p.cfg.Workers.LCores)))
	return []Finding{hint(plural(n, "device interrupt")+" may come to CPU "+list,
		fmt.Sprintf("# IRQBALANCE_BANNED_CPULIST=%s in /etc/default/irqbalance; or the boot parameter irqaffinity=%s", list,
			cpuList(without(p.online(), p.cfg.Workers.LCores))))}
}
