// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"causeway/perf/profile"
)

func TestShipped(t *testing.T) {
	names := profile.Names()
	if len(names) < 4 {
		t.Fatalf("only %v are built in", names)
	}
	for _, name := range names {
		p, err := profile.Load(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if p.Name != name || p.About == "" || len(p.Cases()) == 0 {
			t.Errorf("%s: name %q, about %q, %d cases", name, p.Name, p.About, len(p.Cases()))
		}
	}
}

func TestFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.toml")
	if err := os.WriteFile(file, []byte("name = \"mine\"\npayloads = [64, [32, 100], \"imix\"]\n[latency]\ntrial = \"3s\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range p.Cases() {
		names = append(names, c.Name)
	}
	want := []string{"roce_to_ib IPv4 64 B", "roce_to_ib IPv4 32+100 B", "roce_to_ib IPv4 imix",
		"ib_to_roce IPv4 64 B", "ib_to_roce IPv4 32+100 B", "ib_to_roce IPv4 imix"}
	if !reflect.DeepEqual(names, want) || p.Latency.Trial.D() != 3*time.Second || p.Throughput.PDR != 0.001 {
		t.Errorf("cases %q, latency %v, PDR %v", names, p.Latency.Trial.D(), p.Throughput.PDR)
	}
}

// A profile in a report is read as it was written.
func TestJSON(t *testing.T) {
	p, err := profile.Load("full")
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var q profile.Profile
	if err := json.Unmarshal(b, &q); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*p, q) {
		t.Errorf("wrote %+v, read %+v", *p, q)
	}
}

// Errors are one line, with file and line number, and say what to use instead.
func TestBad(t *testing.T) {
	for _, x := range []struct{ name, text, want string }{
		{"syntax", "name = \"x\"\ntests = [\"loss\"\npayloads = 3\n", "p.toml:3: "},
		{"unknown key", "name = \"x\"\n[latency]\ntrail = \"3s\"\n", "p.toml:3: there is no key latency.trail; use trial, parts in [latency]"},
		{"unknown table", "[letency]\ntrial = \"3s\"\n", "p.toml:1: there is no key letency; use name, about, tests"},
		{"unknown in traffic", "[[traffic]]\nvlans = 3\n", "p.toml:2: there is no key traffic.vlans; use name, ip, vlan, flows"},
		{"test", "tests = [\"lose\"]\n", `p.toml:1: tests: there is no test "lose"; use throughput, latency, loss, burst, soak, multicast`},
		{"no tests", "tests = []\n", "p.toml:1: tests: no test; use throughput"},
		{"direction", "\n\ndirections = [\"up\"]\n", `p.toml:3: directions: there is no direction "up"; use roce_to_ib, ib_to_roce, both`},
		{"payload", "payloads = [31]\n", "p.toml:1: payloads: a payload's bytes: 31; use 32 to 4096"},
		{"payload word", "payloads = [\"omix\"]\n", `payload omix: use a number of bytes, "imix", or an array of numbers`},
		{"duration", "[soak]\nduration = \"5\"\n", `"5" is not a duration; use 500ms, 10s, 2m or 1h`},
		{"no duration", "[soak]\nduration = \"0s\"\n", "p.toml:2: soak.duration: 0s; use 1ms to 1000h"},
		{"IP", "[[traffic]]\nip = [5]\n", "p.toml:2: traffic.ip: IP version 5; use one of [4 6]"},
		{"share", "[[traffic]]\nmulticast = 1.5\n", "p.toml:2: traffic.multicast: the share of multicast: 1.5; use 0 to 1"},
		{"twice", "[[traffic]]\nname = \"a\"\n[[traffic]]\nname = \"a\"\n", `p.toml:4: traffic.name: "a" is used twice; use different names`},
		{"queue", "[device]\nqueue = 3\n", "p.toml:2: device.queue: a queue's messages: 3; use 64 to 32768"},
		{"part", "[latency]\nparts = [0.5, 1.5]\n", "p.toml:2: latency.parts: a part: 1.5; use 0.0001 to 1"},
		{"yardstick", "[yardsticks]\nmodes = [\"swap\"]\n", `p.toml:2: yardsticks.modes: there is no mode "swap"; use io, mac, macswap, 5tswap, pktgen`},
		{"type", "name = 3\n", "p.toml:"},
	} {
		t.Run(x.name, func(t *testing.T) {
			_, err := profile.Parse("p.toml", []byte(x.text))
			if err == nil || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got  %v\nwant …%s", err, x.want)
			}
		})
	}
	if _, err := profile.Load("fast"); err == nil || !strings.Contains(err.Error(), "use full, multicast, quick, soak, or a file") {
		t.Errorf("no such profile: %v", err)
	}
}
