// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"time"

	"causeway/app/command"
	"causeway/config"
)

// "causeway ctl WORDS" sends its command as one line after a mark that cannot be typed. The response is frames after
// the same mark; what the server sends before the mark is text for interactive sessions.
//
//	client: STX {"words":["show","hosts"], …} LF
//	server: … STX frame…    frame: kind, length (4 bytes, big-endian), text
const oneShotMark = 2 // STX; not in the telnet offer

// Kinds of frames.
const (
	frameOut  = 'o' // for standard output
	frameErr  = 'e' // for standard error
	frameFile = 'f' // part of a config.Unsaved, for a client that can save it
	frameExit = 'x' // the exit code, and the end
)

// frameMost bounds a frame's text.
const frameMost = 1 << 20

// A Question is a command from ctl.
type Question struct {
	Words    []string `json:"words"`
	Line     string   `json:"line"` // in place of Words
	JSON     bool     `json:"json"`
	Terminal bool     `json:"terminal"` // standard output is one
	Width    int      `json:"width"`
	Height   int      `json:"height"`
	Saves    bool     `json:"saves"` // the client saves what the bridge may not
}

// An UnsavedError is returned by Ask for a configuration that the bridge may not save: Question.Saves asks for it.
type UnsavedError struct{ *config.Unsaved }

// Exit codes of one-shots.
const (
	exitFailed = 1
	exitUsage  = 2
)

// oneShot runs one command for ctl and sends its exit code.
func (x *session) oneShot(ctx context.Context, line string) {
	o := &frames{out: x.out}
	x.server.onlyFrames(x.conn)
	if x.out.raw([]byte{oneShotMark}) != nil {
		return
	}
	code := byte(0)
	x.working.Store(true)
	if err := x.answerOne(ctx, line, o); err != nil && !errors.Is(err, context.Canceled) {
		var usage *command.Usage
		if code = exitFailed; errors.As(err, &usage) {
			code = exitUsage
		}
		_ = o.sendError(err) // sending the exit code will fail, too
	}
	_ = o.send(frameExit, []byte{code}) // the client has gone
}

func (x *session) answerOne(ctx context.Context, line string, o *frames) error {
	if err := json.Unmarshal([]byte(line), &o.q); err != nil {
		return errors.New("the bridge does not understand this request: use the causeway ctl of its version")
	}
	v, err := command.Standard.ParseWords(o.q.Words)
	if o.q.Line != "" {
		v, err = command.Standard.Parse(o.q.Line)
	}
	switch {
	case err != nil:
		return err
	case v == nil:
		return nil
	case v.Command.Role > x.role:
		return errors.New(v.Command.Path + " is for admins: root, the user and group of the bridge, and members of the group causeway")
	}
	v.Pipe.JSON = v.Pipe.JSON || o.q.JSON
	o.pipe, o.lines = v.Pipe, v.Command.Stream != nil
	call := x.call(v)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer x.in.running(true, stop)()
	switch {
	case v.Command.Local == command.LocalHelp:
		lines, err := command.Standard.Help(call.Rest())
		if err != nil {
			return err
		}
		return o.Show(command.Result{Parts: []command.Part{{Name: "help", Lines: lines}}})
	case v.Command.Local != command.LocalNone:
		return errors.New(v.Command.Path + " is for sessions: causeway ctl without a command starts one")
	case v.Every > 0:
		return repeat(ctx, x.server, v, call, o)
	case v.Command.Stream != nil:
		return v.Command.Stream(ctx, call, o)
	}
	ctx, late := context.WithTimeout(ctx, runTimeout)
	defer late()
	r, err := x.server.answer(ctx, v, call)
	if len(r.Parts) == 0 && err != nil {
		return err
	}
	return errors.Join(o.Show(r), err)
}

// frames is the command.Out of a one-shot.
type frames struct {
	out   *output
	q     Question
	pipe  command.Pipe
	lines bool // several results are shown
	drawn bool
}

