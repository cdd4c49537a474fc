// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"causeway/app/bridge"
	"causeway/app/command"
	"causeway/app/console"
	"causeway/config"
)

// The console imports the bridge, so that the bridge's tests get it from without.
func init() { bridge.ServeConsole, bridge.AskConsole = serveConsole, askConsole }

// serveConsole serves a bridge's console at a socket until end is called.
func serveConsole(b *bridge.Bridge, socket string) (end func(), err error) {
	at, err := console.Listen([]config.Listen{{Network: "unix", Address: socket}})
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	env := &command.Env{Bridge: b, Log: log, Began: time.Now(), Version: "tested", Sampler: command.NewSampler(b)}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go env.Sampler.Run(ctx)
	go func() {
		defer close(ended)
		console.Serve(ctx, at, console.Config{Env: env, Name: "tested", Log: log})
	}()
	return func() { stop(); <-ended }, nil
}

// askConsole has a command done, as causeway ctl does.
func askConsole(socket, line string) error {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	defer c.Close()
	var out bytes.Buffer
	if code, err := console.Ask(context.Background(), c, console.Question{Line: line}, &out, &out); err != nil || code != 0 {
		return fmt.Errorf("%s: %d, %w\n%s", line, code, err, &out)
	}
	return nil
}
