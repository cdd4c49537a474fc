// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"context"
	"io"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"causeway/app/command"
	"causeway/app/command/commandtest"
	kept "causeway/app/logs"
	"causeway/config"
	"causeway/dpdk"
	"causeway/lcore"
	"causeway/lcore/manage"
)

// many is a bridge that has something to tell in each command.
type many struct{ *commandtest.Fake }

func (many) LostByDevice() map[string]uint64 { return map[string]uint64{"symbol_error": 4} }

func (many) Ethernet() (dpdk.Stats, bool) {
	return dpdk.Stats{RxMissed: 3, RxErrors: 2, RxMissedUnknown: true}, false
}

func (m many) Workers() []lcore.Counters { return []lcore.Counters{m.Counters(), m.Counters()} }

func (m many) Latency() [][2]lcore.Latency { return append(m.Fake.Latency(), m.Fake.Latency()...) }

func (many) Rules() (all []dpdk.Rule) {
	for m := dpdk.MatchRoCEv2IPv4; m <= dpdk.MatchUDP; m++ {
		all = append(all, dpdk.Rule{Match: m, Queues: []uint16{0, 1}, RSS: true, VLAN: 9})
	}
	return all
}

func (many) ListNodes(ctx context.Context, q manage.Query) (manage.List[manage.NodeEntry], error) {
	return placed{}.ListNodes(ctx, q)
}

// manyFile has entries of each kind, with all keys.
const manyFile = `[bridge]
name = "many"
[roce]
port = "ring"
addresses = ["10.9.0.254/16"]
mtu = 4200
[ib]
port = "fabric:"
[workers]
lcores = [2, 3]
proxy_qp_idle = 99
[[group]]
ip = "239.1.2.3"
rate = "5k pps"
pgm = true
[[range]]
ip = "239.3.0.0/16"
[[host]]
ip = "10.9.0.7"
side = "ib"
gid = "fe80::7"
lid = 8
[[service]]
ports = "7000-7100"
[[service]]
port = 7175
[policy]
allow = ["10.9.0.0/16"]
[console]
token = "a-secret-of-some-length"
`

// A texts keeps what a command shows as JSON.
type texts struct {
	sheet
	json []byte
}

func (x *texts) Show(r command.Result) error {
	b, err := r.JSON(true)
	x.json = append(x.json, b...)
	return err
}

func (x *texts) Draw(r command.Result) error { return x.Show(r) }

// TestJSON checks that no command's JSON has prose where a number, a boolean or a list is meant.
func TestJSON(t *testing.T) {
	cfg, err := config.Parse("many.toml", []byte(manyFile))
	if err != nil {
		t.Fatal(err)
	}
	log, control := kept.New(config.Log{Level: "info", Format: "text"}, io.Discard)
	log.Info("link_down", "lost", 5, "address", netip.MustParseAddr("10.9.0.1"), slog.Group("of", "up", false))
	fresh := func() *command.Env {
		e, b := env(3)
		b.Cfg = cfg
		e.Bridge, e.Logs = many{b}, control
		return e
	}
	lines := []string{"top count 1 every 200ms", "capture count 2", "capture to " + filepath.Join(t.TempDir(), "a.pcapng") + " count 2", "events count 1"}
	for _, c := range command.Standard.Commands {
		if c.Run != nil {
			lines = append(lines, c.Example)
			if _, err := command.Standard.Parse(c.Path); err == nil {
				lines = append(lines, c.Path)
			}
		}
	}
	for _, line := range lines {
		e := fresh()
		for _, before := range []string{"set injection roce_to_ib drop 1%", "add group 239.1.2.9 confirm 60", "reload"} {
			run(t, e, before)
		}
		v, err := command.Standard.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		var out texts
		if call := v.Call(e, command.Admin, "test"); v.Command.Stream != nil {
			err = v.Command.Stream(t.Context(), call, &out)
		} else {
			r, _ := v.Command.Run(t.Context(), call) // an example may fail here
			err = out.Show(r)
		}
		found, wrong := commandtest.Prose(out.json)
		if err != nil || wrong != nil || len(found) > 0 {
			t.Errorf("%s: %q, %v, %v", line, found, err, wrong)
		}
	}
}

// TestJSONValues checks values that are words as text.
func TestJSONValues(t *testing.T) {
	cfg, err := config.Parse("many.toml", []byte(manyFile))
	if err != nil {
		t.Fatal(err)
	}
	e, b := env(3)
	b.Cfg = cfg
	e.Bridge = many{b}
	run(t, e, "set injection ib drop 1%")
	for line, want := range map[string][]string{
		"show status":   {`"state":"ready"`, `"injecting_faults":1`, `"device_losses":{"ethernet":{"missed":3,"receive_errors":2},"rdma":{"symbol_error":4}}`},
		"show flows":    {`"queues":[0,1],"spread":true,"vlan":9`, `"frames":"UDP of a group"`},
		"show services": {`{"ports":{"first":7000,"last":7100},"segment":null}`, `{"ports":{"first":7175,"last":7175},"segment":null}`},
		"show latency":  {`"worker":null`, `"worker":1`},
		"show nodes":    {`"rate":10000000000`},
		"show config": {`"key":"mtu","value":4200`, `"key":"lcores","value":[2,3]`, `"rate":5000`, `"pgm":true`, `"value":{"side":"ib","gid":"fe80::7","lid":8,`,
			`"key":"token","value":"(secret)"`},
		"clear proxy-qp 10.9.0.1": {`"removed":2`},
	} {
		text, err := run(t, e, line).JSON(true)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(strings.ReplaceAll(string(text), "\n", ""), part) {
				t.Errorf("%s: no %s in %s", line, part, text)
			}
		}
	}
}
