// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/term"

	words "causeway/app/command"
	"causeway/app/console"
	"causeway/config"
)

// defaultSocket is the console's socket in the documentation and packages.
const defaultSocket = "/run/causeway/console.sock"

// runCtl is "causeway ctl".
func runCtl(args []string, stdout, stderr io.Writer) int {
	flags := newFlags("ctl", `Runs one command in a running bridge, the commands of a file or a pipe, or, at a terminal and without words, a
session. The first command of a file that fails ends it. "causeway ctl help" lists the commands, "causeway ctl help
COMMAND" explains one. Words may be abbreviated. The bridge's configuration needs [console] listen.

Exit codes: 0; 1 when a command failed, or no bridge is running; 2 when a command was not understood.`)
	socket := flags.String("s", defaultSocket, "the console's `SOCKET`: a path, or an address and port")
	asJSON := flags.Bool("json", false, "show JSON")
	file := flags.String("f", "", "run the commands of a `FILE`, one a line; - is standard input")
	if code, done := parse(flags, args, stdout, stderr); done {
		return code
	}
	question := flags.Args()
	if n := len(question); n > 0 && strings.TrimLeft(question[n-1], "-") == "json" && strings.HasPrefix(question[n-1], "-") {
		question, *asJSON = question[:n-1], true
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	c := ctl{socket: *socket, asJSON: *asJSON, stop: stop, stdout: stdout, stderr: stderr}
	atTerminal := term.IsTerminal(int(os.Stdin.Fd()))
	switch {
	case *file != "" && len(question) > 0:
		return misused(flags, stderr, "give a command, or -f and a file")
	case *file != "":
		return c.file(ctx, *file)
	case len(question) > 0:
		return c.command(ctx, question)
	case !atTerminal:
		return c.script(ctx, "standard input", os.Stdin)
	case *asJSON:
		return misused(flags, stderr, "a session shows text; give a command")
	}
	return c.session(ctx)
}

// ctl is one run of "causeway ctl".
type ctl struct {
	socket         string
	asJSON         bool
	saved          bool                       // by this program, in place of the bridge
	stop           func()                     // ends the running command
	sure           func(*config.Unsaved) bool // asks before this program saves; nil: its user has asked for that
	stdout, stderr io.Writer
}

// failed reports an error.
func (c *ctl) failed(err error) int {
	fmt.Fprintf(c.stderr, "causeway ctl: %s\n", strings.TrimSpace(err.Error()))
	return exitFailed
}

// session starts a session at the terminal.
func (c *ctl) session(ctx context.Context) int {
	conn, err := dialConsole(ctx, c.socket)
	if err != nil {
		return c.failed(err)
	}
	defer conn.Close()
	var save console.Save
	if c.local() {
		save = func(ask func(string) string) string { return c.saveForSession(ctx, ask) }
	}
	if err := console.Interact(ctx, conn, os.Stdin, c.stdout, console.UserHistory(), save); err != nil {
		return c.failed(err)
	}
	return exitOK
}

// local reports whether the bridge is on this machine for sure.
func (c *ctl) local() bool { return strings.Contains(c.socket, "/") }

// saveForSession saves what the bridge may not, as a single "write" does, and returns what that says.
func (c *ctl) saveForSession(ctx context.Context, ask func(question string) string) string {
	var said bytes.Buffer
	one := ctl{socket: c.socket, stop: c.stop, stdout: &said, stderr: &said}
	one.sure = func(u *config.Unsaved) bool {
		question := fmt.Sprintf("The bridge may not write to %s: ctl saves it, as user %d. %s", filepath.Dir(u.Path), os.Geteuid(), console.Sure)
		return strings.TrimSpace(ask(question)) == "yes"
	}
	one.ask(ctx, console.Question{Words: []string{"write"}}, &said) // its exit code is for scripts
	return said.String()
}

// command runs one command, after a question where it needs one and somebody is there to answer.
func (c *ctl) command(ctx context.Context, question []string) int {
	q := console.Question{Words: question, JSON: c.asJSON}
	if f, ok := c.stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		q.Terminal = true
		q.Width, q.Height, _ = term.GetSize(int(f.Fd())) // 0 when unknown
	}
	if q.Terminal && term.IsTerminal(int(os.Stdin.Fd())) {
		v, err := words.Standard.ParseWords(question)
		known := err == nil && v != nil
		if known && v.Command.Confirm != "" && !confirmed(v.Command.Confirm, os.Stdin, c.stdout) {
			fmt.Fprintln(c.stdout, "Nothing was done.")
			return exitFailed
		}
		if known && v.UntilEnded() {
			defer console.KeyEnds(os.Stdin, c.stop)()
		}
	}
	return c.ask(ctx, q, c.stderr)
}

