// SPDX-License-Identifier: Apache-2.0

// Causeway-perf measures Causeway. It exits with 0 when it did what it was asked, 1 when it could not or a gate was
// missed, and 2 when it was asked wrongly.
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
		{"bench", "the packet path in nanoseconds a packet, beside floors of the same run", benchCommand},
		{"scale", "what up to 16 workers carry, computed from what two need", scaleCommand},
		{"all", "every test of a profile, into a report", measuring("all")},
		{"throughput", "the largest rates without loss (NDR) and with a little (PDR)", measuring("throughput")},
		{"latency", "percentiles at parts of the throughput", measuring("latency")},
		{"loss", "how much is lost, by rate", measuring("loss")},
		{"burst", "the longest burst that is taken whole", measuring("burst")},
		{"soak", "a long run, in pieces", measuring("soak")},
		{"multicast", "group capacity, join, leave, mixed throughput (RFC 3918)", measuring("multicast")},
		{"report", "make the page and the plots of a report again", reportCommand},
		{"compare", "two reports side by side", compareCommand},
		{"config", "a configuration of a whole bridge that can be measured over memif", configCommand},
		{"pktgen", "profiles for Pktgen-DPDK, and a runner", pktgenCommand},
		{"profiles", "list the profiles, or print one", profilesCommand},
	}
}

// errUsage says that the program was asked wrongly; what was wrong has been said.
var errUsage = errors.New("usage")

func main() {
	err := dispatch(os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
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
	fmt.Fprintf(stderr, "causeway-perf: there is no command %q; \"causeway-perf help\" lists the commands\n", name)
	return errUsage
}

func overview(w io.Writer) {
	fmt.Fprintf(w, "Causeway-perf measures Causeway: its packet path by itself, or the bridge between generators.\n\n"+
		"usage: causeway-perf COMMAND [OPTIONS]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-11s %s\n", c.name, c.short)
	}
	fmt.Fprintf(w, "\n\"causeway-perf help COMMAND\" says more about one.\n")
}

// newFlags makes a subcommand's flags; long is what its help begins with.
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

// parseFlags parses; at most rest arguments may be left.
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
		fmt.Fprintf(fs.Output(), "%s: %d arguments are too few or too many\n", fs.Name(), n)
		fs.Usage()
		return errUsage
	}
	return nil
}
