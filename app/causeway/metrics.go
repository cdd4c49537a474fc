// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"net"
	"time"

	"causeway/app/bridge"
	words "causeway/app/command"
	"causeway/app/condition"
	"causeway/app/console"
	"causeway/app/logs"
	"causeway/app/web"
	"causeway/config"
	"causeway/dpdk"
	"causeway/lcore/manage"
)

// listenMetrics listens on [metrics] listen, before the bridge is built, because it can fail at once. nil: not
// configured.
func listenMetrics(at config.Listen) (net.Listener, error) {
	if at.Network == "" {
		return nil, nil
	}
	l, err := net.Listen(at.Network, at.Address)
	if err != nil {
		return nil, console.ListenError("metrics", at, err)
	}
	return l, nil
}

// isDrained reports whether an operator has drained a bridge, alone or in its fleet.
func isDrained(b interface {
	Status() manage.Status
	Part() (bridge.Part, bool)
}) bool {
	p, _ := b.Part()
	return p.Drained || condition.Drained(b)
}

// serveMetrics serves metrics, health and status until end is called, which is after the bridge has stopped. The bridge
// is draining from the end of ctx on, and while an operator has drained it.
func serveMetrics(ctx context.Context, l net.Listener, b *bridge.Bridge, sampler *words.Sampler, log *slog.Logger, control *logs.Control) (end func()) {
	log.Info("metrics", "listen", l.Addr().String())
	cfg := b.Config()
	began := time.Now()
	o := web.Options{
		Name: cfg.Name, Version: ownVersion(), DPDK: dpdk.Version(), Started: began, Pprof: cfg.Metrics.Pprof,
		Env:    &words.Env{Bridge: b, Began: began, Sampler: sampler},
		Events: control.Events, LogLost: control.Unwritten, Config: b.Config,
		Draining:   func() bool { return ctx.Err() != nil || isDrained(b) },
		Unaccepted: func(err error) { log.Warn("metrics", "listen", l.Addr().String(), "error", err) },
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := web.Serve(serving, l, b, o); err != nil {
			log.Error("metrics", "error", err)
		}
	}()
	return func() { stop(); <-ended }
}
