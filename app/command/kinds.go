// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"causeway/config"
	"causeway/ibside/ib"
	"causeway/lcore"
	"causeway/lcore/frame"
)

// A Kind is the type of an argument's value.
type Kind struct {
	Form  string // in usage: "ADDRESS"
	About string // "an IPv4 or IPv6 address"
	Words []string
	// Meaning returns the help of one of Words; may be nil.
	Meaning func(word string) string
	Parse   func(string) (any, error)
	// Known returns values that exist at the moment, for completion; may be nil.
	Known func(ctx context.Context, e *Env) []string
}

// parse parses a value. Words may be abbreviated.
func (k *Kind) parse(s string) (any, error) {
	if k.Words != nil {
		name, err := choose(s, k.Words)
		if err != nil {
			return nil, err
		}
		s = name
	}
	return k.Parse(s)
}

// wordKind is one of a few words.
func wordKind(form, about string, words ...string) Kind {
	return Kind{Form: form, About: about, Words: words, Parse: func(s string) (any, error) { return s, nil }}
}

// numberKind is a whole number within bounds.
func numberKind(form string, lo, hi uint64) Kind {
	about := fmt.Sprintf("a whole number from %d to %d", lo, hi)
	return Kind{Form: form, About: about, Parse: func(s string) (any, error) {
		n, err := strconv.ParseUint(s, 0, 64)
		if err != nil || n < lo || n > hi {
			return nil, errors.New("write " + about)
		}
		return n, nil
	}}
}

// segmentKind selects a segment by its VLAN, or where there are several ports by port and VLAN.
var segmentKind = Kind{Form: "VLAN", About: "a VLAN id, 0 for untagged, or a segment's name, PORT/VLAN, as show segments has it", Parse: parseSegment}

func parseSegment(s string) (any, error) {
	var p config.Place
	at := strings.LastIndexByte(s, '/')
	n, err := strconv.ParseUint(s[at+1:], 0, 16)
	if err != nil || n > 4094 {
		return nil, errors.New("write a whole number from 0 to 4094, or a segment's name from show segments")
	}
	if p.VLAN = uint16(n); at >= 0 {
		p.Port.Driver, p.Port.Arg, _ = strings.Cut(s[:at], ":")
	}
	return p, nil
}

// textKind is any word.
func textKind(form, about string) Kind {
	return Kind{Form: form, About: about, Parse: func(s string) (any, error) { return s, nil }}
}

var directions = wordKind("DIRECTION", "roce_to_ib or ib_to_roce", lcore.RoCEToIB.String(), lcore.IBToRoCE.String())

var addressKind = Kind{Form: "ADDRESS", About: "an IPv4 or IPv6 address", Parse: parseAddress, Known: knownHosts}

func parseAddress(s string) (any, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || a.Is4In6() || a.Zone() != "" {
		return nil, errors.New("write an address such as 10.9.0.7 or fd00::7")
	}
	return a, nil
}

// prefixKind is an address or a prefix; its value is a netip.Prefix.
var prefixKind = Kind{Form: "PREFIX", About: "an address, or a prefix such as 10.9.0.0/24", Known: knownHosts, Parse: func(s string) (any, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return nil, errors.New("write an address or a prefix, such as 10.9.0.7 or 10.9.0.0/24")
	}
	return p.Masked(), nil
}}

var groupKind = Kind{Form: "GROUP", About: "a group's IP address", Known: knownGroups, Parse: func(s string) (any, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || !a.IsMulticast() || a.Is4In6() {
		return nil, errors.New("write a group's address such as 239.1.2.3 or ff15::1:2:3")
	}
	return a, nil
}}

var gidKind = Kind{Form: "GID", About: "a GID, written as an IPv6 address", Parse: func(s string) (any, error) {
	g, err := ib.ParseGID(s)
	if err != nil {
		return nil, errors.New("write a GID such as fe80::2:c903:0:7")
	}
	return g, nil
}}

var macKind = Kind{Form: "MAC", About: "a MAC address", Parse: func(s string) (any, error) {
	m, err := frame.ParseMAC(s)
	if err != nil {
		return nil, errors.New("write a MAC address such as 02:00:00:00:00:01")
	}
	return m, nil
}}

var shareKind = Kind{Form: "SHARE", About: "a fraction of all packets: 0.01 or 1%", Parse: func(s string) (any, error) {
	if s == "1" {
		return nil, errors.New("1 may be all or one of a hundred; write 100% or 1%")
	}
	number, percent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(number, 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) {
		return nil, errors.New("write a fraction from 0 to 1, or 0% to 100%")
	}
	return v, nil
}}

// durationKind is a time with a unit, at most a bound.
func durationKind(most time.Duration) Kind {
	return Kind{Form: "TIME", About: "a time with its unit, such as 500us, 5ms or 2s, up to " + most.String(), Parse: func(s string) (any, error) {
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 || d > most {
			return nil, fmt.Errorf("write a time with its unit, up to %v, such as 5ms", most)
		}
		return d, nil
	}}
}

// rateKind is packets a second; 0: no limit.
var rateKind = Kind{Form: "RATE", About: "packets a second, such as 1000, 250k or 1M, or off", Parse: func(s string) (any, error) {
	if s == "off" {
		return uint64(0), nil
	}
	digits := strings.TrimSpace(strings.TrimSuffix(s, "pps"))
	unit := 1.0
	for suffix, by := range map[string]float64{"k": 1e3, "M": 1e6, "G": 1e9} {
		if cut, ok := strings.CutSuffix(digits, suffix); ok {
			digits, unit = cut, by
		}
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(n*unit >= 1 && n*unit <= 1e9) {
		return nil, errors.New("write packets a second, such as 1000, 250k or 1M, or off")
	}
	return uint64(n * unit), nil
}}

// portsKind is a port or a range of them; its value is [2]uint16.
var portsKind = Kind{Form: "PORTS", About: "a port of RDMA_PS_UDP, or a range such as 7000-7100", Parse: func(s string) (any, error) {
	low, high, isRange := strings.Cut(s, "-")
	if !isRange {
		high = low
	}
	first, err := strconv.ParseUint(low, 10, 16)
	last, err2 := strconv.ParseUint(high, 10, 16)
	if err != nil || err2 != nil || first == 0 || first > last {
		return nil, errors.New("write a port from 1 to 65535, or a range such as 7000-7100")
	}
	return [2]uint16{uint16(first), uint16(last)}, nil
}}

// fileKind is a file on the bridge's machine: absolute, because users do not know the bridge's working directory.
var fileKind = Kind{Form: "FILE", About: "a new file on the bridge's machine, as an absolute path", Parse: func(s string) (any, error) {
	if s != "-" && (!filepath.IsAbs(s) || filepath.Clean(s) != s || strings.ContainsRune(s, 0)) {
		return nil, errors.New("write an absolute path, such as /tmp/a.pcapng")
	}
	return s, nil
}}

// dropKind is the name of a drop reason, or any.
var dropKind = Kind{Form: "REASON", About: `a drop reason, or "any"`, Words: dropNames(), Meaning: dropMeaning, Parse: func(s string) (any, error) { return s, nil }}

func dropMeaning(name string) string {
	if d, ok := lcore.DropNamed(name); ok {
		return d.Sentence()
	}
	return "for any reason"
}

func dropNames() []string {
	names := []string{"any"}
	for _, d := range lcore.Drops() {
		names = append(names, d.String())
	}
	return names
}
