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

// runDrops is "causeway drops".
func runDrops(args []string, stdout, stderr io.Writer) int {
	fs := newFlags("drops", `Lists every drop reason by the name that logs, metrics and reports use, in the order of the checks. For reasons
given as arguments it also prints what to check.`)
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

// explainDrops explains the reasons in the arguments.
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
		fmt.Fprintf(stdout, "%s: %s\n  check: %s\n", d, d.Sentence(), trace.Advice(d))
	}
	return exitOK
}
