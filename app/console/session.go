// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"causeway/app/command"
	"causeway/app/seats"
)

// A session is one client.
type session struct {
	server *server
	conn   net.Conn
	role   command.Role
	known  string // the user, if the kernel knows it
	user   string // for the log: the user, or the address
	class  int
	seat   *seats.Seat
	in     *input
	out    *output

	mu     sync.Mutex
	telnet telnet // written by the pump
	editor *term.Terminal
	began  time.Time
	// When the last input came or the last command ended; ns since began, so that a step of the clock is no time.
	active  atomic.Int64
	working atomic.Bool // a command runs

	gone  chan struct{} // closed when the client has gone
	saved chan string   // what a client says that was asked to save

	history lines
	paging  bool
	guesses int  // wrong tokens
	over    bool // quit was given
}

func newSession(s *server, conn net.Conn) *session {
	x := &session{server: s, conn: conn, in: newInput(), out: &output{conn: conn, wait: writeTimeout}, paging: true, began: time.Now(),
		gone: make(chan struct{}), saved: make(chan string, 1)}
	x.role, x.known = identify(conn)
	if x.user = x.known; x.known == "" {
		x.user = conn.RemoteAddr().String()
	}
	x.editor = term.NewTerminal(keyboard{x}, "")
	x.history.keep = x.keepLine
	x.editor.History = &x.history
	x.editor.AutoCompleteCallback = x.onKey
	x.touch()
	return x
}

// touch notes that the session is in use.
func (x *session) touch() { x.active.Store(int64(time.Since(x.began))) }

// keyboard is the line editor's terminal: the session's input and output.
type keyboard struct{ s *session }

// Read implements io.Reader.
func (k keyboard) Read(p []byte) (int, error) { return k.s.in.Read(p) }

// Write implements io.Writer.
func (k keyboard) Write(p []byte) (int, error) { return k.s.out.Write(p) }

// run runs the session until the client, a command or ctx ends it.
func (x *session) run(ctx context.Context) {
	ctx, done := context.WithCancel(ctx)
	defer done()
	defer x.in.end(io.EOF)
	if _, byTCP := x.conn.(*net.TCPConn); byTCP {
		x.mu.Lock()
		offer := x.telnet.offer()
		x.mu.Unlock()
		if x.out.raw(offer) != nil {
			return
		}
	}
	x.server.all.Go(x.pump)
	const moment = 200 * time.Millisecond
	if first := x.in.first(moment, x.edits); first == 0 {
		fmt.Fprintf(x.out, "\rCauseway %s, %s. Your role is %s. Type ? for help.\n", x.server.Env.Version, x.server.Name, x.role)
	}
	for !x.over && ctx.Err() == nil && !x.out.failed() {
		line, err := x.readLine()
		if err != nil {
			return
		}
		if strings.HasPrefix(line, string(rune(oneShotMark))) {
			x.oneShot(ctx, line[1:])
			return
		}
		x.working.Store(true)
		x.do(ctx, line)
		x.working.Store(false)
		x.touch()
	}
}

// pump reads from the client until it disconnects or is idle for too long.
func (x *session) pump() {
	defer close(x.gone)
	b := make([]byte, 1024)
	for {
		interval := min(time.Minute, x.server.Idle)
		if err := x.conn.SetReadDeadline(time.Now().Add(interval)); err != nil {
			x.in.end(err)
			return
		}
		n, err := x.conn.Read(b)
		if n > 0 {
			x.touch()
			x.take(b[:n])
		}
		var timeout net.Error
		switch {
		case err == nil:
		case !errors.As(err, &timeout) || !timeout.Timeout():
			x.in.end(io.EOF)
			return
		case !x.working.Load() && time.Since(x.began)-time.Duration(x.active.Load()) >= x.server.Idle:
			fmt.Fprintf(x.out, "\nNo input for %v: the session ends.\n", x.server.Idle)
			_ = x.conn.Close() // the session is over
			x.in.end(io.EOF)
			return
		}
	}
}

// take decodes bytes from the client, answers telnet commands and queues the keys.
func (x *session) take(b []byte) {
	x.mu.Lock()
	data, answer := x.telnet.feed(b)
	isTelnet, keys, width, height := x.telnet.detected, x.telnet.echo, x.telnet.width, x.telnet.height
	earlier, saves := x.telnet.taken(), x.telnet.saves
	x.telnet.saves = nil
	x.mu.Unlock()
	x.history.load(earlier)
	for _, said := range saves {
		select {
		case x.saved <- said:
		default: // nobody has asked
		}
	}
	if isTelnet {
		x.out.setTelnet()
	}
	if len(answer) > 0 && x.out.raw(answer) != nil {
		return
	}
	if width > 0 && height > 0 {
		_ = x.editor.SetSize(width, height) // an error is the connection's, and shows at the next write
	}
	x.in.put(data, keys)
}

// edits reports whether the client sends each key, so that lines are edited here.
func (x *session) edits() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.telnet.echo
}

