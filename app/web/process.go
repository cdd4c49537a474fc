// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/VictoriaMetrics/metrics"
)

// processMetrics are the metrics of the program. The library measures them, and more, whose names promtool rejects. It
// has no HELP.
var processMetrics = []Metric{
	{"go_gc_duration_seconds", "summary", nil, "Pauses of the garbage collector."},
	{"go_gomaxprocs", gauge, nil, "CPUs that management's threads use at a time."},
	{"go_goroutines", gauge, nil, "Goroutines."},
	{"go_memlimit_bytes", gauge, nil, "The limit that the garbage collector observes (GOMEMLIMIT)."},
	{"go_memstats_heap_alloc_bytes", gauge, nil, "Memory of objects on Go's heap."},
	{"go_memstats_heap_inuse_bytes", gauge, nil, "Memory of Go's heap that is in use."},
	{"go_memstats_sys_bytes", gauge, nil, "Memory that Go has from the kernel; DPDK's is not part of it."},
	{"go_sched_latencies_seconds", "histogram", nil, "How long goroutines waited for a thread."},
	{"process_cpu_seconds_total", counter, nil, "CPU time, of workers too."},
	{"process_major_pagefaults_total", counter, nil, "Page faults that needed the disk."},
	{"process_num_threads", gauge, nil, "Threads, workers among them."},
	{"process_resident_memory_bytes", gauge, nil, "Memory in RAM, without hugepages."},
	{"process_start_time_seconds", gauge, nil, "When the program was started, in seconds since 1970."},
	{"process_virtual_memory_bytes", gauge, nil, "Mapped memory."},
}

func init() { metrics.ExposeMetadata(true) } // TYPE lines

// writeProcess writes the metrics of the program.
func writeProcess(w io.Writer) {
	var b bytes.Buffer
	metrics.WriteProcessMetrics(&b)
	known := false
	for line := range strings.Lines(b.String()) {
		name, isHelp := strings.CutPrefix(strings.TrimSpace(line), "# HELP ")
		if isHelp {
			i := slices.IndexFunc(processMetrics, func(m Metric) bool { return m.Name == strings.TrimSpace(name) })
			if known = i >= 0; known {
				line = fmt.Sprintf("# HELP %s %s\n", processMetrics[i].Name, processMetrics[i].Help)
			}
		}
		if known {
			_, _ = io.WriteString(w, line) // an error means that the client has gone
		}
	}
}
