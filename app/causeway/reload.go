// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"causeway/app/bridge"
	"causeway/app/systemd"
	"causeway/config"
)

// A configFile is where a bridge's configuration comes from, and the signals that say to read it again.
type configFile struct {
	file    string
	hangups <-chan os.Signal
	reading chan struct{} // has room while nobody reads the file
}

// loadWithin is how long a bridge that runs waits for its file.
const loadWithin = time.Second

// load reads the file, in a goroutine that is left behind when the file does not end: a pipe, or a file system that does not answer,
// keep the bridge neither from its next reload nor from its end.
func (f configFile) load(ctx context.Context) (*config.Config, error) {
	select {
	case f.reading <- struct{}{}:
	default:
		return nil, fmt.Errorf("config: %s: it is still being read, since an earlier reload; is it a pipe, or on a file system that does not answer?", f.file)
	}
	type loaded struct {
		cfg *config.Config
		err error
	}
	done := make(chan loaded, 1)
	go func() {
		cfg, err := config.Load(f.file)
		done <- loaded{cfg, err}
		<-f.reading
	}()
	select {
	case x := <-done:
		return x.cfg, x.err
	case <-time.After(loadWithin):
		return nil, fmt.Errorf("config: %s: given up after %v of reading; is it a pipe, or on a file system that does not answer?", f.file, loadWithin)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// reloadOnHangup reloads the file into the bridge at each signal, until end is called.
func (f configFile) reloadOnHangup(ctx context.Context, b *bridge.Bridge, service *systemd.Service, log *slog.Logger) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	f.reading = make(chan struct{}, 1)
	go func() {
		defer close(ended)
		for {
			select {
			case <-f.hangups:
				done := service.Reloading()
				f.reload(ctx, b, log)
				done()
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { stop(); <-ended }
}

// reload reloads the file and logs the result.
func (f configFile) reload(ctx context.Context, b *bridge.Bridge, log *slog.Logger) {
	to, err := f.load(ctx)
	var changes config.Changes
	if err == nil {
		changes, err = b.Reload(ctx, to)
	}
	if err == nil {
		log.Info("reloaded", "file", f.file, "changes", len(changes))
		return
	}
	for _, line := range bridge.ReloadReasons(err) {
		log.Error("reload_rejected", "file", f.file, "error", line)
	}
}
