// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"causeway/app/slowtest"
)

// short is a timeout of a server that these tests wait out. On a slow machine a request takes longer, too.
var short = sync.OnceValue(func() time.Duration { return time.Duration(slowtest.Factor() * float64(50*time.Millisecond)) })

// listening serves a page's events, a period a millisecond.
func listening(t *testing.T) (p *page, url string) {
	t.Helper()
	p = newPage(newFake(), options())
	p.every = time.Millisecond
	s := httptest.NewUnstartedServer(http.HandlerFunc(p.events))
	s.Config.ReadTimeout, s.Config.WriteTimeout = short(), short() // as in Serve, but shorter
	s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if err := c.(*net.TCPConn).SetWriteBuffer(4096); err != nil { // so that it is soon full
			t.Error(err)
		}
		return ctx
	}
	s.Start()
	t.Cleanup(s.Close)
	return p, s.URL
}

// listen listens to events; the status is the answer's.
func listen(t *testing.T, url string) (next func() news, status int, stop func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	in := bufio.NewReader(answer.Body)
	return func() (n news) {
		t.Helper()
		line, err := in.ReadString('\n')
		blank, err2 := in.ReadString('\n')
		text, ok := strings.CutPrefix(line, "data: ")
		if err := errors.Join(err, err2); err != nil || !ok || blank != "\n" {
			t.Fatalf("%q, %v", line, err)
		}
		if err := json.Unmarshal([]byte(text), &n); err != nil {
			t.Fatal(err)
		}
		return n
	}, answer.StatusCode, stop
}

// TestEvents checks that the first event has all sections and later ones those that have changed, for longer than the
// server's timeouts.
func TestEvents(t *testing.T) {
	p, url := listening(t)
	next, status, _ := listen(t, url)
	first := next()
	if status != 200 || len(first.Sections) != len(p.sections()) || !strings.Contains(string(first.Sections["drawing"]), "<svg") || !strings.HasPrefix(first.Started, "2023-11-14T") {
		t.Errorf("%d %+v", status, first)
	}
	for until := time.Now().Add(6 * short()); time.Now().Before(until); {
		if n := next(); len(n.Sections) >= len(first.Sections) || n.Sections["events"] != "" {
			t.Fatalf("%d sections again", len(n.Sections))
		}
	}
}

// await waits until so many listen.
func await(t *testing.T, p *page, n int) {
	t.Helper()
	for until := time.Now().Add(patient); len(p.listeners) != n; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%d listen, want %d", len(p.listeners), n)
		}
	}
}

// TestListenersAreBounded checks that one more than may listen is told so, and has a place as soon as one goes.
func TestListenersAreBounded(t *testing.T) {
	p, url := listening(t)
	var last func()
	for range listenersMost {
		_, status, stop := listen(t, url)
		if last = stop; status != 200 {
			t.Fatal(status)
		}
	}
	if _, status, _ := listen(t, url); status != http.StatusServiceUnavailable {
		t.Errorf("one too many: %d", status)
	}
	last()
	await(t, p, listenersMost-1)
	if next, status, _ := listen(t, url); status != 200 || len(next().Sections) == 0 {
		t.Errorf("after one has gone: %d", status)
	}
}

// TestSlowReader checks that a listener that does not read is cut off, and that others are not.
func TestSlowReader(t *testing.T) {
	p, url := listening(t)
	p.patience = 2 * short()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	// It reads a byte and no more, so that it listens; whether it still does when somebody looks is not known.
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	next, _, _ := listen(t, url)
	for until := time.Now().Add(patient); len(p.listeners) != 1; next() {
		if time.Now().After(until) {
			t.Fatal("it is not cut off")
		}
	}
	next()
	if err := conn.SetReadDeadline(time.Now().Add(patient)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("its connection is still there")
	}
}
