// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"causeway/app/bridge"
	"causeway/app/bridge/link"
)

// TestAnswers checks the answer at each address, for bridges in every state.
func TestAnswers(t *testing.T) {
	ready, waiting, still, closed := newFake(), newFake(), newFake(), newFake()
	waiting.ready, still.still, closed.closed = false, true, true
	plain, draining, profiled := options(), options(), options()
	draining.Draining = func() bool { return true }
	profiled.Pprof = true
	for _, c := range []struct {
		name   string
		method string
		path   string
		b      Source
		o      Options
		status int
		want   string
	}{
		{"metrics", "GET", "/metrics", ready, plain, 200, "\ncauseway_ready 1\n"},
		{"metrics, waiting", "GET", "/metrics", waiting, plain, 200, "\ncauseway_ready 0\n"},
		{"metrics, draining", "GET", "/metrics", ready, draining, 200, "\ncauseway_draining 1\n"},
		{"a method", "POST", "/metrics", ready, plain, 405, ""},
		{"healthy", "GET", "/healthz", waiting, plain, 200, "ok\n"},
		{"a worker makes no progress", "GET", "/healthz", still, plain, 503, "1 of 2 workers made no progress for 100ms: stopped, blocked, or without CPU time on their cores\n"},
		{"down", "GET", "/healthz", closed, plain, 503, "the bridge has no workers: it is stopping\n"},
		{"ready", "GET", "/readyz", ready, plain, 200, "ok\n"},
		{"not ready", "GET", "/readyz", waiting, plain, 503,
			"waiting for joins, paths and P_Keys: 1\ngroup 239.1.2.4, MGID ::: joining\nnode 10.9.0.7, fd09::7: no path to GID ::\n"},
		{"draining", "GET", "/readyz", ready, draining, 503, "draining: the bridge is stopping, or has left its groups to another\n"},
		{"index", "GET", "/", ready, plain, 200, `<a href="status.json">`},
		{"index, escaped", "GET", "/", ready, plain, 200, `a &#34;b&#34; \ c`},
		{"index, waiting", "GET", "/", waiting, plain, 200, "not ready"},
		{"index, draining", "GET", "/", ready, draining, 200, "draining"},
		{"nothing else", "GET", "/favicon.ico", ready, plain, 404, ""},
		{"no profiles", "GET", "/debug/pprof/", ready, plain, 404, ""},
		{"no profile", "GET", "/debug/pprof/heap", ready, plain, 404, ""},
		{"profiles", "GET", "/debug/pprof/", ready, profiled, 200, "goroutine"},
		{"a profile", "GET", "/debug/pprof/goroutine?debug=1", ready, profiled, 200, "goroutine profile"},
		{"index, profiles", "GET", "/", ready, profiled, 200, "/debug/pprof/"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			handler(c.b, c.o).ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if short := strings.HasSuffix(c.path, "z"); short && w.Body.String() != c.want {
				t.Errorf("want all of %q, got %q", c.want, w.Body)
			}
		})
	}
	if s := httptest.NewRecorder(); true {
		handler(ready, plain).ServeHTTP(s, httptest.NewRequest("GET", "/", nil))
		if strings.Contains(s.Body.String(), "pprof") {
			t.Error("the index links profiles that are not served")
		}
	}
}

// TestStatus reads the status back and compares some of it with what the bridge counts.
func TestStatus(t *testing.T) {
	b := newFake()
	b.ready = false
	w := httptest.NewRecorder()
	handler(b, options()).ServeHTTP(w, httptest.NewRequest("GET", "/status.json", nil))
	d := json.NewDecoder(w.Body)
	d.DisallowUnknownFields()
	var s Status
	if err := d.Decode(&s); err != nil {
		t.Fatal(err)
	}
	if l := s.Latency["roce_to_ib"]; l.Count != 7 || l.Median < 3e-6 || l.Median > 3.1e-6 || l.P999 < 1 || l.Max < 1 || len(s.Latency) != 2 {
		t.Errorf("latency %+v", s.Latency)
	}
	x := s.Directions["roce_to_ib"]
	if s.Version != "v1.2.3" || s.Started != "2023-11-14T22:13:20Z" || s.UptimeSeconds <= 0 || s.Ready || len(s.Awaited) != 2 ||
		s.Counts.Hosts != 2 || s.Counts.Pending != 143 || s.Limits.ProxyQPs != 93 {
		t.Errorf("%+v", s)
	}
	if x.Received != 10 || x.Sent != 7 || x.Dropped != 3 || len(x.Drops) != 1 || x.Drops["proxy_qp_full"] != 3 {
		t.Errorf("%+v", x)
	}
	if len(s.Workers) != 2 || s.Workers[0].Busy != 5 || s.Workers[0].Directions["roce_to_ib"].Received != 10 || !s.Port.LinkUp ||
		s.Port.RxMissed == nil || *s.Port.RxMissed != 33 || len(s.Groups) != 3 || s.Groups[0].Packets["ib_to_roce"] != 42 || s.Groups[1].Segments != "VLAN 100" || s.Lost["ib_to_roce"]["no_qp"] != 52 ||
		len(s.LostByDevice) != 1 || s.LostByDevice["out_of_buffer"] != 42 {
		t.Errorf("%+v", s)
	}
}

