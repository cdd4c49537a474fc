// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"

	"causeway/config"
)

// runDiff is "causeway diff".
func runDiff(args []string, stdout, stderr io.Writer) int {
	fs := newFlags("diff", `Lists what the second file changes, entry by entry and key by key, and which changes need a restart. Exits
with 0 when "reload" can apply all changes, else with 1. "causeway ctl reload check" compares a running bridge with its file.`)
	asJSON := fs.Bool("json", false, "write JSON")
	if code, done := parse(fs, args, stdout, stderr); done {
		return code
	}
	if fs.NArg() != 2 {
		return misused(fs, stderr, "name two files")
	}
	var two [2]*config.Config
	for i, file := range fs.Args() {
		var err error
		if two[i], err = config.Load(file); err != nil {
			fmt.Fprintln(stderr, err)
			return exitFailed
		}
	}
	changes := config.Diff(two[0], two[1])
	if err := writeChanges(stdout, changes, *asJSON); err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailed
	}
	if len(changes.NeedRestart()) > 0 {
		return exitFailed
	}
	return exitOK
}

func writeChanges(w io.Writer, changes config.Changes, asJSON bool) error {
	if asJSON {
		if changes == nil {
			changes = config.Changes{}
		}
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(changes)
	}
	if len(changes) == 0 {
		_, err := fmt.Fprintln(w, "no difference")
		return err
	}
	need := map[bool]string{true: "needs", false: "need"}[len(changes.NeedRestart()) == 1]
	_, err := fmt.Fprintf(w, "%s\n%s, %d of them %s a restart\n", changes, count(len(changes), "change"), len(changes.NeedRestart()), need)
	return err
}

// runExample is "causeway example".
func runExample(args []string, stdout, stderr io.Writer) int {
	fs := newFlags("example", `Prints a configuration file with every key: its meaning, its default, and whether a reload can change it.
 "causeway example -short > bridge.toml" is a start.`)
	short := fs.Bool("short", false, "only the required keys")
	if code, done := parse(fs, args, stdout, stderr); done {
		return code
	}
	if fs.NArg() > 0 {
		return misused(fs, stderr, "example takes no arguments")
	}
	text := config.Example()
	if *short {
		text = config.ShortExample()
	}
	fmt.Fprint(stdout, text)
	return exitOK
}
