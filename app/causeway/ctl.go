// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/term"

	words "causeway/app/command"
	"causeway/app/console"
)

// defaultSocket is the console's socket in the documentation and packages.
const defaultSocket = "/run/causeway/console.sock"

// runCtl is "causeway ctl".
func runCtl(args []string, stdout, stderr io.Writer) int {
	flags := newFlags("ctl", `Runs one command in a running bridge, or starts a session with its console when no words are given.
"causeway ctl help" lists the commands, "causeway ctl help COMMAND" explains one. Words may be abbreviated. The bridge's
configuration needs [console] listen.

Exit codes: 0; 1 when the command failed, or no bridge is running; 2 when the command was not understood.`)
	socket := flags.String("s", defaultSocket, "the console's `SOCKET`: a path, or an address and port")
	asJSON := flags.Bool("json", false, "show JSON")
	if code, done := parse(flags, args, stdout, stderr); done {
		return code
	}
	words := flags.Args()
	if n := len(words); n > 0 && strings.TrimLeft(words[n-1], "-") == "json" && strings.HasPrefix(words[n-1], "-") {
		words, *asJSON = words[:n-1], true
	}
	if len(words) == 0 && (*asJSON || !term.IsTerminal(int(os.Stdin.Fd()))) {
		return misused(flags, stderr, "a session needs a terminal; give a command")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	conn, err := dialConsole(ctx, *socket)
	if err != nil {
		if !*asJSON && helpOffline(words, stdout) {
			return exitOK
		}
		fmt.Fprintf(stderr, "causeway ctl: %v\n", err)
		return exitFailed
	}
	defer conn.Close()
	if len(words) == 0 {
		if err := console.Interact(ctx, conn, os.Stdin, stdout); err != nil {
			fmt.Fprintf(stderr, "causeway ctl: %v\n", err)
			return exitFailed
		}
		return exitOK
	}
	q := console.Question{Words: words, JSON: *asJSON}
	if f, ok := stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		q.Terminal = true
		q.Width, q.Height, _ = term.GetSize(int(f.Fd())) // 0 when unknown
	}
	if q.Terminal && runsUntilEnded(words) && term.IsTerminal(int(os.Stdin.Fd())) {
		defer console.KeyEnds(os.Stdin, stop)()
	}
	code, err := console.Ask(ctx, conn, q, stdout, stderr)
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(stderr, "causeway ctl: %s\n", strings.TrimSpace(err.Error()))
		return exitFailed
	}
	return code
}

// runsUntilEnded reports whether a command runs until it is ended.
func runsUntilEnded(question []string) bool {
	v, err := words.Standard.ParseWords(question)
	return err == nil && v != nil && (v.Every > 0 || v.Command.Stream != nil)
}

// helpOffline prints help, which needs no bridge.
func helpOffline(question []string, stdout io.Writer) (answered bool) {
	v, err := words.Standard.ParseWords(question)
	if err != nil || v == nil || v.Command.Local != words.LocalHelp || v.Pipe.JSON {
		return false
	}
	lines, err := words.Standard.Help(v.Call(nil, words.View, "").Rest())
	if err != nil {
		return false
	}
	fmt.Fprintln(stdout, strings.Join(lines, "\n"))
	return true
}

// dialConsole connects to a console.
func dialConsole(ctx context.Context, at string) (net.Conn, error) {
	network := "tcp"
	if strings.Contains(at, "/") {
		network, at = "unix", strings.TrimPrefix(at, "unix:")
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, at)
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no console at %s: is the bridge running, with [console] listen = [\"unix:%s\"]? -s names another", at, at)
	case errors.Is(err, syscall.ECONNREFUSED) && network == "unix":
		return nil, fmt.Errorf("no answer at %s: the bridge has ended, or this is not a console's socket; -s names another", at)
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("no answer at %s: is the bridge running, with [console] listen = [%q]? -s names another", at, at)
	}
	return nil, fmt.Errorf("-s %s: %w", at, err)
}
