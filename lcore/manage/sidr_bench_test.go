// SPDX-License-Identifier: Apache-2.0

package manage_test

import (
	"context"
	"log/slog"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"causeway/ibside"
	"causeway/ibside/ib"
	"causeway/lcore/manage"
	"causeway/tables"
)

// BenchmarkServiceOfNode has a RoCE host ask, and wait for its answers a burst at a time. The port answers at once.
func BenchmarkServiceOfNode(b *testing.B) {
	cfg, cm, w := config(), &services{connect: answering}, &worker{}
	cfg.Services, cfg.RoCEPKey = cm, ib.PKeyDefault
	cfg.Ports, cfg.Allow = []ibside.PortRange{{First: 7174, Last: 7174}}, []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")}
	run(b, cfg, w)
	for n := 0; b.Loop(); n++ {
		w.give(manage.Punted{Data: ask(host4, node4, func(q *question) { q.fields.RequestID = uint32(n) }).frame()})
		if n%burst == burst-1 {
			for got := 0; got < burst; got += len(w.take()) {
				runtime.Gosched()
			}
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "handshakes/s")
}

// BenchmarkServiceOfHost has IB nodes ask, many at a time; a RoCE host answers at once.
func BenchmarkServiceOfHost(b *testing.B) {
	cfg, cm, w := config(), &services{}, &worker{}
	cfg.Services, cfg.RoCEPKey = cm, ib.PKeyDefault
	cfg.Ports, cfg.Allow = []ibside.PortRange{{First: 7174, Last: 7174}}, []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")}
	cfg.Hosts = []tables.Host{{IP: host4, MAC: hostMAC, Version: 2, Static: true}}
	run(b, cfg, w)
	s := &rig{t: &testing.T{}}
	done := make(chan bool, burst)
	for n := 0; b.Loop(); n++ {
		go cm.h(ibside.ServiceRequest{
			From: node4, To: host4, Port: 7174,
			Answer: func(ibside.ServiceAnswer) error { done <- true; return nil },
			Reject: func(uint8, []byte) error { done <- false; return nil },
		})
		if n%burst != burst-1 {
			continue
		}
		for asked := 0; asked < burst; {
			for _, d := range s.datagrams(w.take(), nil) {
				w.give(manage.Punted{Data: d.answer()})
				asked++
			}
			runtime.Gosched()
		}
		for range burst {
			if !<-done {
				b.Fatal("rejected")
			}
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "handshakes/s")
}

// run runs a loop until the benchmark ends.
func run(b *testing.B, cfg manage.Config, w *worker) {
	b.Helper()
	t, err := tables.New(tables.Config{MaxHosts: 16, MaxProxyQPs: 16, MaxNodes: 16, MaxGroups: 64, MaxReaders: 1})
	if err != nil {
		b.Fatal(err)
	}
	loop := manage.New(cfg, t, newPort(), []manage.Worker{w}, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- loop.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-result; err != nil {
			b.Error(err)
		}
		t.Close()
	})
	for !loop.Status().Ready {
		time.Sleep(time.Millisecond)
	}
}
