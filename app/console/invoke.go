// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"causeway/app/command"
)

// answerMost is how long a command that answers at once may take.
const answerMost = 30 * time.Second

// invoke runs a command that makes sense.
func (x *session) invoke(ctx context.Context, v *command.Invocation, line string) {
	if v.Command.Role > x.role {
		x.say([]string{fmt.Sprintf("%s is for admins: log in, or come by the Unix socket as one", v.Command.Path)})
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
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, errClosed) {
		x.say([]string{err.Error()})
	}
}

// once runs a command that answers at once.
func (x *session) once(ctx context.Context, v *command.Invocation, call *command.Call, screen *screen) error {
	ctx, stop := context.WithTimeout(ctx, answerMost)
	defer stop()
	done := x.in.running(false, stop)
	r, err := x.server.answer(ctx, v, call)
	done()
	if len(r.Parts) == 0 && err != nil {
		return err
	}
	return errors.Join(screen.Show(r), err)
}

// answer runs a command when it is its turn.
func (s *server) answer(ctx context.Context, v *command.Invocation, call *command.Call) (command.Result, error) {
	select {
	case s.busy <- struct{}{}:
	case <-ctx.Done():
		return command.Result{}, ctx.Err()
	}
	defer func() { <-s.busy }()
	return v.Command.Run(ctx, call)
}

// repeat is watch.
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

// local is a command about the session.
func (x *session) local(what command.Local, call *command.Call) error {
	switch what {
	case command.LocalQuit:
		x.over = true
	case command.LocalHelp:
		lines, err := command.Standard.Help(call.Rest())
		if err != nil {
			return err
		}
		return x.page(lines)
	case command.LocalHistory:
		return x.page(x.history.lines)
	case command.LocalPaging:
		x.paging = call.Value("state") == "on"
	case command.LocalLogin:
		return x.login(call)
	}
	return nil
}

// guessesMost is how many wrong tokens end a session.
const guessesMost = 3

// login makes an admin of who knows the token. Guessing takes a second each, and three guesses a new connection.
func (x *session) login(call *command.Call) error {
	if x.role == command.Admin {
		return errors.New("you are admin already")
	}
	if x.server.Token == "" {
		return errors.New("no token is configured, so nobody becomes admin here: see [console] token")
	}
	guess := call.Value("token")
	if !call.Has("token") {
		if !x.edits() {
			return errors.New("write the token behind login; it is not unseen here")
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
		return errors.New("that is not the token")
	}
	x.role = command.Admin
	x.server.Log.Info("console_login", "user", x.user, "granted", true)
	return nil
}

// errClosed is what a screen returns when the client has gone.
var errClosed = errors.New("console: the client has gone")

// A screen is where a session's command writes.
type screen struct {
	x     *session
	pipe  command.Pipe
	lines bool // it shows several results
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

// tableWidth bounds the width of tables; 0 where nobody knows the window's.
func (x *session) tableWidth() int {
	width, _ := x.size()
	return width
}

// rendered is a result as the pipe wants it. Of several, JSON is a line for each.
func rendered(p command.Pipe, r command.Result, width int, oneLine bool) (string, error) {
	r = p.Apply(r)
	if p.JSON {
		b, err := r.JSON(oneLine)
		return string(b), err
	}
	return r.Text(width), nil
}
