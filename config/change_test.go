// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestExtend checks that adding entries to a configuration gives the same as a file that contains them, including the
// file's defaults, and that an error names an entry that does not fit.
func TestExtend(t *testing.T) {
	text := strings.Replace(base, `port = "fabric:"`, "port = \"fabric:\"\npkey = 0x8001", 1)
	const more = "[[group]]\nip = \"239.9.9.9\"\nrate = \"5 pps\"\n[[host]]\nip = \"10.9.0.9\"\nside = \"ib\"\ngid = \"fe80::9\"\n[[service]]\nport = 9\n"
	c := parseGood(t, text)
	before := parseGood(t, text)
	got, err := c.Extend(more)
	if err != nil {
		t.Fatal(err)
	}
	if want := parseGood(t, text+more); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	if !reflect.DeepEqual(c, before) {
		t.Error("the configuration itself has changed")
	}
	for _, x := range []struct{ more, want string }{
		{"[[group]]\nip = \"239.1.2.3\"", "config: the change:2: group 239.1.2.3: ip 239.1.2.3 is there already, with the same MGID ff12:4001:8001::f01:203; change that entry, or remove one"},
		{"[[group]]\nip = \"239.1.2.3\"\nmgid = \"ipoib\"", "config: the change:2: group 239.1.2.3: ip 239.1.2.3 is there already, with another MGID, and both"},
		{"[[host]]\nip = \"10.9.0.1\"\nside = \"roce\"", "config: the change:2: host 10.9.0.1: ip 10.9.0.1 is also that of host 10.9.0.1; each needs its own"},
		{"[[service]]\nports = \"7000-8000\"", "config: the change:2: service 7000-8000: port 7174 is also that of service 7174; each needs its own"},
		{"[[group]]\nip = \"10.9.0.1\"", "is a host's address"},
		{"[[translate]]\nroce = \"10.9.0.0/25\"\nib = \"10.10.8.0/25\"",
			"config: the change:2: translate 10.9.0.0/25: roce 10.9.0.0/25 shares addresses with translate 10.9.0.0/24; each needs its own"},
		{"[roce]\nmtu = 1500", "config: the change:1: table [roce] is there already; only [[host]], [[group]], [[range]], [[service]] and [[translate]] can be added"},
		{"[[grup]]\n", "did you mean group?"},
		{"[[group]\n", "this is not TOML"},
	} {
		if _, err := c.Extend(x.more); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: %v, want %s", x.more, err, x.want)
		}
	}
}

// TestTwinOnce: of an entry that has the address and the GID of another one, that is said once.
func TestTwinOnce(t *testing.T) {
	const host = "[[host]]\nip = \"10.9.0.77\"\nside = \"ib\"\ngid = \"fe80::77\"\n"
	c, err := parseGood(t, base).Extend(host)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Extend(host); err == nil || strings.Count(err.Error(), "is also that of") != 1 {
		t.Error(err)
	}
}

// TestWith checks that changed entries are checked together with the others.
func TestWith(t *testing.T) {
	c := parseGood(t, base)
	less, err := c.WithHosts(c.Hosts[:1])
	if err != nil || len(less.Hosts) != 1 || len(c.Hosts) != 2 {
		t.Errorf("%+v, %v", less, err)
	}
	for name, x := range map[string]struct {
		change func() (*Config, error)
		want   string
	}{
		"a host twice":  {func() (*Config, error) { return c.WithHosts(append(c.Hosts[:2:2], c.Hosts[0])) }, "is also that of"},
		"a group twice": {func() (*Config, error) { return c.WithGroups(append(c.Groups[:1:1], c.Groups[0])) }, "is there already"},
		"a service twice": {func() (*Config, error) {
			return c.WithServices(append(c.Services[:1:1], Service{First: 7000, Last: 8000}))
		}, "is also that of"},
	} {
		if _, err := x.change(); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDefaultsAreTheParsers checks that the default of a key in the documentation and the example is the value that the
// parser uses for a file without the key.
func TestDefaultsAreTheParsers(t *testing.T) {
	const device = `"mlx5_0:1"`
	onSubnet, onDevice := parseGood(t, base), parseGood(t, strings.Replace(base, `"fabric:"`, device, 1))
	for _, k := range everyKey() {
		if k.def == nil {
			continue
		}
		header := tableNamed(k.table).header()
		text := base
		if !strings.Contains(text, header+"\n") {
			text = strings.Replace(base, "[policy]", header+"\n[policy]", 1)
		}
		at := strings.Replace(text, header+"\n", header+"\n"+k.name+" = "+k.plainDefault()+"\n", 1)
		plain := onSubnet
		if k.table == morePorts {
			with := strings.Replace(text, header+"\n", header+"\nport = \"mlx5_1:1\"\n", 1)
			plain, at = parseGood(t, with), strings.Replace(with, header+"\n", header+"\n"+k.name+" = "+k.plainDefault()+"\n", 1)
		}
		if k.name == "alias_gids" { // only for a device's port
			plain, at = onDevice, strings.Replace(at, `"fabric:"`, device, 1)
		}
		c, err := Parse("default.toml", []byte(at))
		if err != nil {
			t.Errorf("%s.%s = %s: %v", k.table, k.name, k.plainDefault(), err)
			continue
		}
		if changes := Diff(plain, c); len(changes) > 0 || c.IB.AliasGIDs || !reflect.DeepEqual(plain.Workers, c.Workers) || !reflect.DeepEqual(plain.RoCE, c.RoCE) ||
			!reflect.DeepEqual(plain.Groups, c.Groups) || !reflect.DeepEqual(plain.Hosts, c.Hosts) || !reflect.DeepEqual(plain.Ranges, c.Ranges) {
			t.Errorf("%s.%s: its default %s, written down, changes\n%s", k.table, k.name, k.plainDefault(), changes)
		}
	}
}

// TestExamples checks that both examples are valid, the long one also with each single commented-out line enabled,
// except where the error says that the key is for another kind of port.
func TestExamples(t *testing.T) {
	for name, text := range map[string]string{"long": Example(), "short": ShortExample()} {
		if _, err := Parse(name, []byte(text)); err != nil {
			t.Errorf("the %s example: %v", name, err)
		}
	}
	if n := strings.Count(ShortExample(), "\n"); n > 60 {
		t.Errorf("the short example has %d lines", n)
	}
	commented := regexp.MustCompile(`(?m)^# (\w+ = .*[^.])$`)
	places := commented.FindAllStringSubmatchIndex(Example(), -1)
	if len(places) < 20 {
		t.Fatalf("only %d keys are commented out", len(places))
	}
	for _, p := range places {
		line := Example()[p[2]:p[3]]
		_, err := Parse("example", []byte(Example()[:p[0]]+line+Example()[p[1]:]))
		if err != nil && !strings.Contains(err.Error(), "is for ports of a device") && !strings.Contains(err.Error(), "has no part in") && !strings.Contains(err.Error(), "is for one InfiniBand port") &&
			!strings.Contains(err.Error(), "is a key of hosts with side") && !strings.Contains(err.Error(), "port and ports are both there") {
			t.Errorf("%q: %v", line, err)
		}
	}
}
