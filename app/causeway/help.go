// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"
	"time"

	"causeway/config"
)

// overview prints the list of subcommands.
func overview(w io.Writer) {
	fmt.Fprintf(w, `Causeway joins a RoCE fabric to an InfiniBand fabric: UD messages and multicast, both ways.

usage: causeway COMMAND [ARGUMENTS]

`)
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-10s  %s\n", c.name, c.short)
	}
	fmt.Fprintf(w, "\n\"causeway help COMMAND\" explains one.\n")
}

// unknown reports an unknown subcommand.
func unknown(w io.Writer, name string) {
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	hint := `"causeway help" lists the commands`
	if near := config.Nearest(name, names); near != "" {
		hint = "did you mean " + near + "?"
	}
	fmt.Fprintf(w, "causeway: there is no command %q; %s\n", name, hint)
}

// runHelp explains one subcommand, or lists them all.
func runHelp(args []string, stdout, stderr io.Writer) int {
	fs := newFlags("help", "Explains a command; without one, lists them all.")
	if code, done := parse(fs, args, stdout, stderr); done {
		return code
	}
	switch fs.NArg() {
	case 0:
		overview(stdout)
		return exitOK
	case 1:
		c, ok := find(fs.Arg(0))
		if !ok {
			unknown(stderr, fs.Arg(0))
			return exitUsage
		}
		return c.run([]string{"-h"}, stdout, stderr)
	}
	return misused(fs, stderr, "help takes one command")
}

// newFlags returns the flag set of a subcommand. long is the first paragraph of its help.
func newFlags(name, long string) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // parse reports errors itself, in one line
	fs.Usage = func() {
		c, _ := find(name)
		w := fs.Output()
		fmt.Fprintf(w, "usage: %s\n\n%s\n", usageLine(c), long)
		flags := 0
		fs.VisitAll(func(*flag.Flag) { flags++ })
		if flags > 0 {
			fmt.Fprintln(w)
			fs.PrintDefaults()
		}
	}
	return fs
}

// cause returns what is wrong with a file, without the system call's name and the path.
func cause(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

func usageLine(c command) string {
	return strings.TrimSpace("causeway " + c.name + " " + c.usage)
}

// parse parses a subcommand's flags. When done is true the subcommand ends with code: help was printed, or an error in
// the flags was reported.
func parse(fs *flag.FlagSet, args []string, stdout, stderr io.Writer) (code int, done bool) {
	usage := fs.Usage
	fs.Usage = func() {}
	err := parseAll(fs, args)
	switch {
	case err == nil:
		return exitOK, false
	case errors.Is(err, flag.ErrHelp):
		fs.SetOutput(stdout)
		usage()
		return exitOK, true
	}
	return misused(fs, stderr, reworded(fs, err.Error())), true
}

// parseAll parses flags, which may stand behind arguments: package flag stops at the first argument, and the flags
// behind it would be files. Those of ctl are the bridge's words.
func parseAll(fs *flag.FlagSet, args []string) error {
	var others []string
	for {
		if err := fs.Parse(args); err != nil || fs.NArg() == 0 || fs.Name() == "ctl" {
			if err != nil || fs.Name() == "ctl" {
				return err
			}
			return fs.Parse(append([]string{"--"}, others...))
		}
		if n := len(args) - fs.NArg(); n > 0 && args[n-1] == "--" {
			return fs.Parse(append(append([]string{"--"}, others...), fs.Args()...))
		}
		others, args = append(others, fs.Arg(0)), fs.Args()[1:]
	}
}

// badValue matches package flag's error for a value of the wrong type.
var badValue = regexp.MustCompile(`(?s)^invalid (?:boolean )?value (".*") for (?:flag )?-([a-z-]+): (?:parse error|value out of range)$`)

// reworded returns an error of package flag with a hint what to write.
func reworded(fs *flag.FlagSet, text string) string {
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		var names []string
		fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
		if near := config.Nearest(name, names); near != "" {
			return fmt.Sprintf("there is no flag -%s; did you mean -%s?", name, near)
		}
		return fmt.Sprintf("there is no flag -%s", name)
	}
	if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return fmt.Sprintf("-%s needs a value", name)
	}
	m := badValue.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	what := "a value of its type"
	if getter, ok := fs.Lookup(m[2]).Value.(flag.Getter); ok {
		switch getter.Get().(type) {
		case time.Duration:
			what = "a time with its unit, such as 500ms, 30s or 5m"
		case uint, uint64:
			what = "a whole number, 0 or more"
		case int, int64:
			what = "a whole number"
		case bool:
			what = "true, false, or no value"
		}
	}
	return fmt.Sprintf("-%s %s: write %s", m[2], m[1], what)
}

// misused reports an error in the arguments with the usage line.
func misused(fs *flag.FlagSet, stderr io.Writer, what string) int {
	c, _ := find(fs.Name())
	fmt.Fprintf(stderr, "causeway %s: %s; usage: %s\n", fs.Name(), what, usageLine(c))
	return exitUsage
}
