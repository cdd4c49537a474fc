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

	"causeway/config"
)

// Options is what a bridge cannot tell of itself.
type Options struct {
	Name    string
	Version string // of the program
	DPDK    string
	Started time.Time
	Pprof   bool // profiles are to be had: of memory and CPU, for whoever can connect

	Config   func() *config.Config // the one in force; nil: limits are told as 0
	Draining func() bool           // the bridge ends; nil: never
}

func (o *Options) draining() bool { return o.Draining != nil && o.Draining() }

func (o *Options) config() *config.Config {
	if o.Config == nil {
		return &config.Config{}
	}
	return o.Config()
}

// Serve answers on l until ctx ends.
func Serve(ctx context.Context, l net.Listener, b Bridge, o Options) error {
	// A client that reads or writes slowly holds nothing but its own connection, and not for long.
	s := &http.Server{Handler: handler(b, o), ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() }) // an error of Close is of a connection that ends anyway
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("web: %w", err)
	}
	return nil
}

func handler(b Bridge, o Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { writeIndex(w, b, o) })
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		WriteMetrics(w, b, o)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { answer(w, health(r.Context(), b)) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { answer(w, readiness(r.Context(), b, o)) })
	mux.HandleFunc("GET /status.json", func(w http.ResponseWriter, r *http.Request) { writeStatus(w, ReadStatus(r.Context(), b, o)) })
	if o.Pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// answer writes 200 and "ok", or 503 and the lines that say why not.
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
