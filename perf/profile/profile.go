// SPDX-License-Identifier: Apache-2.0

// Package profile reads what to measure from a TOML file.
//
// The cases of a profile are all combinations of its [[traffic]] tables, directions and payloads. Its tests are run on
// each case; the table with the name of a test configures it. Keys that are not set are as in Default.
package profile

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// Profile is what to measure and how.
type Profile struct {
	Name       string     `toml:"name" json:"name"`
	About      string     `toml:"about" json:"about,omitempty"`
	Tests      []string   `toml:"tests" json:"tests"`
	Directions []string   `toml:"directions" json:"directions"`
	Payloads   []Payload  `toml:"payloads" json:"payloads"`
	Traffic    []Traffic  `toml:"traffic" json:"traffic"`
	Device     Device     `toml:"device" json:"device"`
	Throughput Throughput `toml:"throughput" json:"throughput"`
	Latency    Latency    `toml:"latency" json:"latency"`
	Loss       Loss       `toml:"loss" json:"loss"`
	Burst      Burst      `toml:"burst" json:"burst"`
	Soak       Soak       `toml:"soak" json:"soak"`
	Multicast  Multicast  `toml:"multicast" json:"multicast"`
	Yardsticks Yardsticks `toml:"yardsticks" json:"yardsticks"`
}

// Traffic is what is sent.
type Traffic struct {
	Name   string  `toml:"name" json:"name"`
	IP     []int   `toml:"ip" json:"ip"`         // 4, 6 or both, in turn
	VLAN   uint16  `toml:"vlan" json:"vlan"`     // 0: untagged
	Flows  int     `toml:"flows" json:"flows"`   // hosts, and also nodes
	Groups int     `toml:"groups" json:"groups"` // of the multicast share
	Share  float64 `toml:"multicast" json:"multicast"`
}

// Device is how the device under test is built.
type Device struct {
	Workers    int      `toml:"workers" json:"workers"`         // each with a generator
	Queue      int      `toml:"queue" json:"queue"`             // messages in each queue
	CheckEvery int      `toml:"check_every" json:"check_every"` // one message in this many is compared to the last byte
	Drain      Duration `toml:"drain" json:"drain"`             // messages that have not arrived after this silence are lost
	// Slice: trials are run in slices of this length, and slices with a stall are discarded; 0: no slices.
	Slice Duration `toml:"slice" json:"slice"`
}

// Throughput is the search for NDR, without loss, and PDR, with a little.
type Throughput struct {
	Trial      Duration `toml:"trial" json:"trial"`
	MaxPPS     float64  `toml:"max_pps" json:"max_pps"`       // of each direction; 0: found by a flood
	PDR        float64  `toml:"pdr_loss" json:"pdr_loss"`     // ratio
	Resolution float64  `toml:"resolution" json:"resolution"` // part
	Retries    int      `toml:"retries" json:"retries"`
	Confirm    int      `toml:"confirm" json:"confirm"`
	Shortfall  float64  `toml:"shortfall" json:"shortfall"`
}

// Latency is measured at parts of the PDR.
type Latency struct {
	Trial Duration  `toml:"trial" json:"trial"`
	Parts []float64 `toml:"parts" json:"parts"`
}

// Loss is measured from above the PDR, or from max_pps, downwards.
type Loss struct {
	Trial Duration `toml:"trial" json:"trial"`
}

// Burst is the back-to-back test.
type Burst struct {
	Limit       uint64 `toml:"limit" json:"limit"` // packets
	Repetitions int    `toml:"repetitions" json:"repetitions"`
}

// Soak is a long run at a part of the NDR.
type Soak struct {
	Duration Duration `toml:"duration" json:"duration"`
	Piece    Duration `toml:"piece" json:"piece"`
	Part     float64  `toml:"part" json:"part"`
}

// Multicast is RFC 3918's set.
type Multicast struct {
	Groups      int       `toml:"groups" json:"groups"` // the largest number that the capacity test tries
	Shares      []float64 `toml:"shares" json:"shares"` // of the mixed throughput
	Repetitions int       `toml:"repetitions" json:"repetitions"`
	PPS         float64   `toml:"pps" json:"pps"` // of the capacity test; 0: a tenth of the throughput
}

// Yardsticks are other programs, measured on the same CPUs.
type Yardsticks struct {
	Modes []string `toml:"modes" json:"modes"` // of testpmd: macswap, 5tswap, io, mac; and Pktgen
}

// Pktgen is the mode of a yardstick that is not testpmd: Pktgen-DPDK sends, and Causeway receives.
const Pktgen = "pktgen"

// Testpmd are the modes in which testpmd is measured.
func (y Yardsticks) Testpmd() []string {
	return slices.DeleteFunc(slices.Clone(y.Modes), func(mode string) bool { return mode == Pktgen })
}

// Pktgen reports whether Pktgen-DPDK is to send.
func (y Yardsticks) Pktgen() bool { return slices.Contains(y.Modes, Pktgen) }

// Duration is one of TOML's strings, such as "10s".
type Duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	x, err := time.ParseDuration(string(b))
	if err != nil || x < 0 {
		return fmt.Errorf("%q is not a duration; use 500ms, 10s, 2m or 1h", b)
	}
	*d = Duration(x)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// D returns d as a time.Duration.
