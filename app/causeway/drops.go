// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"causeway/dpdk"
	"causeway/lcore"
)

func init() { dpdkVersion = dpdk.Version }

// runDrops lists the reasons for which packets die.
func runDrops(args []string, stdout, stderr io.Writer) int {
	fs := newFlags("drops", `Lists every reason for which the bridge drops a packet, by the name that logs, metrics and reports use, in the
order of the checks.`)
	if code, done := parse(fs, args, stdout, stderr); done {
		return code
	}
	if fs.NArg() > 0 {
		return misused(fs, stderr, "drops takes no arguments")
	}
	for _, d := range lcore.Drops() {
		fmt.Fprintf(stdout, "%-16s %s\n", d, d.Sentence())
	}
	return exitOK
}
