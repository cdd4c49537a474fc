// SPDX-License-Identifier: Apache-2.0

// Causeway joins a RoCE fabric to an InfiniBand fabric: it carries UD messages and multicast both ways.
//
// The program is a table of subcommands, each in a file of its own. A subcommand exits with 0 when it did
// what it was asked, 1 when it could not, and 2 when it was asked wrongly; "run" also with 75, when starting it
// again is all it takes.
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
	exitAgain  = 75 // EX_TEMPFAIL of sysexits(3): start me again
)

// commands lists the subcommands in the order in which help shows them.
// It is a function because help, one of them, reads the list.
func commands() []command {
	return []command{
		{"run", "-c FILE", "run the bridge", runBridge},
		{"ctl", "[-s SOCKET] [-json] [WORDS...]", "ask a running bridge, or begin a session with it", runCtl},
		{"demo", "[-duration TIME] [-json] [-pcap DIR]", "show the bridge at work, with no hardware", runDemo},
		{"node", "-fabric SOCKET -role ROLE -name NAME -guid GUID [...]", "be an InfiniBand node on a bridge's software subnet", runNode},
		{"send", "-on END -to ADDRESS [-qpn NUMBER] [...]", "send numbered messages, on either fabric", runSend},
		{"listen", "-on END [-group IP...] [...]", "tell what became of messages on their way: loss, order, latency", runListen},
		{"check", "[-here] FILE...", "check configuration files and report every problem", runCheck},
		{"diff", "[-json] OLD NEW", "say what another configuration changes, and what needs a restart", runDiff},
		{"example", "[-short]", "print a configuration file to begin with", runExample},
		{"devices", "[-json]", "list this machine's ports, and which side each can serve", runDevices},
		{"doctor", "[-json | -fixes | -all] [-netdev INTERFACE] [FILE]", "say what this machine lacks, and which commands mend it", runDoctor},
		{"acm", "[-out DIR] [...] FILE", "write the files by which ibacm on InfiniBand nodes finds RoCE hosts", runACM},
		{"drops", "[REASON...]", "explain the reasons for which packets are dropped", runDrops},
		{"completion", "bash | zsh | fish", "print a shell's completion of all commands", runCompletion},
		{"version", "", "print the version", runVersion},
		{"help", "[COMMAND]", "explain a command", runHelp},
	}
}

func main() {
	os.Exit(dispatch(os.Args[1:], os.Stdout, os.Stderr))
}

// dispatch runs the subcommand that args name and returns the exit code.
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

// find returns the subcommand of a name.
func find(name string) (command, bool) {
	for _, c := range commands() {
		if c.name == name {
			return c, true
		}
	}
	return command{}, false
}
