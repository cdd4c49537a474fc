// SPDX-License-Identifier: Apache-2.0

// Causeway-perf measures Causeway.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"

	"causeway/dpdk"
	"causeway/lcore"
	"causeway/perf/bench"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	fs := flag.NewFlagSet("causeway-perf", flag.ExitOnError)
	cpu := fs.Int("cpu", runtime.NumCPU()-1, "the `CPU` that the measured loops run on")
	only := fs.Int("payload", 0, "measure this payload only, in `bytes`, a multiple of 8; 0: several")
	reps := fs.Int("reps", bench.Default.Repetitions, "repetitions; the median counts")
	fs.Usage = func() {
		fmt.Fprintf(fs.Output(), "usage: causeway-perf bench [-cpu CPU] [-payload BYTES] [-reps N]\n\n"+
			"Measures the packet path over ring ports, in nanoseconds a packet, beside two floors of the same run.\n\n")
		fs.PrintDefaults()
	}
	if len(args) == 0 || args[0] != "bench" {
		fs.Usage()
		return fmt.Errorf("causeway-perf: name what to measure: bench")
	}
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	return measure(*cpu, *reps, *only)
}

func measure(cpu, reps, only int) (err error) {
	eal, err := dpdk.Init(dpdk.EALConfig{Name: "causeway-perf", Workers: []int{cpu}, MemoryMiB: 256})
	if err != nil {
		return err
	}
	defer func() {
		if closing := eal.Close(); err == nil {
			err = closing
		}
	}()
	cfg := bench.Default
	cfg.Lcore, cfg.Repetitions = eal.WorkerLcores()[0], reps
	if only > 0 {
		cfg.Payloads = []int{only}
	}
	cfg.Progress = func(done, of int) { fmt.Fprintf(os.Stderr, "\rmeasuring %d of %d", done, of) }
	cells, err := bench.Run(cfg)
	fmt.Fprintf(os.Stderr, "\r\033[K")
	if err != nil {
		return err
	}
	describe(eal)
	table(cells)
	return nil
}

func describe(eal *dpdk.EAL) {
	memory := "hugepages"
	if eal.NoHuge() {
		memory = "ordinary pages (no hugepages are free)"
	}
	fmt.Printf("%s, %s, %s\nICRC %s, %s, ring ports, burst 64, 2048 packets in flight, 1024 hosts and 1024 nodes, RoCEv2/IPv4\n\n",
		cpuModel(), dpdk.Version(), runtime.Version(), lcore.ICRCVersion(), memory)
}

func table(cells []bench.Cell) {
	fmt.Println("direction   payload   path ns   Mpps   Gbit/s   rx+tx floor   path/floor   rx+read+tx floor   path/floor")
	for _, c := range cells {
		fmt.Printf("%-11v %5d B %9.1f %6.1f %8.1f %10.1f ns %12.2f %15.1f ns %12.2f\n",
			c.Direction, c.Payload, c.Path, c.Mpps(), c.Gbps(), c.Floor, c.Path/c.Floor, c.Touch, c.Path/c.Touch)
	}
}
