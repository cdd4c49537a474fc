// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"causeway/app/seats/seatstest"
	"causeway/config"
)

// TestNoDescriptors: a client waits while there is no file descriptor, and one line of the log says so.
func TestNoDescriptors(t *testing.T) {
	at := filepath.Join(t.TempDir(), "c.sock")
	ls, err := Listen([]config.Listen{{Network: "unix", Address: at}})
	if err != nil {
		t.Fatal(err)
	}
	ls[0] = &seatstest.Full{Listener: ls[0], Times: 5}
	var mu sync.Mutex
	var log bytes.Buffer
	written := writer(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(b)
	})
	ctx, stop := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		Serve(ctx, ls, Config{Name: "test", Token: token, Log: slog.New(slog.NewTextHandler(written, nil))})
	})
	r := &rig{t: t, unix: at}
	c := r.dial("unix")
	c.send("quit\n")
	if _, err := io.ReadAll(c); err != nil {
		t.Error(err)
	}
	stop()
	ended.Wait()
	if n := strings.Count(log.String(), "too many open files"); n != 1 {
		t.Errorf("%d lines say that there is no file descriptor:\n%s", n, log.String())
	}
}

type writer func(b []byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
