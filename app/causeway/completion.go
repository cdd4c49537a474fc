// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"regexp"

	words "causeway/app/command"
)

// runCompletion is "causeway completion".
func runCompletion(args []string, stdout, stderr io.Writer) int {
	fs := newFlags("completion", `Prints a shell's completion script for all commands, including those of "causeway ctl". For this session of bash:
source <(causeway completion bash). The packages install it for all users.`)
	if code, done := parse(fs, args, stdout, stderr); done {
		return code
	}
	if fs.NArg() != 1 {
		return misused(fs, stderr, "completion takes one shell")
	}
	text, err := words.Standard.Completion(fs.Arg(0), subcommands())
	if err != nil {
		return misused(fs, stderr, err.Error())
	}
	fmt.Fprint(stdout, text)
	return exitOK
}

// flagWord finds the flags in a usage line.
var flagWord = regexp.MustCompile(`--?[a-z][a-z-]*`)

// subcommands returns the program's subcommands for completion.
func subcommands() (all []words.Subcommand) {
	for _, c := range commands() {
		s := words.Subcommand{Name: c.name, Help: c.short, Words: flagWord.FindAllString(c.usage, -1)}
		if c.name == "completion" {
			s.Words = words.Shells
		}
		all = append(all, s)
	}
	return all
}
