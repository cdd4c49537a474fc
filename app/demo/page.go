// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"causeway/app/bridge"
	"causeway/app/command"
	"causeway/app/logs"
	"causeway/app/web"
	"causeway/config"
	"causeway/dpdk"
)

// pageAt is where documents have [metrics] listen. When it is taken, another port does.
const pageAt = "127.0.0.1:9432"

// newLog returns a log that warns on o.Err, and keeps events for the page.
func newLog(o Options) (*slog.Logger, *logs.Control) {
	events, control := logs.New(config.Log{Level: "info"}, io.Discard)
	warnings := slog.NewTextHandler(logTo(o), &slog.HandlerOptions{Level: slog.LevelWarn})
	return slog.New(slog.NewMultiHandler(warnings, events.Handler())), control
}

// servePage serves the bridge's page, metrics and status until end is called.
func servePage(b *bridge.Bridge, o Options, control *logs.Control) (url string, end func() error, err error) {
	l, err := net.Listen("tcp", pageAt)
	if err != nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return "", nil, fmt.Errorf("demo: listen for the page: %w", err)
	}
	began, sampler := time.Now(), command.NewSampler(b)
	options := web.Options{
		Name: b.Config().Name, Version: o.Version, DPDK: dpdk.Version(), Started: began, Config: b.Config, Events: control.Events,
		Env: &command.Env{Bridge: b, Began: began, Sampler: sampler},
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go sampler.Run(ctx)
	go func() { served <- web.Serve(ctx, l, b, options) }()
	return fmt.Sprintf("http://%v/", l.Addr()), func() error {
		stop()
		return <-served
	}, nil
}
