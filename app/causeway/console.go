// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"net"
	"time"

	"causeway/app/bridge"
	words "causeway/app/command"
	"causeway/app/console"
	"causeway/app/logs"
	"causeway/config"
)

// A consoleServer serves the console of a bridge.
type consoleServer struct {
	listeners []net.Listener
	cfg       *config.Config
	file      string // the configuration file
	log       *slog.Logger
	control   *logs.Control
	stop      context.CancelFunc // ends the bridge
	sampler   *words.Sampler
}

// serve serves the console until end is called, which is after the bridge has stopped.
func (c *consoleServer) serve(ctx context.Context, b *bridge.Bridge) (end func()) {
	if len(c.listeners) == 0 {
		return func() {}
	}
	for _, l := range c.listeners {
		c.log.Info("console", "listen", l.Addr().String())
	}
	env := &words.Env{
		Bridge: b, Log: c.log, Logs: c.control, Began: time.Now(), Version: ownVersion(), Config: c.cfg,
		Load: func() (*config.Config, error) { return config.Load(c.file) }, Stop: c.stop, Sampler: c.sampler,
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		console.Serve(ctx, c.listeners, console.Config{Env: env, Name: c.cfg.Name, Token: c.cfg.Console.Token, Log: c.log})
	}()
	return func() { stop(); <-ended }
}
