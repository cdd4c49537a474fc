// SPDX-License-Identifier: Apache-2.0

// Causeway joins a RoCE fabric to an InfiniBand fabric: it carries UD messages and multicast both ways.
//
// The program is a table of subcommands, each in a file of its own. A subcommand exits with 0 on success, 1 on failure
// and 2 for wrong arguments; "run" also with 75 when it should be restarted.
package main

import (
	"io"
	"os"
)

// command is one subcommand.
type command struct {
	name  string
	usage string // what follows the name: "[-v] FILE"
	short string // one line for the list; no capital, no full stop
	run   func(args []string, stdout, stderr io.Writer) int
}

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitRetry  = 75 // EX_TEMPFAIL of sysexits(3): restart it
)

// commands returns the subcommands in the order of the help. It is a function because help, one of them, calls it.
func commands() []command {
	return []command{
		{"run", "-c FILE", "run the bridge", runBridge},
		{"ctl", "[-s SOCKET] [-json] [-f FILE | WORDS...]", "run commands in a running bridge, or start a console session", runCtl},
		{"demo", "[-duration TIME] [-keep] [-fabrics N | -fleet] [-json] [-pcap DIR]", "run the bridge with traffic, without hardware", runDemo},
		{"node", "-fabric SOCKET -role ROLE -name NAME -guid GUID [...]", "be an InfiniBand node on a bridge's software subnet", runNode},
		{"send", "-on ENDPOINT -to ADDRESS [-qpn NUMBER] [...]", "send numbered messages, on either fabric", runSend},
		{"listen", "-on ENDPOINT [-group IP...] [...]", "receive them, and report loss, order and latency", runListen},
		{"check", "[-here] FILE...", "check configuration files and report every problem", runCheck},
		{"diff", "[-json] OLD NEW", "compare two configurations, and show what needs a restart", runDiff},
		{"example", "[-short]", "print a configuration file to start from", runExample},
		{"devices", "[-json]", "list this machine's ports, and the side each can be used for", runDevices},
		{"doctor", "[-json | -fixes | -all] [-netdev INTERFACE] [FILE]", "check this machine, and show commands that fix it", runDoctor},
		{"acm", "[-out DIR] [...] FILE", "write the files with which ibacm on InfiniBand nodes finds RoCE hosts", runACM},
		{"fleet", "plan -member NAME[:WEIGHT]... | rehearse -etcd URL -name NAME [...]", "show how several bridges would divide the work", runFleet},
		{"push", "-c FILE [-wait TIME] [-text | SHARED]", "give all bridges of a fleet another configuration", runPush},
		{"drops", "[REASON...]", "explain drop reasons", runDrops},
		{"completion", "bash | zsh | fish", "print a shell's completion of all commands", runCompletion},
		{"version", "", "print the version", runVersion},
		{"help", "[COMMAND]", "explain a command", runHelp},
	}
}

func main() {
	os.Exit(dispatch(os.Args[1:], os.Stdout, os.Stderr))
}

// dispatch runs the subcommand in args and returns its exit code.
func dispatch(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		overview(stderr)
		return exitUsage
	}
	switch args[0] {
	case "-h", "-help", "--help":
		overview(stdout)
		return exitOK
	case "-version", "--version":
		args = []string{"version"}
	}
	c, ok := find(args[0])
	if !ok {
		unknown(stderr, args[0])
		return exitUsage
	}
	return c.run(args[1:], stdout, stderr)
}

// find returns a subcommand by its name.
func find(name string) (command, bool) {
	for _, c := range commands() {
		if c.name == name {
			return c, true
		}
	}
	return command{}, false
}
