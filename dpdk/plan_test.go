// SPDX-License-Identifier: Apache-2.0

package dpdk

import (
	"slices"
	"strings"
	"testing"
)

func TestPlacesLcores(t *testing.T) {
	for _, c := range []struct {
		workers, cpus, isolated []int
		want                    string
	}{
		{nil, []int{0, 1}, nil, "0@(0-1)"},
		{[]int{1}, []int{0, 1}, nil, "0@(0),1@1"},
		{[]int{0, 1}, []int{0, 1}, nil, "0@(0-1),1@0,2@1"},
		{[]int{5, 2}, []int{0, 1, 2, 3, 5, 7, 8, 200}, nil, "0@(0-1,3,7-8,200),1@5,2@2"},
		{[]int{2, 3}, []int{0, 1}, []int{2, 3, 4}, "0@(0-1),1@2,2@3"},
	} {
		var plan ealPlan
		got, err := plan.placeLcores(EALConfig{Workers: c.workers}, c.cpus, c.isolated)
		if err != nil || got != c.want || len(plan.workers) != len(c.workers) {
			t.Errorf("workers %v of CPUs %v: %s, %v, %v; want %s", c.workers, c.cpus, got, plan.workers, err, c.want)
		}
	}
}

func TestPlanErrors(t *testing.T) {
	for _, c := range []struct {
		config EALConfig
		want   string
	}{
		{EALConfig{Name: "a/b"}, `dpdk: EAL name "a/b": use at most 48 letters`},
		{EALConfig{Name: "a b"}, `dpdk: EAL name "a b": use at most 48 letters`},
		{EALConfig{Workers: []int{4}}, "dpdk: [workers] lcores names CPU 4, which this process may not use, or this machine does not have; write some of 0-3"},
		{EALConfig{Workers: []int{-1}}, "dpdk: [workers] lcores names CPU -1, which"},
		{EALConfig{Workers: []int{2, 2}}, "dpdk: [workers] lcores names CPU 2 twice"},
		{EALConfig{Workers: make([]int, 128)}, "dpdk: [workers] lcores names 128 CPUs; DPDK has room for 127"},
		{EALConfig{PCI: []string{"3b:00.0"}}, `dpdk: PCI device "3b:00.0": write it as domain:bus:device.function`},
		{EALConfig{PCI: []string{"0000:3b:00.0 -v"}}, `dpdk: PCI device "0000:3b:00.0 -v": write it as`},
		{EALConfig{MemoryMiB: -1}, "dpdk: EAL did not start: [workers] memory_mib is -1; it must be above 0"},
	} {
		_, err := planEAL(c.config, []int{0, 1}, []int{2, 3})
		wantError(t, err, c.want)
	}
}

func TestPlanPCI(t *testing.T) {
	plan, err := planEAL(EALConfig{PCI: []string{"0000:3b:00.0,dv_flow_en=1", "0000:3b:00.1"}}, []int{0}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if line := strings.Join(plan.args, " "); !strings.HasSuffix(line, " -a 0000:3b:00.0,dv_flow_en=1 -a 0000:3b:00.1") || slices.Contains(plan.args, "--no-pci") {
		t.Errorf("arguments %q", line)
	}
	if plan, err = planEAL(EALConfig{}, []int{0}, nil); err != nil || !slices.Contains(plan.args, "--no-pci") {
		t.Errorf("arguments %q, %v", plan.args, err)
	}
}

func TestChoosesMemory(t *testing.T) {
	const huge = "sys/kernel/mm/hugepages/hugepages-"
	for _, c := range []struct {
		name  string
		files map[string]string
		force bool
		huge  bool
		note  string
		fault string
	}{
		{name: "2 MiB pages", files: map[string]string{huge + "2048kB/free_hugepages": "256\n"}, huge: true},
		{name: "two sizes", files: map[string]string{huge + "2048kB/free_hugepages": "10\n", huge + "1048576kB/free_hugepages": "1\n"}, huge: true},
		{name: "asked not to", files: map[string]string{huge + "2048kB/free_hugepages": "256\n"}, force: true,
			note: "dpdk: running on 512 MiB of ordinary memory, as asked: slower than hugepages"},
		{name: "too few", files: map[string]string{huge + "2048kB/free_hugepages": "255\n"},
			note: "dpdk: 510 MiB of hugepages are free and 512 MiB are needed: running on ordinary memory, slower; sysctl vm.nr_hugepages=256 would do"},
		{name: "none", note: "dpdk: 0 MiB of hugepages are free"},
		{name: "no memory", files: map[string]string{"proc/meminfo": "MemTotal: 9000000 kB\nMemAvailable:   409600 kB\n"},
			fault: "dpdk: EAL did not start: cannot reserve 512 MiB: 400 MiB are available; free memory or lower [workers] memory_mib"},
		{name: "a cgroup", files: map[string]string{"sys/fs/cgroup/memory.max": "314572800\n", "sys/fs/cgroup/memory.current": "104857600\n"},
			fault: "dpdk: EAL did not start: cannot reserve 512 MiB: 200 MiB are available; "},
		{name: "a cgroup without a limit", files: map[string]string{"sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/memory.current": "104857600\n"},
			note: "dpdk: 0 MiB of hugepages"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string]string{"proc/meminfo": "MemAvailable:   1048576 kB\n"}
			for name, text := range c.files {
				files[name] = text
			}
			sysTree(t, files)
			plan, err := planEAL(EALConfig{MemoryMiB: 512, ForceNoHuge: c.force}, []int{0}, nil)
			if c.fault != "" {
				wantError(t, err, c.fault)
				return
			}
			if err != nil || plan.noHuge == c.huge || !strings.HasPrefix(plan.note, c.note) {
				t.Errorf("no-huge %v, note %q, %v", plan.noHuge, plan.note, err)
			}
			if slices.Contains(plan.args, "--in-memory") != c.huge || slices.Contains(plan.args, "--no-huge") == c.huge {
				t.Errorf("arguments %q", plan.args)
			}
		})
	}
}

func TestParsesCPUs(t *testing.T) {
	for list, want := range map[string][]int{"": nil, "3": {3}, "2-4,7": {2, 3, 4, 7}, "x,1-y,5": {5}} {
		if got := parseCPUs(list); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", list, got, want)
		}
	}
}
