// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A reader reads a log from a named pipe.
type reader struct {
	t     *testing.T
	file  *os.File
	lines chan string
}

// read opens the pipe.
func read(t *testing.T, pipe string) *reader {
	t.Helper()
	f, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{t, f, make(chan string, 1000)}
	t.Cleanup(func() { f.Close() })
	return r
}

// follow takes the lines until the pipe is closed.
func (r *reader) follow() {
	go func() {
		for lines := bufio.NewScanner(r.file); lines.Scan(); {
			r.lines <- lines.Text()
		}
	}()
}

// await waits for a line.
func (r *reader) await(part string) {
	r.t.Helper()
	for late := time.After(within); ; {
		select {
		case line := <-r.lines:
			if strings.Contains(line, part) {
				return
			}
		case <-late:
			r.t.Fatalf("no line with %s", part)
		}
	}
}

// TestLogReaderGone ends the reader of a bridge's log: the bridge goes on, and counts what it cannot write. Another
// reader is told.
func TestLogReaderGone(t *testing.T) {
	file, socket := consoleIn(t)
	pipe := filepath.Join(filepath.Dir(socket), "log")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	first := read(t, pipe)
	out, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := startWith(t, exec.Command(os.Args[0], "run", "-c", file), out)
	out.Close()
	first.follow()
	first.await(`"msg":"ready"`)
	first.file.Close()

	said := func(what string) func() bool {
		return func() bool {
			_, stdout, _ := try("ctl", "-s", socket, "show", "log")
			return strings.Contains(stdout, what)
		}
	}
	hangup := func() {
		t.Helper()
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	hangup()
	p.await("a line that nobody reads", said("1 line could not be written to standard error."))
	hangup()
	p.await("another", said("2 lines could not be written to standard error."))

	second := read(t, pipe)
	second.follow()
	hangup()
	second.await(`"msg":"reloaded"`)
	second.await(`"msg":"log_lost","lines":2`)
	p.end(syscall.SIGTERM)
}

// TestLogReaderStuck has a reader of a bridge's log that does not read, before the bridge's first line: the bridge gets
// ready, and its console answers. When the reader reads at last, it gets all lines, to the last.
func TestLogReaderStuck(t *testing.T) {
	file, socket := consoleIn(t)
	pipe := filepath.Join(filepath.Dir(socket), "log")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	log := read(t, pipe)
	out, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fillPipe(t, pipe)
	p := startWith(t, exec.Command(os.Args[0], "run", "-c", file), out)
	out.Close()
	p.await("readiness", func() bool {
		_, stdout, _ := try("ctl", "-s", socket, "show", "log")
		return strings.Contains(stdout, `"msg":"ready"`)
	})
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	log.follow()
	log.await(`"msg":"ready"`)
	log.await(`"msg":"port_losses","direction":"ib_to_roce"`)
	if code := p.wait(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// fillPipe fills a named pipe.
func fillPipe(t *testing.T, pipe string) {
	t.Helper()
	fd, err := syscall.Open(pipe, syscall.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	line := []byte(strings.Repeat("x", 1023) + "\n")
	for {
		if _, err := syscall.Write(fd, line); err == syscall.EAGAIN {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for err == nil { // what is left is less than a line
		_, err = syscall.Write(fd, []byte("\n"))
	}
	if err != syscall.EAGAIN {
		t.Fatal(err)
	}
}
