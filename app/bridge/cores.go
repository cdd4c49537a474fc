// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"causeway/dpdk"
)

// keepOff keeps the process' threads off the workers' CPUs, where each of their turns would interrupt a worker that
// polls. It comes after the workers' own threads, which have no other CPU and are left there; threads that are made
// later inherit it. They stay off management's CPU, too, unless there is no other. Where workers have every CPU, all
// stays as it is.
func keepOff(cpus []int, management *int) error {
	done := map[int]bool{}
	for before := -1; len(done) > before; { // a thread may be made by one that has not had its turn yet
		before = len(done)
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("bridge: threads of this process: %w", err)
		}
		for _, t := range threads {
			tid, err := strconv.Atoi(t.Name())
			if err != nil || done[tid] {
				continue
			}
			if err := moveOff(tid, cpus, management); err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: it has ended
				return fmt.Errorf("bridge: keep a thread off the workers' CPUs: %w", err)
			}
			done[tid] = true
		}
	}
	return nil
}

// moveOff takes CPUs away from a thread, unless it has no others.
func moveOff(tid int, cpus []int, management *int) error {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(tid, &set); err != nil {
		return err
	}
	for _, cpu := range cpus {
		set.Clear(cpu)
	}
	if set.Count() == 0 {
		return nil
	}
	if management != nil && set.Count() > 1 {
		set.Clear(*management)
	}
	return unix.SchedSetaffinity(tid, &set)
}

// ownCore is management's CPU, while its thread is there.
type ownCore struct {
	mu     sync.Mutex
	thread int // 0: it has none
	lcore  uint
}

// run calls f, on a thread that stays on a CPU and is an lcore, where a CPU is given.
func (o *ownCore) run(cpu *int, f func() error) error {
	if cpu == nil {
		return f()
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this goroutine, so that nothing else runs on it
		done <- o.pinned(*cpu, f)
	}()
	return <-done
}

func (o *ownCore) pinned(cpu int, f func() error) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("bridge: [workers] management: run on CPU %d: %w", cpu, err)
	}
	lcore, unregister, err := dpdk.RegisterThread()
	if err != nil {
		return err
	}
	defer unregister()
	o.set(unix.Gettid(), lcore)
	defer o.set(0, 0)
	return f()
}

func (o *ownCore) set(thread int, lcore uint) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.thread, o.lcore = thread, lcore
}

func (o *ownCore) get() (thread int, lcore uint) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.thread, o.lcore
}

// A Core is an lcore of DPDK; or, without a number, all other threads.
type Core struct {
	Lcore   any    // its number; nil: it is none
	Role    string // "main", "worker 0", "management", "others"
	Threads int
	CPUs    []int // that its thread may run on; nil: several threads, or none
	Node    any   // their NUMA node; nil: several, or not known
	Ran     time.Duration
}

// Cores returns all lcores, and what runs on none.
func (b *Bridge) Cores() []Core {
	all := threads()
	take := func(c Core, tid int) Core {
		if t, there := all[tid]; there {
			c.Threads, c.CPUs, c.Node, c.Ran = 1, t.cpus, t.node, t.ran
			delete(all, tid)
		}
		return c
	}
	cores := []Core{{Lcore: uint(0), Role: "main"}}
	for i, lcore := range b.lcores {
		cores = append(cores, take(Core{Lcore: lcore, Role: fmt.Sprintf("worker %d", i)}, workerThread(all, lcore)))
	}
	if tid, lcore := b.own.get(); tid != 0 {
		cores = append(cores, take(Core{Lcore: lcore, Role: "management"}, tid))
	}
	others := Core{Role: "others", Threads: len(all)}
	for _, t := range all {
		others.Ran += t.ran
	}
	return append(cores, others)
}

// A thread is one of this process.
type thread struct {
	name string
	cpus []int
	node any
	ran  time.Duration
}

// threads returns all threads of this process by number.
func threads() map[int]thread {
	out := map[int]thread{}
	list, _ := os.ReadDir("/proc/self/task")
	for _, d := range list {
		at := "/proc/self/task/" + d.Name()
		tid, _ := strconv.Atoi(d.Name())
		name, _ := os.ReadFile(at + "/comm")
		times, err := os.ReadFile(at + "/schedstat") // proc(5): on a CPU, waiting for one; turns
		if err != nil {
			continue // it has ended
		}
		on, _, _ := strings.Cut(string(times), " ")
		ns, _ := strconv.ParseInt(on, 10, 64)
		cpus, node := placeOf(tid)
		out[tid] = thread{strings.TrimSpace(string(name)), cpus, node, time.Duration(ns)}
	}
	return out
}

// placeOf returns the CPUs that a thread may run on, and their NUMA node.
func placeOf(tid int) (cpus []int, node any) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(tid, &set) != nil {
		return nil, nil
	}
	nodes := map[int]bool{}
	for cpu := 0; len(cpus) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
			nodes[dpdk.NodeOfCPU(cpu)] = true
		}
	}
	for n := range nodes {
		if len(nodes) == 1 {
			node = known(n)
		}
	}
	return cpus, node
}

// workerThread finds the thread of a worker's lcore by its name: "rte-worker-1", in later DPDK "dpdk-worker1".
func workerThread(all map[int]thread, lcore uint) int {
	for tid, t := range all {
		head, number, found := strings.Cut(t.name, "-worker")
		if found && (head == "rte" || head == "dpdk") && strings.TrimPrefix(number, "-") == strconv.Itoa(int(lcore)) {
			return tid
		}
	}
	return 0
}
