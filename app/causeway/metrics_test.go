// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"causeway/app/bridge"
	"causeway/lcore/manage"
)

// TestNotReady has a bridge wait for a node that the subnet does not have: it is healthy and says what it waits for.
func TestNotReady(t *testing.T) {
	p := launch(t, "run", "-c", bridgeIn(t, `gid = "fe80::7"`, `gid = "fe80::9"`, "[metrics]", "[metrics]\npprof = true"))
	p.awaitLine(`"msg":"path_missing"`)
	at := "http://" + p.line("metrics")["listen"].(string)
	p.await("health", func() bool { return status(t, at+"/healthz") == http.StatusOK })
	p.await("that it has looked for other bridges", func() bool {
		return status(t, at+"/status.json") == http.StatusOK && strings.Contains(p.stderr.String(), "group_joined")
	})
	r, err := http.Get(at + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusServiceUnavailable || !strings.HasPrefix(string(text), "waiting for joins, paths and P_Keys: ") ||
		!strings.Contains(string(text), "node 10.9.0.7: no path to GID fe80::9\n") {
		t.Errorf("/readyz: %d, %v, %s", r.StatusCode, err, text)
	}
	if got := status(t, at+"/debug/pprof/goroutine?debug=1"); got != http.StatusOK {
		t.Errorf("a profile: %d", got)
	}
	p.end(syscall.SIGTERM)
}

// left is a bridge that an operator may have drained, alone or in its fleet.
type left struct{ alone, inFleet, barred bool }

func (l left) Status() manage.Status { return manage.Status{Drained: l.alone || l.barred} }

func (l left) Barred() string {
	if l.barred {
		return "another was there before"
	}
	return ""
}

func (l left) Part() (p bridge.Part, in bool) { return bridge.Part{Drained: l.inFleet}, l.inFleet }

// TestDrainedInFleet checks that alerts know both: nobody needs to be told of what an operator has done.
func TestDrainedInFleet(t *testing.T) {
	for _, l := range []left{{}, {alone: true}, {inFleet: true}, {barred: true}} {
		if isDrained(l) != (l.alone || l.inFleet) {
			t.Errorf("%+v: drained: %v", l, isDrained(l))
		}
	}
}
