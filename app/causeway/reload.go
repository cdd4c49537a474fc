// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"os"

	"causeway/app/bridge"
	"causeway/app/systemd"
	"causeway/config"
)

// A configFile is where a bridge's configuration comes from, and the signals that say to read it again.
type configFile struct {
	file    string
	hangups <-chan os.Signal
}

// reloadOnHangup reloads the file into the bridge at each signal, until end is called.
func (f configFile) reloadOnHangup(ctx context.Context, b *bridge.Bridge, service *systemd.Service, log *slog.Logger) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
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
	to, err := config.Load(f.file)
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
