// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"

	"causeway/app/trace"
	"causeway/config"
	"causeway/dpdk"
	"causeway/lcore"
)

func init() { dpdkVersion = dpdk.Version }

// runDrops lists the reasons for which packets die.
func runDrops(args []string, stdout, stderr io.Writer) int {
	fs := newFlags("drops", `Lists every reason for which the bridge drops a packet, by the name that logs, metrics and reports use, in the
order of the checks. Of a reason that is named it says where to look, too.`)
	if code, done := parse(fs, args, stdout, stderr); done {
		return code
	}
	if fs.NArg() > 0 {
		return explainDrops(fs, stdout, stderr)
	}
	for _, d := range lcore.Drops() {
		fmt.Fprintf(stdout, "%-16s %s\n", d, d.Sentence())
	}
	return exitOK
}

// explainDrops says what the reasons mean that are named, and where to look.
func explainDrops(fs *flag.FlagSet, stdout, stderr io.Writer) int {
	var names []string
	for _, d := range lcore.Drops() {
		names = append(names, d.String())
	}
	for _, name := range fs.Args() {
		d, ok := lcore.DropNamed(name)
		if !ok {
			hint := `"causeway drops" lists them`
			if near := config.Nearest(name, names); near != "" {
				hint = "did you mean " + near + "?"
			}
			return misused(fs, stderr, fmt.Sprintf("there is no reason %q; %s", name, hint))
		}
		fmt.Fprintf(stdout, "%s: %s\n  look at: %s\n", d, d.Sentence(), trace.Advice(d))
	}
	return exitOK
}
