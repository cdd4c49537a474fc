// SPDX-License-Identifier: Apache-2.0

// Causeway-etcd is an etcd server that one file configures: three machines with it are the voters of a fleet of bridges,
// without another service.
//
//	etcd.toml ─▶ config ─▶ embedded etcd ─▶ clients: bridges
//	                          ▲ ▼
//	                  peers: the other voters
//
// It exits with 0 on success and after SIGTERM, 1 on failure, and 2 for wrong arguments and a wrong configuration.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	etcd "go.etcd.io/etcd/api/v3/version"

	"causeway/app/logs"
	"causeway/config"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// version is set by the linker: -ldflags "-X main.version=v1.2.3".
var version string

const usageLine = "causeway-etcd -config FILE [-check | -members | -replace NAME | -save FILE | -restore FILE]"

const long = `Runs an etcd server that a configuration file describes, in the foreground, and logs to standard error: one of the
machines, usually three, by whose majority a fleet of bridges decides. It logs "voter_ready" when it serves, for which a
majority must run. On SIGINT and SIGTERM it hands its leadership to another voter, and ends.

Exit codes: 0 on success and after a signal; 1 when it cannot run, or had to end; 2 for wrong arguments and a wrong
configuration.`

// options are the arguments.
type options struct {
	file                   string
	check, members         bool
	replace, save, restore string
	version                bool
}

func flags(o *options) *flag.FlagSet {
	fs := flag.NewFlagSet("causeway-etcd", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // run reports errors itself, in one line
	fs.StringVar(&o.file, "config", "", "the configuration `FILE`")
	fs.BoolVar(&o.check, "check", false, "only check the configuration, and what it names")
	fs.BoolVar(&o.members, "members", false, "list the voters as the one on this machine sees them, and ask each how it is; exit code 1 when one does not answer")
	fs.StringVar(&o.replace, "replace", "", "have the voters forget the dead one of this `NAME`, so that it can join them again, empty")
	fs.StringVar(&o.save, "save", "", "write all data of the voter on this machine to a new `FILE`, a snapshot")
	fs.StringVar(&o.restore, "restore", "", "make this voter's data directory anew, of a snapshot `FILE`; all voters are to be restored of the same")
	fs.BoolVar(&o.version, "version", false, "print the versions of Causeway, etcd and Go")
	return fs
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run does what the arguments say and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	fs := flags(&o)
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		help(fs, stdout)
		return exitOK
	case err != nil:
		return misused(stderr, reworded(fs, err.Error()))
	case o.version:
		fmt.Fprintf(stdout, "causeway-etcd %s\netcd %s\n%s %s/%s\n", cmp.Or(version, "(devel)"), etcd.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return exitOK
	}
	if why := o.wrong(fs.Args()); why != "" {
		return misused(stderr, why)
	}
	c, err := load(o.file)
	if err != nil {
		fmt.Fprintf(stderr, "causeway-etcd: %v\n", err)
		return exitUsage
	}
	if err := o.do(c, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "causeway-etcd: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// do does the one thing that the arguments ask for.
func (o *options) do(c *settings, stdout, stderr io.Writer) error {
	switch {
	case o.check:
		return nil
	case o.members:
		return listMembers(c, stdout)
	case o.replace != "":
		return replaceMember(c, o.replace, stdout)
	case o.save != "":
		return saveSnapshot(c, o.save, stdout)
	case o.restore != "":
		return restoreSnapshot(c, o.restore, stdout)
	}
	out := logs.NewOutput(stderr)
	defer out.Close()
	return serve(c, out)
}

// wrong says what is wrong about the arguments; "": nothing.
func (o *options) wrong(rest []string) string {
	actions := 0
	for _, asked := range []bool{o.check, o.members, o.replace != "", o.save != "", o.restore != ""} {
		if asked {
			actions++
		}
	}
	switch {
	case o.file == "" && len(rest) == 1:
		return "write -config before the file: -config " + rest[0]
	case o.file == "":
		return "name the configuration file, with -config"
	case len(rest) > 0:
		return fmt.Sprintf("%q is one argument too many", rest[0])
	case actions > 1:
		return "-check, -members, -replace, -save and -restore exclude each other"
	}
	return ""
}

// help prints the flags and the configuration's keys.
func help(fs *flag.FlagSet, w io.Writer) {
	fmt.Fprintf(w, "usage: %s\n\n%s\n\n", usageLine, long)
	fs.SetOutput(w)
	fs.PrintDefaults()
	fmt.Fprintf(w, "\nThe configuration, a TOML file:\n\n%s", keysHelp())
}

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
	return text
}

// misused reports an error in the arguments with the usage line.
func misused(stderr io.Writer, what string) int {
	fmt.Fprintf(stderr, "causeway-etcd: %s; usage: %s\n", what, usageLine)
	return exitUsage
}