func (d Duration) D() time.Duration { return time.Duration(d) }

// Payload is the length of messages, or a mix of lengths, which are used in turn.
type Payload struct {
	Name  string
	Bytes []int
}

// imix is the simple IMIX of routers, 7:4:1, in payloads.
var imix = []int{64, 512, 64, 64, 512, 64, 1024, 64, 512, 64, 512, 64}

// UnmarshalTOML implements toml.Unmarshaler: an integer, "imix", or an array of integers.
func (p *Payload) UnmarshalTOML(v any) error {
	switch x := v.(type) {
	case int64:
		*p = Payload{strconv.FormatInt(x, 10), []int{int(x)}}
		return nil
	case string:
		if x == "imix" {
			*p = Payload{"imix", imix}
			return nil
		}
	case []any:
		var names []string
		p.Bytes = nil
		for _, e := range x {
			n, ok := e.(int64)
			if !ok {
				return fmt.Errorf("payload %v is not a number of bytes", e)
			}
			p.Bytes = append(p.Bytes, int(n))
			names = append(names, strconv.FormatInt(n, 10))
		}
		p.Name = strings.Join(names, "+")
		if len(names) > 0 {
			return nil
		}
	}
	return fmt.Errorf(`payload %v: use a number of bytes, "imix", or an array of numbers`, v)
}

// MarshalText implements encoding.TextMarshaler, for reports.
func (p Payload) MarshalText() ([]byte, error) { return []byte(p.Name), nil }

// UnmarshalText implements encoding.TextUnmarshaler, for reports and flags: it reads what MarshalText writes.
func (p *Payload) UnmarshalText(b []byte) error {
	if string(b) == "imix" {
		return p.UnmarshalTOML("imix")
	}
	var list []any
	for s := range strings.SplitSeq(string(b), "+") {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil {
			return fmt.Errorf("payload %q: use a number of bytes, imix, or numbers with + between", b)
		}
		list = append(list, n)
	}
	return p.UnmarshalTOML(list)
}

//go:embed profiles/*.toml
var shipped embed.FS

// Names returns the names of the built-in profiles.
func Names() []string {
	entries, _ := fs.ReadDir(shipped, "profiles")
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".toml"))
	}
	return names
}

// Load reads a built-in profile, by name, or a file.
func Load(name string) (*Profile, error) {
	if slices.Contains(Names(), name) {
		b, err := shipped.ReadFile(path.Join("profiles", name+".toml"))
		if err != nil {
			return nil, err
		}
		return Parse(name+".toml", b)
	}
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(name, "./") {
		return nil, fmt.Errorf("profile: there is no profile %q; use %s, or a file", name, strings.Join(Names(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	return Parse(name, b)
}

// Parse reads a profile. Errors are one line, with file and line number, and say what to use instead.
func Parse(file string, text []byte) (*Profile, error) {
	p := Default()
	defaults := p.Traffic
	p.Traffic = nil
	meta, err := toml.Decode(string(text), p)
	var syntax toml.ParseError
	if errors.As(err, &syntax) {
		return nil, fmt.Errorf("profile: %s:%d: %s", file, syntax.Position.Line, oneLine(syntax.Message, err))
	}
	if err != nil {
		return nil, fmt.Errorf("profile: %s: %s", file, strings.TrimPrefix(oneLine("", err), "toml: "))
	}
	where := func(key ...string) string { return fmt.Sprintf("%s:%d", file, lineOf(string(text), key)) }
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		k := unknown[0]
		return nil, fmt.Errorf("profile: %s: there is no key %s; %s", where(k...), k, near(k))
	}
	if len(p.Traffic) == 0 {
		p.Traffic = defaults
	}
	p.complete()
	if key, err := p.check(); err != nil {
		return nil, fmt.Errorf("profile: %s: %s: %w", where(key...), strings.Join(key, "."), err)
	}
	return p, nil
}

// oneLine is the first line of the TOML library's message.
func oneLine(message string, err error) string {
	if message == "" {
		message = err.Error()
	}
	message, _, _ = strings.Cut(message, "\n")
	return message
}

// lineOf finds the line of a key, the last one of that name in its table; 1: it is not there.
func lineOf(text string, key []string) int {
	table, name := strings.Join(key[:len(key)-1], "."), key[len(key)-1]
	current, found, n := "", 1, 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			head, _, _ := strings.Cut(line, "#")
			current = strings.Trim(strings.TrimSpace(head), "[] ")
			if current == strings.Join(key, ".") {
				found = n
			}
		}
		k, _, ok := strings.Cut(line, "=")
		if ok && current == table && strings.Trim(strings.TrimSpace(k), `"`) == name {
			found = n
		}
	}
	return found
}

// Text returns the text of a built-in profile.
func Text(name string) (string, error) {
	b, err := shipped.ReadFile(path.Join("profiles", name+".toml"))
	if err != nil {
		return "", fmt.Errorf("profile: there is no profile %q; use %s", name, strings.Join(Names(), ", "))
	}
	return string(b), nil
}

// Check returns what is wrong with a profile, which may have been changed after it was read.
func (p *Profile) Check() error {
	if key, err := p.check(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(key, "."), err)
	}
	return nil
}
