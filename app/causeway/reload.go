// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"

	"causeway/app/house"
	"causeway/app/systemd"
	"causeway/config"
)

// A configFile is where a bridge's configuration comes from, and the signals that say to read it again.
type configFile struct {
	file    string
	hangups <-chan os.Signal
}

// follow reads the file again at each signal until what it returns is called, and has the bridge follow it.
func (f configFile) follow(ctx context.Context, h *house.House, service *systemd.Service, log *slog.Logger) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-f.hangups:
				done := service.Reloading()
				f.reload(ctx, h, log)
				done()
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { stop(); <-ended }
}

// reload reads the file, and says what has changed, or why nothing has.
func (f configFile) reload(ctx context.Context, h *house.House, log *slog.Logger) {
	to, err := config.Load(f.file)
	var changes config.Changes
	if err == nil {
		changes, err = h.Reload(ctx, to)
	}
	if err == nil {
		log.Info("reloaded", "file", f.file, "changes", len(changes))
		return
	}
	for _, line := range reasons(err) {
		log.Error("reload_refused", "file", f.file, "error", line)
	}
}

// reasons are the lines of an error that has several.
func reasons(err error) (lines []string) {
	var never house.NeedsRestart
	if errors.As(err, &never) {
		for _, c := range never {
			lines = append(lines, c.Where+" "+c.Detail+": needs a restart")
		}
		return lines
	}
	return strings.Split(err.Error(), "\n")
}
