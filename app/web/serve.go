// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"causeway/app/command"
	"causeway/app/logs"
	"causeway/app/seats"
	"causeway/config"
)

// Options is what a Source does not provide.
type Options struct {
	Name    string
	Version string // of the program
	DPDK    string
	Started time.Time
	Pprof   bool // serve CPU and memory profiles to every client

	Env      *command.Env             // what the page shows as the console does; nil: no tables, no rates
	Events   func(n int) []logs.Event // the last events, the oldest first; nil: none
	LogLost  func() uint64            // lines of the log that could not be written; nil: not counted
	Config   func() *config.Config    // the one in force; nil: limits are 0
	Draining func() bool              // nil: never

	Unaccepted func(error) // is told why clients wait, once for as long as they do; nil: nobody is
}

func (o *Options) unaccepted(err error) {
	if o.Unaccepted != nil {
		o.Unaccepted(err)
	}
}

func (o *Options) draining() bool { return o.Draining != nil && o.Draining() }

func (o *Options) config() *config.Config {
	if o.Config == nil {
		return &config.Config{}
	}
	return o.Config()
}

// Serve answers on l until ctx ends.
func Serve(ctx context.Context, l net.Listener, src Source, o Options) error {
	s := httpServer(handler(src, o))
	stop := context.AfterFunc(ctx, func() { _ = s.Close() }) // the connections end anyway
	defer stop()
	waiting := seats.NewWaiting(l, o.unaccepted)
	if err := s.Serve(&bounded{waiting, seats.New(connectionsMost, true)}); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("web: %w", err)
	}
	return nil
}

func handler(src Source, o Options) http.Handler {
	mux := http.NewServeMux()
	p := newPage(src, o)
	mux.HandleFunc("GET /{$}", p.serve)
	mux.HandleFunc("GET /events", p.events)
	for _, name := range []string{"page.css", "page.js", "icon.svg"} {
		mux.HandleFunc("GET /"+name, p.file(name))
	}
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		writeMetrics(w, src, o)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { answer(w, health(r.Context(), src.Workers)) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { answer(w, readiness(r.Context(), src, o)) })
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "there is no such page; there are / (the page), /status.json (the same as JSON), /metrics, /healthz and /readyz", http.StatusNotFound)
	})
	mux.HandleFunc("GET /status.json", func(w http.ResponseWriter, r *http.Request) { writeStatus(w, readStatus(r.Context(), src, o)) })
	if o.Pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// answer writes 200 and "ok", or 503 and the reasons.
func answer(w http.ResponseWriter, wrong []string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if len(wrong) == 0 {
		fmt.Fprintln(w, "ok")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	for _, line := range wrong {
		fmt.Fprintln(w, line)
	}
}
