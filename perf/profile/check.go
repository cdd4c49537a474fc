// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// AllTests are all tests, in the order in which they run: later ones use results of earlier ones.
var AllTests = []string{"throughput", "latency", "loss", "burst", "soak", "multicast"}

// allDirections are the directions in which traffic is offered.
var allDirections = []string{"roce_to_ib", "ib_to_roce", "both"}

// Default has the values of keys that a profile does not set.
func Default() *Profile {
	return &Profile{
		Name: "unnamed", Tests: []string{"throughput", "latency"}, Directions: []string{"roce_to_ib", "ib_to_roce"},
		Payloads: []Payload{{"64", []int{64}}},
		Traffic:  []Traffic{{Name: "IPv4"}},
		Device:   Device{Workers: 1, Queue: 1024, CheckEvery: 64, Drain: Duration(50 * time.Millisecond)},
		Throughput: Throughput{
			Trial: Duration(time.Second), PDR: 0.001, Resolution: 0.01, Retries: 2, Confirm: 1, Shortfall: 0.005,
		},
		Latency:   Latency{Trial: Duration(2 * time.Second), Parts: []float64{0.1, 0.5, 0.9}},
		Loss:      Loss{Trial: Duration(time.Second)},
		Burst:     Burst{Limit: 1 << 20, Repetitions: 5},
		Soak:      Soak{Duration: Duration(time.Minute), Piece: Duration(time.Second), Part: 0.8},
		Multicast: Multicast{Groups: 1024, Shares: []float64{0, 0.5, 1}, Repetitions: 10},
	}
}

// complete sets the defaults of each traffic.
func (p *Profile) complete() {
	for i := range p.Traffic {
		t := &p.Traffic[i]
		if len(t.IP) == 0 {
			t.IP = []int{4}
		}
		if t.Flows == 0 {
			t.Flows = 1024
		}
		if t.Share > 0 && t.Groups == 0 {
			t.Groups = 16
		}
		if t.Name == "" {
			t.Name = t.describe()
		}
	}
}

// describe makes a name for traffic.
func (t *Traffic) describe() string {
	var parts []string
	for _, v := range t.IP {
		parts = append(parts, fmt.Sprintf("IPv%d", v))
	}
	name := strings.Join(parts, "+")
	if t.VLAN != 0 {
		name += fmt.Sprintf(" VLAN %d", t.VLAN)
	}
	if t.Share > 0 {
		name += fmt.Sprintf(" %.0f %% multicast", t.Share*100)
	}
	return name
}

// rule is a key and what is wrong with its value; nil: nothing.
type rule struct {
	key []string
	err error
}

// check returns the first key with a wrong value, and what is wrong.
func (p *Profile) check() ([]string, error) {
	rules := append(p.trafficRules(), p.testRules()...)
	for _, r := range rules {
		if r.err != nil {
			return r.key, r.err
		}
	}
	return nil, nil
}

func (p *Profile) trafficRules() []rule {
	rules := []rule{
		{[]string{"tests"}, among("test", p.Tests, AllTests)},
		{[]string{"directions"}, among("direction", p.Directions, allDirections)},
		{[]string{"payloads"}, within("payloads", float64(len(p.Payloads)), 1, 100)},
	}
	for _, payload := range p.Payloads {
		for _, n := range payload.Bytes {
			rules = append(rules, rule{[]string{"payloads"}, within("a payload's bytes", float64(n), 32, 4096)})
		}
	}
	names := map[string]bool{}
	for _, t := range p.Traffic {
		if names[t.Name] {
			rules = append(rules, rule{[]string{"traffic", "name"}, fmt.Errorf("%q is used twice; use different names", t.Name)})
		}
		names[t.Name] = true
		for _, v := range t.IP {
			rules = append(rules, rule{[]string{"traffic", "ip"}, oneOf("IP version", v, 4, 6)})
		}
		rules = append(rules,
			rule{[]string{"traffic", "flows"}, within("flows", float64(t.Flows), float64(len(t.IP)), 40000)},
			rule{[]string{"traffic", "groups"}, within("groups", float64(t.Groups), 0, 8192)},
			rule{[]string{"traffic", "vlan"}, within("VLAN", float64(t.VLAN), 0, 4094)},
			rule{[]string{"traffic", "multicast"}, within("the share of multicast", t.Share, 0, 1)})
	}
	return rules
}

