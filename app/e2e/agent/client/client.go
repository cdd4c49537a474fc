// SPDX-License-Identifier: Apache-2.0

// Package client is the test's side of the connection to a guest's agent.
package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"causeway/app/e2e/agent"
)

// stopFor is how long Stop waits for a command to end: longer than the guest
// takes to send SIGKILL.
const stopFor = 15 * time.Second

const helloEvery = 100 * time.Millisecond

// Client is the test's side of a guest's port. All methods may be called by several goroutines.
type Client struct {
	conn  io.ReadWriteCloser
	ready chan struct{} // closed when the guest has answered hello
	gone  chan struct{} // closed when the port has ended; err says why
	err   error

	sending sync.Mutex // not mu: a goroutine that waits to send must not keep read from reading
	out     *json.Encoder

	mu       sync.Mutex // guards the rest
	lastID   uint64
	commands map[uint64]*Command
}

// New takes over conn and says hello to the guest, which may still be booting.
func New(conn io.ReadWriteCloser) *Client {
	c := &Client{
		conn: conn, ready: make(chan struct{}), gone: make(chan struct{}),
		out: json.NewEncoder(conn), commands: map[uint64]*Command{},
	}
	go c.read()
	go c.greet()
	return c
}

// Ready waits until the guest's agent answers.
func (c *Client) Ready(ctx context.Context) error {
	select {
	case <-c.ready:
		return nil
	case <-c.gone:
		return fmt.Errorf("the guest's port ended: %w", c.err)
	case <-ctx.Done():
		return fmt.Errorf("the guest's agent does not answer: %w", ctx.Err())
	}
}

// Close ends the port. Commands in the guest go on; waiting for them fails.
func (c *Client) Close() error { return c.conn.Close() }

// Start begins a shell command in the guest.
func (c *Client) Start(line string) (*Command, error) {
	cmd := &Command{client: c, line: line, grown: make(chan struct{}), done: make(chan struct{})}
	c.mu.Lock()
	c.lastID++
	cmd.id = c.lastID
	c.commands[cmd.id] = cmd
	c.mu.Unlock()
	if err := c.send(agent.Request{ID: cmd.id, Run: line}); err != nil {
		return nil, fmt.Errorf("start %q: %w", line, err)
	}
	return cmd, nil
}

func (c *Client) send(q agent.Request) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	return c.out.Encode(q)
}

// greet sends hello until there is an answer, because a serial line that nobody has opened yet may lose it.
func (c *Client) greet() {
	for c.send(agent.Request{Hello: true}) == nil { // read gets an error, too
		select {
		case <-c.ready:
			return
		case <-c.gone:
			return
		case <-time.After(helloEvery):
		}
	}
}

func (c *Client) read() {
	in := json.NewDecoder(c.conn)
	for {
		var r agent.Report
		if err := in.Decode(&r); err != nil {
			c.err = err
			close(c.gone)
			return
		}
		c.take(r)
	}
}

func (c *Client) take(r agent.Report) {
	if r.Ready {
		select {
		case <-c.ready:
		default:
			close(c.ready)
		}
		return
	}
	c.mu.Lock()
	cmd := c.commands[r.ID]
	if r.Exit != nil {
		delete(c.commands, r.ID)
	}
	c.mu.Unlock()
	if cmd != nil {
		cmd.take(r)
	}
}

// Command is one command in the guest. Standard output and error come as one.
type Command struct {
	client *Client
	id     uint64
	line   string
	done   chan struct{} // closed when the command has ended
	exit   int           // valid then

	mu    sync.Mutex // guards the rest
	out   strings.Builder
	grown chan struct{} // closed and replaced when out grows
}

func (c *Command) take(r agent.Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.Write(r.Out)
	close(c.grown)
	c.grown = make(chan struct{})
	if r.Exit != nil {
		c.exit = *r.Exit
		close(c.done)
	}
}

// Output returns what the command has printed until now.
func (c *Command) Output() string {
	out, _ := c.output()
	return out
}

// output returns the output, and a channel that closes when there is more.
func (c *Command) output() (string, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.String(), c.grown
}

// Await returns the first whole line of output that match accepts. It fails
// when the command ends without one.
func (c *Command) Await(ctx context.Context, match func(line string) bool) (string, error) {
	for {
		ended := isClosed(c.done) // before reading the output: what is printed last still counts
		out, grown := c.output()
		for line := range strings.Lines(out) {
			if strings.HasSuffix(line, "\n") && match(strings.TrimRight(line, "\r\n")) {
				return strings.TrimRight(line, "\r\n"), nil
			}
		}
		if ended {
			return "", fmt.Errorf("%q ended with %d before the line awaited; it printed:\n%s", c.line, c.exit, out)
		}
		select {
		case <-grown:
		case <-c.done: // it may have ended since, and then nothing closes grown any more
		case <-c.client.gone:
			return "", fmt.Errorf("%q: the guest is gone: %w", c.line, c.client.err)
		case <-ctx.Done():
			return "", fmt.Errorf("%q: the line awaited does not come: %w; it printed:\n%s", c.line, ctx.Err(), out)
		}
	}
}

// AwaitText returns the first whole line of output that contains text.
func (c *Command) AwaitText(ctx context.Context, text string) (string, error) {
	return c.Await(ctx, func(line string) bool { return strings.Contains(line, text) })
}

// Wait waits for the command's end and returns its output and exit code. When
// ctx ends first, the command is stopped and the error is ctx's.
func (c *Command) Wait(ctx context.Context) (out string, exit int, err error) {
	select {
	case <-c.done:
		return c.Output(), c.exit, nil
	case <-c.client.gone:
		return c.Output(), -1, fmt.Errorf("%q: the guest is gone: %w", c.line, c.client.err)
	case <-ctx.Done():
		c.Stop()
		return c.Output(), -1, fmt.Errorf("%q: stopped: %w; it printed:\n%s", c.line, ctx.Err(), c.Output())
	}
}

// Stop ends the command and all it started, and waits until it is gone.
// Stopping a command that has ended does nothing.
func (c *Command) Stop() {
	if isClosed(c.done) {
		return
	}
	_ = c.client.send(agent.Request{ID: c.id, Kill: true}) // an error means the guest is gone
	select {
	case <-c.done:
	case <-c.client.gone:
	case <-time.After(stopFor):
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
