// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"causeway/app/logs"
	"causeway/config"
)

// TestEvents follows events as ctl does, over both kinds of sockets, as text and JSON, and with a pipe; and in a
// session until q.
func TestEvents(t *testing.T) {
	log, control := logs.New(config.Log{Level: "info", Format: "text"}, io.Discard)
	r := newRig(t, func(c *Config) { c.Env.Logs = control })
	log.Warn("link_down", "port", "eth1")
	log.Info("host_learned", "vlan", 9)
	for _, network := range []string{"unix", "tcp"} {
		for line, want := range map[string]string{
			"events count 2":                        " info  host_learned  vlan=9\n",
			"events last 2 count 2 | match ^.*link": " warn  link_down  port=eth1\n",
		} {
			var stdout bytes.Buffer
			code, err := Ask(context.Background(), r.dial(network).Conn, Question{Line: line}, &stdout, io.Discard)
			if err != nil || code != 0 || !strings.HasSuffix(stdout.String(), want) || strings.Contains(line, "match") && strings.Count(stdout.String(), "\n") != 1 {
				t.Errorf("%s: %s: %d %v %q", network, line, code, err, stdout.String())
			}
		}
		var stdout bytes.Buffer
		var got struct {
			Event struct {
				Name    string
				Details map[string]any
			}
		}
		_, err := Ask(context.Background(), r.dial(network).Conn, Question{Line: "events last 1 count 1", JSON: true}, &stdout, io.Discard)
		if err != nil || json.Unmarshal(stdout.Bytes(), &got) != nil || got.Event.Name != "host_learned" || got.Event.Details["vlan"] != 9.0 {
			t.Errorf("%s: %v %q", network, err, stdout.String())
		}
	}
	c := r.telnetClient(100, 40)
	c.send("events last 1\r\x00")
	c.await("info  host_learned  vlan=9") // from here on it follows
	log.Info("host_moved", "vlan", 8)
	c.await("info  host_moved  vlan=8")
	c.send("q")
	c.await("test> ")
}