// TestStatusShape checks that empty lists and objects are written as such, so that programs need not handle null.
func TestStatusShape(t *testing.T) {
	b := newFake()
	b.closed = true
	w := httptest.NewRecorder()
	handler(b, Options{}).ServeHTTP(w, httptest.NewRequest("GET", "/status.json", nil))
	if strings.Contains(w.Body.String(), "null") {
		t.Errorf("null in\n%s", w.Body)
	}
}

// TestLinkDown checks that every answer has a link that is down, and why.
func TestLinkDown(t *testing.T) {
	b := newFake()
	b.link = link.State{Interface: "eth1", Reason: link.Admin}
	const why = "the Ethernet port has no link: the interface eth1 is down; ip link set eth1 up"
	for path, want := range map[string]string{
		"/readyz":      why + "\n",
		"/metrics":     "\ncauseway_port_link_up 0\n",
		"/":            "<li>" + why + "</li>",
		"/status.json": `"link_down": "admin"`,
	} {
		w := httptest.NewRecorder()
		handler(b, options()).ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		body := w.Body.String()
		if !strings.Contains(body, want) || (w.Code == 200) != (path != "/readyz") {
			t.Errorf("%s: %d, no %q in\n%s", path, w.Code, want, body)
		}
		if path == "/metrics" && !strings.Contains(body, "\ncauseway_ready 0\n") {
			t.Error("causeway_ready is 1, and /readyz answers 503")
		}
		if path == "/status.json" && (!strings.Contains(body, `"ready": false`) || !strings.Contains(body, why)) {
			t.Errorf("not unready for that reason\n%s", body)
		}
	}
}

// TestInfiniBandDown checks the same of the InfiniBand port; and that a limit that is reached is named, and does not
// make the bridge unready.
func TestInfiniBandDown(t *testing.T) {
	b := newFake()
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		handler(b, options()).ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Code, w.Body.String()
	}
	b.limits = []bridge.Limit{{Name: "alias_guids", Note: "alias GUIDs: none"}}
	if code, body := get("/readyz"); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	if _, body := get("/status.json"); !strings.Contains(body, "full in the last minute: alias GUIDs: none") {
		t.Error(body)
	}
	if _, body := get("/metrics"); !strings.Contains(body, "\ncauseway_limit_reached{limit=\"alias_guids\"} 1\n") {
		t.Error(body)
	}
	b.ibDown = "the port mlx5_0:1 is DOWN"
	const why = "the InfiniBand port has no link: the port mlx5_0:1 is DOWN"
	if code, body := get("/readyz"); code != 503 || body != why+"\n" {
		t.Errorf("%d %s", code, body)
	}
	if _, body := get("/status.json"); !strings.Contains(body, why) {
		t.Error(body)
	}
	if _, body := get("/metrics"); !strings.Contains(body, "\ncauseway_ib_port_active 0\n") || !strings.Contains(body, "\ncauseway_ready 0\n") {
		t.Error(body)
	}
}

// TestMissedUnknown checks that what nobody counts is not zero.
func TestMissedUnknown(t *testing.T) {
	b := newFake()
	b.memif = true
	get := func(path string) string {
		w := httptest.NewRecorder()
		handler(b, options()).ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Body.String()
	}
	if s := get("/status.json"); !strings.Contains(s, `"rx_missed": null`) {
		t.Errorf("no null in\n%s", s)
	}
	if s := get("/metrics"); strings.Contains(s, "\ncauseway_port_rx_missed_total ") || !strings.Contains(s, "\ncauseway_port_rx_errors_total 0\n") {
		t.Errorf("missed in\n%s", s)
	}
}

func TestServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, newFake(), options()) }()
	r, err := http.Get("http://" + l.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil || r.StatusCode != 200 || !strings.Contains(string(text), "\ncauseway_ready 1\n") ||
		r.Header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("%d, %v, %v", r.StatusCode, r.Header, err)
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
}