// keepLine gives a line to a client that keeps the history.
func (x *session) keepLine(line string) {
	x.mu.Lock()
	keeps := x.telnet.offered[optHistory]
	x.mu.Unlock()
	if keeps {
		_ = x.out.raw(historyLine(line)) // an error ends the session at its next line
	}
}

// size returns the client's window; zeros when it is unknown.
func (x *session) size() (width, height int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.telnet.width, x.telnet.height
}

func (x *session) prompt() string {
	return x.server.Name + map[command.Role]string{command.View: "> ", command.Admin: "# "}[x.role]
}

// readLine reads a line: with the editor if the client sends each key, else as received.
func (x *session) readLine() (string, error) {
	if x.edits() {
		x.editor.SetPrompt(x.prompt())
		return x.editor.ReadLine()
	}
	if !x.in.waiting() {
		if _, err := io.WriteString(x.out, x.prompt()); err != nil {
			return "", err
		}
	}
	line, whole, err := x.in.line()
	if err == nil && !whole {
		_, err = fmt.Fprintf(x.out, "The line is longer than %d bytes.\n", lineMost)
		return "", err
	}
	if err == nil && !strings.HasPrefix(line, string(rune(oneShotMark))) {
		x.history.Add(line)
	}
	return line, err
}

// do runs the command of a line.
func (x *session) do(ctx context.Context, line string) {
	if before, ok := strings.CutSuffix(strings.TrimSpace(line), "?"); ok && strings.Count(before, `"`)%2 == 0 && strings.Count(before, "'")%2 == 0 {
		_ = x.page(x.choices(before + strings.Repeat(" ", len(line)-len(strings.TrimRight(line, " "))))) // as in print
		return
	}
	v, err := command.Standard.Parse(line)
	switch {
	case err != nil:
		x.print([]string{err.Error()})
	case v != nil:
		x.invoke(ctx, v, line)
	}
}

// call returns the call of a line's command, with this session's role and user.
func (x *session) call(v *command.Invocation) *command.Call {
	call := v.Call(x.server.Env, x.role, x.user)
	_, local := x.conn.(*net.UnixConn)
	call.Remote = !local
	return call
}

// print prints lines.
func (x *session) print(lines []string) {
	lines = command.Hang(lines, x.tableWidth())
	_, _ = io.WriteString(x.out, strings.Join(lines, "\n")+"\n") // an error ends the session at its next line
}

// choices returns what can follow a line, as lines of help.
func (x *session) choices(line string) []string {
	c := command.Standard.Choices(context.Background(), x.server.Env, line)
	return command.Hang(c.Lines(x.tableWidth()), x.tableWidth())
}

// onKey handles ?, Tab and Ctrl-R. The editor calls it for each key.
func (x *session) onKey(line string, pos int, key rune) (string, int, bool) {
	before, after := line[:pos], line[pos:]
	inQuotes := strings.Count(before, `"`)%2+strings.Count(before, "'")%2 > 0
	switch {
	case key == searchKey && x.editor.History == term.History(&x.history): // no answer to a question is looked for
		line, pos = x.search(line, pos)
		return line, pos, true
	case key == '?' && !inQuotes:
		x.showChoices(line, pos, "?", x.choices(before))
		return line, pos, true
	case key == '\t':
		c := command.Standard.Choices(context.Background(), x.server.Env, before)
		if c.Err != nil || len(c.Options) == 0 {
			return line, pos, true
		}
		whole := before[:len(before)-len(c.Part)] + c.Complete()
		if whole == before || strings.TrimSuffix(whole, " ") == before && strings.HasSuffix(before, " ") {
			x.showChoices(line, pos, "", command.Hang(c.Lines(x.tableWidth()), x.tableWidth()))
			return line, pos, true
		}
		return whole + strings.TrimPrefix(after, " "), len(whole), true
	}
	return line, pos, false
}

// showChoices prints the choices at pos below the line being typed, and the line again below them. More than a screen
// of choices is printed past the editor, which has no pager; the cursor is then moved so that the editor redraws its
// line at the right place.
func (x *session) showChoices(line string, pos int, key string, lines []string) {
	width, height := x.size()
	high := 2 // the typed line and the prompt
	for _, l := range lines {
		high += rowsOf(l, max(width, 1))
	}
	if high <= height || width < 1 || !x.paging {
		_, _ = io.WriteString(x.editor, x.prompt()+line[:pos]+key+"\n"+strings.Join(lines, "\n")+"\n") // as in print
		return
	}
	rows := func(s string) int { return utf8.RuneCountInString(x.prompt()+s) / width }
	at := rows(line[:pos])
	_, _ = io.WriteString(x.out, strings.Repeat("\n", rows(line)-at+1)) // as in print, and the following ones
	_ = x.page(lines)
	_, _ = io.WriteString(x.out, strings.Repeat("\n", at))
	_, _ = io.WriteString(x.editor, "")
}
