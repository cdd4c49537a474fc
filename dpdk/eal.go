// SPDX-License-Identifier: Apache-2.0

package dpdk

// #include "dpdk.h"
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
)

// defaultMemoryMiB holds the mempools of a small bridge: 32 Ki mbufs of 4.5 KiB, and room for tables.
const defaultMemoryMiB = 512

// EALConfig says what the EAL may use.
type EALConfig struct {
	Name        string   // begins the file prefix, which the process id completes; empty: "causeway"
	Workers     []int    // ids of the CPUs that get a worker lcore each, in the order of WorkerLcores
	MemoryMiB   int      // hugepages, or ordinary memory, to reserve; 0: 512
	ForceNoHuge bool     // ordinary memory even where hugepages are free
	ShareCPUs   bool     // a CPU may be named more than once: slow, for tests of more workers than there are CPUs
	Port        string   // the Ethernet port, as OpenPort has it: packets are on its NUMA node, or else on the first worker's
	PCI         []string // mlx5 devices to probe, such as "0000:3b:00.0"; may go on with ",key=value" for the PMD
}

// EAL is DPDK's Environment Abstraction Layer: its memory and its lcores. A process has one.
type EAL struct {
	noHuge  bool
	note    string
	workers []uint
	pci     []string
}

// started keeps the one EAL. DPDK cannot start a second time in a process, not even after rte_eal_cleanup(3).
var started struct {
	sync.Mutex
	tried bool
	eal   *EAL // nil before Init and after Close
}

// Init starts the EAL: with hugepages when enough are free, else with ordinary memory, which EAL.Note tells.
// Any number of processes may do so side by side: nothing is kept in files (--in-memory, or --no-huge with
// --no-shconf).
//
// The worker lcores wait for rte_eal_remote_launch(3), each pinned to its CPU, with all signals blocked. The main
// lcore is nominal: no thread belongs to it, and the EAL's own threads float over the CPUs that no worker has.
// Neither the affinity nor the lcore id of the calling thread changes.
//
// A failure is one line. After a failure within DPDK, too, the process cannot try again.
func Init(config EALConfig) (*EAL, error) {
	started.Lock()
	defer started.Unlock()
	if started.tried {
		return nil, errors.New("dpdk: the EAL starts once in a process, and this one has started it already")
	}
	if config.MemoryMiB == 0 {
		config.MemoryMiB = defaultMemoryMiB
	}
	plan, err := planEAL(config, usableCPUs(), isolatedCPUs())
	if err != nil {
		return nil, err
	}
	started.tried = true
	clearLog()
	if err := startEAL(plan.args); err != nil {
		return nil, notStarted(plan, err)
	}
	C.dpdk_set_node(C.int(plan.node))
	if plan.noHuge {
		C.dpdk_bind_ordinary()
	}
	started.eal = &EAL{noHuge: plan.noHuge, note: plan.note, workers: plan.workers, pci: config.PCI}
	return started.eal, nil
}

func startEAL(args []string) error {
	return withCString(strings.Join(args, "\n"), func(c *C.char) C.int { return C.dpdk_eal_init(c) })
}

// notStarted explains in one line why rte_eal_init(3) failed.
func notStarted(plan ealPlan, err error) error {
	err = why(err)
	if errors.Is(err, syscall.ENOMEM) || strings.Contains(err.Error(), "allocate memory") {
		return fmt.Errorf("dpdk: EAL did not start: cannot reserve %d MiB: %w; free memory or lower [workers] memory_mib",
			plan.memoryMiB, err)
	}
	return fmt.Errorf("dpdk: EAL did not start: %w", err)
}

func usableCPUs() []int {
	var ids [1024]C.int // CPU_SETSIZE
	n := C.dpdk_usable_cpus(&ids[0], C.int(len(ids)))
	cpus := make([]int, 0, max(0, int(n)))
	for i := range int(n) {
		cpus = append(cpus, int(ids[i]))
	}
	return cpus
}

// Close ends the EAL. All ports, mempools and rings must be closed before, and no worker may run.
func (e *EAL) Close() error {
	started.Lock()
	defer started.Unlock()
	if started.eal != e {
		return errors.New("dpdk: the EAL is closed already")
	}
	started.eal = nil
	if err := errno(C.dpdk_eal_cleanup()); err != nil {
		return fmt.Errorf("dpdk: close the EAL: %w", err)
	}
	return nil
}

// NoHuge reports whether the EAL runs on ordinary memory.
func (e *EAL) NoHuge() bool { return e.noHuge }

// Note is one line for the user when the EAL runs on ordinary memory, and empty otherwise.
func (e *EAL) Note() string { return e.note }

// WorkerLcores are the lcore ids, for rte_eal_remote_launch(3), of the CPUs in EALConfig.Workers, in their order.
func (e *EAL) WorkerLcores() []uint { return append([]uint(nil), e.workers...) }

// Log answers what DPDK has logged, warnings and worse, since the last call of this package that could fail.
func (e *EAL) Log() string { return logged() }

// Version is DPDK's name and version, as it says itself.
func Version() string { return C.GoString(C.dpdk_version()) }

// theEAL answers the running EAL. What needs one says what it was about to do.
func theEAL(doing string) (*EAL, error) {
	started.Lock()
	defer started.Unlock()
	if started.eal == nil {
		return nil, fmt.Errorf("dpdk: %s: the EAL is not running; call Init first", doing)
	}
	return started.eal, nil
}