func (o *frames) send(kind byte, b []byte) error {
	for first := true; first || len(b) > 0; first = false {
		n := min(len(b), frameMost)
		head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(n))
		if err := o.out.raw(append(head, b[:n]...)); err != nil {
			return errClosed
		}
		b = b[n:]
	}
	return nil
}

// sendError sends an error, or what the client is to save.
func (o *frames) sendError(err error) error {
	var unsaved *config.Unsaved
	if o.q.Saves && errors.As(err, &unsaved) {
		b, err := json.Marshal(unsaved)
		if err != nil {
			return err
		}
		return o.send(frameFile, b)
	}
	return o.send(frameErr, []byte(err.Error()+"\n"))
}

// Show implements command.Out.
func (o *frames) Show(r command.Result) error {
	width := 0
	if o.q.Terminal {
		width = o.q.Width
	}
	text, err := rendered(o.pipe, r, width, o.lines)
	if err != nil || text == "" {
		return err
	}
	return o.send(frameOut, []byte(text))
}

// Draw implements command.Out.
func (o *frames) Draw(r command.Result) error {
	text, err := rendered(o.pipe, r, o.q.Width, true)
	if err != nil {
		return err
	}
	return o.send(frameOut, []byte(drawing(text, o.q.Width, o.q.Height, o.q.Terminal && !o.pipe.JSON, &o.drawn)))
}

// Size implements command.Out.
func (o *frames) Size() (int, int) { return o.q.Width, o.q.Height }

// Raw implements command.Out.
func (o *frames) Raw() func([]byte) error {
	if o.q.Terminal {
		return nil
	}
	return func(b []byte) error { return o.send(frameOut, b) }
}

// Ask sends a command to a console and writes its output. code is the command's exit code; err is an error of the
// connection, or an UnsavedError.
func Ask(ctx context.Context, conn net.Conn, q Question, stdout, stderr io.Writer) (code int, err error) {
	stop := context.AfterFunc(ctx, func() { // the server then ends the command and sends the exit code
		if c, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = c.CloseWrite()
		}
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	})
	defer stop()
	b, err := json.Marshal(q)
	if err != nil {
		return 0, err
	}
	if _, err := conn.Write(append(append([]byte{oneShotMark}, b...), '\n')); err != nil {
		return 0, err
	}
	if err := skipTo(conn, oneShotMark); err != nil {
		return 0, err
	}
	for file := []byte(nil); ; {
		head := make([]byte, 5)
		if _, err := io.ReadFull(conn, head); err != nil {
			return 0, ended(err)
		}
		n := binary.BigEndian.Uint32(head[1:])
		if n > frameMost {
			return 0, errors.New("the server is not a console")
		}
		text := make([]byte, n)
		if _, err := io.ReadFull(conn, text); err != nil {
			return 0, ended(err)
		}
		switch {
		case head[0] == frameOut:
			_, err = stdout.Write(text)
		case head[0] == frameErr:
			_, err = stderr.Write(text)
		case head[0] == frameFile:
			file = append(file, text...)
		case head[0] == frameExit && n == 1 && len(file) > 0:
			return int(text[0]), unsavedError(file)
		case head[0] == frameExit && n == 1:
			return int(text[0]), nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// unsavedError reads what the bridge may not save.
func unsavedError(file []byte) error {
	u := new(config.Unsaved)
	if err := json.Unmarshal(file, u); err != nil {
		return errors.New("the server is not a console")
	}
	return UnsavedError{u}
}

// ended words the end of a connection.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the bridge has closed the connection")
	}
	return err
}

// skipTo reads up to the mark. If the connection ends before, the text so far is the error, such as that there are too
// many sessions.
func skipTo(r io.Reader, mark byte) error {
	var said []byte
	for b := make([]byte, 1); ; {
		if _, err := r.Read(b); err != nil {
			if len(said) > 0 {
				return errors.New(string(said))
			}
			return ended(err)
		}
		if b[0] == mark {
			return nil
		}
		if len(said) < lineMost {
			said = append(said, b[0])
		}
	}
}
