// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"causeway/app/house"
	"causeway/app/web"
	"causeway/config"
	"causeway/dpdk"
)

// listenMetrics listens where metrics are to be had. It comes before all else because it fails at once. nil: nowhere.
func listenMetrics(at config.Listen) (net.Listener, error) {
	if at.Network == "" {
		return nil, nil
	}
	l, err := net.Listen(at.Network, at.Address)
	if err != nil {
		return nil, fmt.Errorf("causeway: [metrics] listen %q: %w; use a free one, or end who has it", at.Address, err)
	}
	return l, nil
}

// serveMetrics serves metrics, health and status until what it returns is called. They are to be had while the bridge stops, too;
// it is draining from the end of ctx on, and while it leaves everything to another bridge.
func serveMetrics(ctx context.Context, l net.Listener, h *house.House, log *slog.Logger) (end func()) {
	log.Info("metrics", "listen", l.Addr().String())
	cfg := h.Config()
	o := web.Options{
		Name: cfg.Name, Version: ownVersion(), DPDK: dpdk.Version(), Started: time.Now(), Pprof: cfg.Metrics.Pprof,
		Config:   h.Config,
		Draining: func() bool { return ctx.Err() != nil || h.Status().Drained },
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := web.Serve(serving, l, h, o); err != nil {
			log.Error("metrics", "error", err)
		}
	}()
	return func() { stop(); <-ended }
}
