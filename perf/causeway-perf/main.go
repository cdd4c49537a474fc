// SPDX-License-Identifier: Apache-2.0

// Causeway-perf measures Causeway. Its exit status is 0 for success, 1 for a failure or a missed gate, 2 for wrong
// usage, 3 when the machine was too busy to judge the gates.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// command is one subcommand.
type command struct {
	name, short string // short: one line for the list
	run         func(args []string) error
}

// commands lists the subcommands in the order in which help shows them.
func commands() []command {
	return []command{
		{"bench", "the packet path in nanoseconds a packet, compared with simpler loops", benchCommand},
		{"all", "all tests of a profile, into a report", measuring("all")},
		{"throughput", "the largest rates without loss (NDR) and with little loss (PDR)", measuring("throughput")},
		{"latency", "latency percentiles at parts of the PDR", measuring("latency")},
		{"loss", "loss by rate", measuring("loss")},
		{"burst", "the longest burst without loss", measuring("burst")},
		{"soak", "a long run", measuring("soak")},
		{"multicast", "group capacity, join, leave, mixed throughput (RFC 3918)", measuring("multicast")},
		{"report", "make the page and plots of a report again", reportCommand},
		{"compare", "compare two reports", compareCommand},
		{"config", "write a configuration of a whole bridge, to measure it over memif", configCommand},
		{"pktgen", "write profiles for Pktgen-DPDK, and run it", pktgenCommand},
		{"fleet", "print what streams lost when bridges of a fleet failed", fleetCommand},
		{"profiles", "list the profiles, or print one", profilesCommand},
	}
}

// errUsage is wrong usage, which has been reported already.
var errUsage = errors.New("usage")

func main() {
	err := dispatch(os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitCode(err))
	}
}

func exitCode(err error) int {
	if errors.Is(err, errBusy) {
		return 3
	}
	return 1
}

func dispatch(args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		overview(stderr)
		return errUsage
	}
	name := args[0]
	if name == "help" && len(args) > 1 {
		name, args = args[1], []string{args[1], "-h"}
	}
	for _, c := range commands() {
		if c.name == name {
			return c.run(args[1:])
		}
	}
	switch name {
	case "help", "-h", "-help", "--help":
		overview(stdout)
		return nil
	}
	fmt.Fprintf(stderr, "causeway-perf: there is no command %q; see \"causeway-perf help\"\n", name)
	return errUsage
}

func overview(w io.Writer) {
	fmt.Fprintf(w, "Causeway-perf measures Causeway: the packet path alone, or a bridge between generators.\n\n"+
		"usage: causeway-perf COMMAND [OPTIONS]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-11s %s\n", c.name, c.short)
	}
	fmt.Fprintf(w, "\n\"causeway-perf help COMMAND\" describes a command.\n")
}

// newFlags makes a subcommand's flags; long is the first paragraph of its help.
func newFlags(name, usage, long string) *flag.FlagSet {
	fs := flag.NewFlagSet("causeway-perf "+name, flag.ContinueOnError)
	fs.Usage = func() {
		fmt.Fprintf(fs.Output(), "usage: causeway-perf %s %s\n\n%s\n", name, usage, long)
		n := 0
		fs.VisitAll(func(*flag.Flag) { n++ })
		if n > 0 {
			fmt.Fprintln(fs.Output())
			fs.PrintDefaults()
		}
	}
	return fs
}

// parseFlags parses flags and checks the number of the other arguments.
func parseFlags(fs *flag.FlagSet, args []string, least, most int) error {
	for _, a := range args {
		if a == "-h" || a == "-help" || a == "--help" {
			fs.SetOutput(os.Stdout)
		}
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage
	}
	if n := fs.NArg(); n < least || n > most {
		fmt.Fprintf(fs.Output(), "%s: wrong number of arguments: %d\n", fs.Name(), n)
		fs.Usage()
		return errUsage
	}
	return nil
}