func (p *Profile) testRules() []rule {
	t, m := &p.Throughput, &p.Multicast
	rules := []rule{
		{[]string{"device", "workers"}, within("workers", float64(p.Device.Workers), 1, 16)},
		{[]string{"device", "queue"}, within("a queue's messages", float64(p.Device.Queue), 64, 32768)},
		{[]string{"device", "check_every"}, within("one message in", float64(p.Device.CheckEvery), 0, 1e9)},
		{[]string{"throughput", "max_pps"}, within("packets a second", t.MaxPPS, 0, 1e9)},
		{[]string{"throughput", "pdr_loss"}, within("the ratio", t.PDR, 0, 0.5)},
		{[]string{"throughput", "resolution"}, within("the part", t.Resolution, 0.0001, 0.5)},
		{[]string{"throughput", "retries"}, within("retries", float64(t.Retries), 0, 100)},
		{[]string{"throughput", "confirm"}, within("trials", float64(t.Confirm), 0, 100)},
		{[]string{"throughput", "shortfall"}, within("the part", t.Shortfall, 0, 0.5)},
		{[]string{"latency", "parts"}, within("parts", float64(len(p.Latency.Parts)), 1, 20)},
		{[]string{"burst", "limit"}, within("packets", float64(p.Burst.Limit), 1, 1<<40)},
		{[]string{"burst", "repetitions"}, within("repetitions", float64(p.Burst.Repetitions), 1, 1000)},
		{[]string{"soak", "part"}, within("the part", p.Soak.Part, 0.001, 1)},
		{[]string{"multicast", "groups"}, within("groups", float64(m.Groups), 1, 8192)},
		{[]string{"multicast", "repetitions"}, within("repetitions", float64(m.Repetitions), 0, 10000)},
		{[]string{"multicast", "pps"}, within("packets a second", m.PPS, 0, 1e9)},
		{[]string{"yardsticks", "modes"}, allowed("mode", p.Yardsticks.Modes, []string{"io", "mac", "macswap", "5tswap", Pktgen})},
	}
	for _, d := range []struct {
		table, key string
		value      Duration
	}{
		{"device", "drain", p.Device.Drain}, {"throughput", "trial", t.Trial}, {"latency", "trial", p.Latency.Trial},
		{"loss", "trial", p.Loss.Trial}, {"soak", "duration", p.Soak.Duration}, {"soak", "piece", p.Soak.Piece},
	} {
		if d.value.D() < time.Millisecond || d.value.D() > 1000*time.Hour {
			rules = append(rules, rule{[]string{d.table, d.key}, fmt.Errorf("%v; use 1ms to 1000h", d.value.D())})
		}
	}
	for _, part := range p.Latency.Parts {
		rules = append(rules, rule{[]string{"latency", "parts"}, within("a part", part, 0.0001, 1)})
	}
	for _, share := range m.Shares {
		rules = append(rules, rule{[]string{"multicast", "shares"}, within("a share", share, 0, 1)})
	}
	return rules
}

func within(what string, x, least, most float64) error {
	if x < least || x > most {
		return fmt.Errorf("%s: %v; use %v to %v", what, x, least, most)
	}
	return nil
}

func oneOf(what string, x int, of ...int) error {
	if !slices.Contains(of, x) {
		return fmt.Errorf("%s %d; use one of %v", what, x, of)
	}
	return nil
}

func among(what string, list, of []string) error {
	if len(list) == 0 {
		return fmt.Errorf("no %s; use %s", what, strings.Join(of, ", "))
	}
	return allowed(what, list, of)
}

func allowed(what string, list, of []string) error {
	for _, x := range list {
		if !slices.Contains(of, x) {
			return fmt.Errorf("there is no %s %q; use %s", what, x, strings.Join(of, ", "))
		}
	}
	return nil
}

// near lists the keys in the table of an unknown key.
func near(k toml.Key) string {
	t := reflect.TypeFor[Profile]()
	for _, part := range k[:len(k)-1] {
		t = fieldType(t, part)
		if t == nil {
			return "there is no such table"
		}
	}
	var keys []string
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("toml"); key != "" {
			keys = append(keys, key)
		}
	}
	if len(k) == 1 {
		return "use " + strings.Join(keys, ", ")
	}
	return fmt.Sprintf("use %[2]s in [%[1]s]", k[:len(k)-1], strings.Join(keys, ", "))
}

func fieldType(t reflect.Type, key string) reflect.Type {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Tag.Get("toml") != key {
			continue
		}
		if f.Type.Kind() == reflect.Slice {
			return f.Type.Elem()
		}
		if f.Type.Kind() == reflect.Struct {
			return f.Type
		}
	}
	return nil
}

// Case is one combination of traffic, direction and payload.
type Case struct {
	Name      string
	Direction string
	Payload   Payload
	Traffic   Traffic
}

// Cases are all combinations, payloads changing fastest.
func (p *Profile) Cases() []Case {
	var out []Case
	for _, t := range p.Traffic {
		for _, d := range p.Directions {
			for _, payload := range p.Payloads {
				name := fmt.Sprintf("%s %s %s B", d, t.Name, payload.Name)
				if payload.Name == "imix" {
					name = fmt.Sprintf("%s %s imix", d, t.Name)
				}
				out = append(out, Case{name, d, payload, t})
			}
		}
	}
	return out
}
