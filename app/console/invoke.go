// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"causeway/app/command"
	"causeway/config"
)

// runTimeout bounds a command with one result.
const runTimeout = 30 * time.Second

// invoke runs a parsed command.
func (x *session) invoke(ctx context.Context, v *command.Invocation, line string) {
	if v.Command.Role > x.role {
		x.print([]string{fmt.Sprintf("%s is for admins: log in, or use the Unix socket as one", v.Command.Path)})
		return
	}
	if v.Command.Confirm != "" && !x.confirmed(v.Command.Confirm) {
		x.print([]string{"Nothing was done."})
		return
	}
	call := x.call(v)
	screen := &screen{x: x, pipe: v.Pipe, lines: v.Command.Stream != nil}
	var err error
	switch {
	case v.Command.Local != command.LocalNone:
		err = x.local(v.Command.Local, call)
	case v.Every > 0:
		err = x.repeat(ctx, v, call, screen)
	case v.Command.Stream != nil:
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		done := x.in.running(true, stop)
		err = v.Command.Stream(ctx, call, screen)
		done()
	default:
		err = x.once(ctx, v, call, screen)
	}
	if unsaved, is := errors.AsType[*config.Unsaved](err); is {
		err = x.clientSaves(ctx, unsaved)
	}
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, errClosed) {
		x.print([]string{err.Error()})
	}
}

// clientSaves has ctl save what the bridge may not, as it does for a single command, and prints what it says. Other
// clients cannot: to them the error says what to do.
func (x *session) clientSaves(ctx context.Context, unsaved *config.Unsaved) error {
	x.mu.Lock()
	can := x.telnet.offered[optSave]
	x.mu.Unlock()
	if !can {
		return unsaved
	}
	select {
	case <-x.saved: // what nobody had asked for
	default:
	}
	if x.out.raw(subnegotiation(optSave, "")) != nil {
		return errClosed
	}
	select {
	case said := <-x.saved:
		x.print(strings.Split(strings.TrimSpace(said), "\n"))
		return nil
	case <-x.gone:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// confirmed asks at a terminal whether to go on. Elsewhere nobody would answer.
func (x *session) confirmed(what string) bool {
	if !x.edits() {
		return true
	}
	x.editor.SetPrompt(what + " " + Sure)
	before := x.editor.History
	x.editor.History = &lines{} // the answer is no command
	defer func() { x.editor.History = before }()
	answer, err := x.editor.ReadLine()
	return err == nil && strings.TrimSpace(answer) == "yes"
}

// Sure is the question before a command that is confirmed.
const Sure = "Write yes to go on: "

// once runs a command with one result.
func (x *session) once(ctx context.Context, v *command.Invocation, call *command.Call, screen *screen) error {
	ctx, stop := context.WithTimeout(ctx, runTimeout)
	defer stop()
	done := x.in.running(false, stop)
	r, err := x.server.answer(ctx, v, call)
	done()
	if len(r.Parts) == 0 && err != nil {
		return err
	}
	return errors.Join(screen.Show(r), err)
}

// answer runs a command when fewer than commandsMost of the role run.
func (s *server) answer(ctx context.Context, v *command.Invocation, call *command.Call) (command.Result, error) {
	busy := s.busy[call.Role]
	select {
	case busy <- struct{}{}:
	case <-ctx.Done():
		return command.Result{}, ctx.Err()
	}
	defer func() { <-busy }()
	return v.Command.Run(ctx, call)
}

// repeat runs a command repeatedly, for watch.
func (x *session) repeat(ctx context.Context, v *command.Invocation, call *command.Call, screen *screen) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := x.in.running(true, stop)
	defer done()
	return repeat(ctx, x.server, v, call, screen)
}

func repeat(ctx context.Context, s *server, v *command.Invocation, call *command.Call, out command.Out) error {
	tick := time.NewTicker(v.Every)
	defer tick.Stop()
	for {
		r, err := s.answer(ctx, v, call)
		if err == nil {
			err = out.Draw(r)
		}
		if err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// local runs a command about the session.
func (x *session) local(what command.Local, call *command.Call) error {
	switch what {
	case command.LocalQuit:
		x.over = true
	case command.LocalHelp:
		lines, err := command.Standard.Help(call.Rest())
		if err != nil {
			return err
		}
		return x.page(command.Hang(lines, x.tableWidth()))
	case command.LocalHistory:
		return x.page(x.history.newest())
	case command.LocalPaging:
		x.paging = call.Value("state") == "on"
	case command.LocalLogin:
		return x.login(call)
	}
	return nil
}

// guessesMost is how many wrong tokens end a session.
const guessesMost = 3

// login makes the session admin if the token is right. A wrong token costs a second, and three of them the connection.
func (x *session) login(call *command.Call) error {
	if x.role == command.Admin {
		return errors.New("you are admin already")
	}
	if x.server.Token == "" {
		return errors.New("no token is configured: see [console] token")
	}
	guess := call.Value("token")
	if !call.Has("token") {
		if !x.edits() {
			return errors.New("write the token after login; without line editing it cannot be hidden")
		}
		var err error
		if guess, err = x.editor.ReadPassword("token: "); err != nil {
			return err
		}
	}
	if !isToken(guess, x.server.Token) {
		x.guesses++
		x.server.Log.Warn("console_login", "user", x.user, "granted", false)
		time.Sleep(time.Second)
		if x.guesses >= guessesMost {
			x.over = true
		}
		return errors.New("wrong token")
	}
	x.role = command.Admin
	if !x.takeSeat() {
		x.role = command.View
		return errors.New(crowded(admins))
	}
	x.server.Log.Info("console_login", "user", x.user, "granted", true)
	return nil
}

// errClosed is returned by a screen when the client has gone.
var errClosed = errors.New("console: the client has gone")

// A screen is the command.Out of a session.
type screen struct {
	x     *session
	pipe  command.Pipe
	lines bool // several results are shown
	drawn bool
}

// Show implements command.Out.
func (s *screen) Show(r command.Result) error {
	text, err := rendered(s.pipe, r, s.x.tableWidth(), s.lines)
	if err != nil || text == "" {
		return err
	}
	if !s.lines {
		return s.x.pageText(text)
	}
	_, err = io.WriteString(s.x.out, text)
	return closed(err)
}

// Draw implements command.Out.
func (s *screen) Draw(r command.Result) error {
	width, height := s.x.size()
	text, err := rendered(s.pipe, r, s.x.tableWidth(), true)
	if err != nil {
		return err
	}
	_, err = io.WriteString(s.x.out, drawing(text, width, height, s.x.edits(), &s.drawn))
	return closed(err)
}

// Size implements command.Out.
func (s *screen) Size() (int, int) { return s.x.size() }

// Raw implements command.Out.
func (s *screen) Raw() func([]byte) error { return nil }

func closed(err error) error {
	if err != nil {
		return errClosed
	}
	return nil
}

// tableWidth bounds the width of tables; 0 when the window's size is unknown.
func (x *session) tableWidth() int {
	width, _ := x.size()
	return width
}

// rendered returns a result as text or JSON after the pipe. oneLine puts JSON on one line.
func rendered(p command.Pipe, r command.Result, width int, oneLine bool) (string, error) {
	r = p.Apply(r)
	if p.JSON {
		b, err := r.JSON(oneLine)
		return string(b), err
	}
	return r.Text(width), nil
}
