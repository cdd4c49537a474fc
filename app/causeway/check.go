// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"causeway/config"
)

// runCheck checks configuration files.
func runCheck(args []string, stdout, stderr io.Writer) int {
	fs := newFlags("check", `Reads configuration files as "run" would, starts nothing, and reports every problem: its file, its
line, and what to write instead. Exits with 0 when all files are right, else with 1.`)
	if code, done := parse(fs, args, stdout, stderr); done {
		return code
	}
	if fs.NArg() == 0 {
		return misused(fs, stderr, "name a file")
	}
	code := exitOK
	for _, file := range fs.Args() {
		if !checkFile(file, stdout, stderr) {
			code = exitFailed
		}
	}
	return code
}

// checkFile reports whether file is right, in words too.
func checkFile(file string, stdout, stderr io.Writer) bool {
	c, err := config.Load(file)
	if err != nil {
		fmt.Fprintln(stderr, err)
		var ps config.Problems
		if errors.As(err, &ps) {
			fmt.Fprintf(stderr, "%s: %s\n", file, count(len(ps), "problem"))
		}
		return false
	}
	for _, note := range c.Notes {
		fmt.Fprintln(stdout, note.Error())
	}
	parts := []string{count(len(c.Hosts), "host"), count(len(c.Groups), "group")}
	if n := len(c.Services); n > 0 {
		parts = append(parts, count(n, "service"))
	}
	fmt.Fprintf(stdout, "%s: ok: %s\n", file, strings.Join(parts, ", "))
	return true
}

// count says how many there are of a thing.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