// confirmed asks whether to go on.
func confirmed(what string, in io.Reader, out io.Writer) bool {
	fmt.Fprintf(out, "%s %s", what, console.Sure)
	answer, _ := bufio.NewReader(in).ReadString('\n') // without an answer it is no
	return strings.TrimSpace(answer) == "yes"
}

// ask sends a question, and writes what the command says.
func (c *ctl) ask(ctx context.Context, q console.Question, stderr io.Writer) int {
	conn, err := dialConsole(ctx, c.socket)
	if err != nil {
		if !c.asJSON && helpOffline(q.Words, c.stdout) {
			return exitOK
		}
		return c.failed(err)
	}
	defer conn.Close()
	q.Saves = !c.saved && c.local()
	code, err := console.Ask(ctx, conn, q, c.stdout, stderr)
	if unsaved, is := errors.AsType[console.UnsavedError](err); is {
		return c.save(ctx, q, unsaved.Unsaved, stderr)
	}
	if err != nil && ctx.Err() == nil {
		return c.failed(err)
	}
	return code
}

// save saves what the bridge may not, if this user may, and then has the bridge say that its file has all.
func (c *ctl) save(ctx context.Context, q console.Question, u *config.Unsaved, stderr io.Writer) int {
	if c.sure != nil && !c.sure(u) {
		fmt.Fprintln(stderr, "Nothing was done.")
		return exitFailed
	}
	if err := u.Store(); err != nil {
		fmt.Fprintf(stderr, "%v\nThe bridge may not write to its file, and neither could this program, as user %d: %v\n", u, os.Geteuid(), err)
		return exitFailed
	}
	c.saved = true
	quiet := *c
	quiet.stdout = io.Discard
	if code := quiet.ask(ctx, console.Question{Line: "reload"}, stderr); code != exitOK { // the bridge knows its file then
		return code
	}
	fmt.Fprintf(stderr, "Saved %s. The file before is beside it, with the ending %s.\n", u.Path, config.BackupEnding)
	return c.ask(ctx, q, stderr)
}

// file runs the commands of a file.
func (c *ctl) file(ctx context.Context, name string) int {
	if name == "-" {
		return c.script(ctx, "standard input", os.Stdin)
	}
	f, err := os.Open(name)
	if err != nil {
		return c.failed(fmt.Errorf("-f %s: %w; name a file with a command on each line, or - for standard input", name, cause(err)))
	}
	defer f.Close()
	return c.script(ctx, name, f)
}

// script runs commands, one a line, until one fails; it says which. Blank lines, and those that begin with #, are left
// out.
func (c *ctl) script(ctx context.Context, name string, in io.Reader) int {
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan() && ctx.Err() == nil; n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		var said bytes.Buffer
		code := c.ask(ctx, console.Question{Line: line, JSON: c.asJSON}, &said)
		if code != exitOK {
			if said.Len() > 0 {
				fmt.Fprintf(c.stderr, "%s:%d: %s: %s", name, n, line, &said)
			}
			return code
		}
		_, _ = said.WriteTo(c.stderr) // remarks of a command that succeeded
	}
	if err := lines.Err(); err != nil {
		return c.failed(fmt.Errorf("%s: %w", name, err))
	}
	return exitOK
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
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("this user may not open %s; use sudo, or be the user that the bridge runs as", at)
	case network == "tcp" && !strings.Contains(at, ":"):
		return nil, fmt.Errorf("-s %s is neither a path nor an address and port; write ./%s for a file here, or one like 127.0.0.1:4711", at, at)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no console at %s: is the bridge running, with [console] listen = [\"unix:%s\"]? -s names another", at, at)
	case errors.Is(err, syscall.ECONNREFUSED) && network == "unix":
		return nil, fmt.Errorf("no answer at %s: the bridge has ended, or this is not a console's socket; -s names another", at)
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("no answer at %s: is the bridge running, with [console] listen = [%q]? -s names another", at, at)
	}
	return nil, fmt.Errorf("-s %s: %w", at, err)
}
