// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"causeway/app/seats/seatstest"
	"causeway/app/slowtest"
)

// serving starts a server, and returns how to connect to it from an address of this machine.
func serving(t *testing.T) (dial func(from string) net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, newFake(), options()) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return func(from string) net.Conn {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := d.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		return conn
	}
}

const get = "GET /readyz HTTP/1.1\r\nHost: x\r\n"

// ask sends text and returns the first bytes of the answer.
func ask(t *testing.T, conn net.Conn, text string) string {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4096)
	n, err := conn.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

// TestConnections opens more connections than there may be, and is silent in all of them: the oldest are closed, and
// others are served, old and new.
func TestConnections(t *testing.T) {
	dial := serving(t)
	bystander := dial("127.0.0.2")
	ask(t, bystander, get+"\r\n")
	var crowd []net.Conn
	for range 2 * connectionsMost {
		crowd = append(crowd, dial("127.0.0.1"))
	}
	for i, c := range crowd[:connectionsMost] {
		begun := time.Now()
		_, err := c.Read(make([]byte, 1)) // for a minute at most
		took := time.Since(begun)
		if errors.Is(err, os.ErrDeadlineExceeded) || slowtest.Late(took, 2*time.Second) { // less than the header may take
			t.Fatalf("connection %d of %d was still there for %v", i, len(crowd), took)
		}
	}
	for i, c := range []net.Conn{bystander, dial("127.0.0.3"), dial("127.0.0.1")} {
		if text := ask(t, c, get+"\r\n"); !strings.Contains(text, "200 OK") {
			t.Errorf("client %d: %q", i, text)
		}
	}
}

// TestClosedConnections checks that connections that are closed take no place: the oldest client stays, however many of
// its peer come and go.
func TestClosedConnections(t *testing.T) {
	dial := serving(t)
	oldest := dial("127.0.0.1")
	ask(t, oldest, get+"\r\n")
	for range 2 * connectionsMost {
		c := dial("127.0.0.1")
		if text := ask(t, c, get+"Connection: close\r\n\r\n"); !strings.Contains(text, "200 OK") {
			t.Fatalf("%q", text)
		}
		if _, err := io.Copy(io.Discard, c); err != nil { // until the server has closed it
			t.Fatal(err)
		}
	}
	if text := ask(t, oldest, get+"\r\n"); !strings.Contains(text, "200 OK") {
		t.Errorf("%q", text)
	}
}

// TestRequestsAreBounded sends a header that is too large, and bodies.
func TestRequestsAreBounded(t *testing.T) {
	dial := serving(t)
	if text := ask(t, dial("127.0.0.1"), get+"X: "+strings.Repeat("x", 2*headerMost+4096)+"\r\n\r\n"); !strings.Contains(text, "431 ") {
		t.Errorf("a long header: %q", text)
	}
	for _, body := range []string{"Content-Length: 1000000000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"} {
		if text := ask(t, dial("127.0.0.1"), get+body); !strings.Contains(text, " 413 ") || !strings.Contains(text, "Connection: close") {
			t.Errorf("a body: %q", text)
		}
	}
}

// TestTimeouts checks that a client that is slow, or silent, does not keep its connection.
func TestTimeouts(t *testing.T) {
	s := httpServer(http.NotFoundHandler())
	for name, d := range map[string]time.Duration{"header": s.ReadHeaderTimeout, "request": s.ReadTimeout, "answer": s.WriteTimeout, "idle": s.IdleTimeout} {
		if d <= 0 || d > 5*time.Minute {
			t.Errorf("%s: %v", name, d)
		}
	}
}

// TestNoDescriptors: a client waits while there is no file descriptor, which is said once.
func TestNoDescriptors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o, said := options(), make(chan error, 10)
	o.Unaccepted = func(err error) { said <- err }
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, &seatstest.Full{Listener: l, Times: 5}, newFake(), o) }()
	answer, err := http.Get("http://" + l.Addr().String() + "/metrics")
	if err != nil {
		t.Error(err)
	} else {
		_ = answer.Body.Close()
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := len(said); n != 1 {
		t.Fatalf("it was said %d times", n)
	}
	if err := <-said; !errors.Is(err, syscall.EMFILE) {
		t.Errorf("it was said: %v", err)
	}
}
