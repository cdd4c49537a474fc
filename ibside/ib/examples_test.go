// SPDX-License-Identifier: Apache-2.0

package ib_test

import (
	"bytes"
	_ "embed"
	"encoding/hex"
	"strings"
	"testing"

	"causeway/ibside/ib"
)

//go:embed testdata/examples.txt
var examplesText string

// An example is one packet of testdata/examples.txt.
type example struct {
	name, link string
	frame      []byte
}

// examples reads the whole file; a line it cannot read fails the test.
func examples(t testing.TB) []example {
	t.Helper()
	var all []example
	for _, block := range strings.Split(strings.TrimSpace(examplesText), "\n\n") {
		if strings.HasPrefix(block, "#") {
			continue
		}
		head, body, _ := strings.Cut(block, "\n")
		words := strings.Fields(head)
		if len(words) < 3 {
			t.Fatalf("testdata/examples.txt: %q is not: name, link, sentence", head)
		}
		all = append(all, example{words[0], words[1], unhex(t, body)})
	}
	if len(all) != 20 {
		t.Fatalf("testdata/examples.txt has %d packets, want 20", len(all))
	}
	return all
}

// find returns one example by name; frame a copy of its bytes.
func find(t testing.TB, name string) example {
	t.Helper()
	for _, x := range examples(t) {
		if x.name == name {
			return x
		}
	}
	t.Fatalf("testdata/examples.txt has no packet %q", name)
	return example{}
}

func frame(t testing.TB, name string) []byte {
	t.Helper()
	return bytes.Clone(find(t, name).frame)
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(s))
	if err != nil {
		t.Fatalf("hex %q: %v", s, err)
	}
	return b
}

func gid(s string) ib.GID {
	g, err := ib.ParseGID(s)
	if err != nil {
		panic(err)
	}
	return g
}

// An encap is an encapsulation of packets, with the function under test that computes its ICRC.
type encap int

const (
	local encap = iota
	global
	rocev1
	ipv4
	ipv6
)

func (e encap) String() string {
	return [...]string{"ib local", "ib global", "RoCEv1", "RoCEv2/IPv4", "RoCEv2/IPv6"}[e]
}

func (e encap) icrc() func([]byte) uint32 {
	return [...]func([]byte) uint32{ib.ICRCIB, ib.ICRCIB, ib.ICRCRoCEv1, ib.ICRCRoCEv2, ib.ICRCRoCEv2}[e]
}

// covered cuts an example to the bytes from the first to the last that its ICRC covers, and returns the ICRC on the
// wire.
func (x example) covered(t testing.TB) (e encap, p, icrc []byte) {
	t.Helper()
	b := x.frame
	if x.link == "ib" {
		e = local
		if b[1]&3 == 3 {
			e = global
		}
		n := len(b) - 6
		return e, b[:n], b[n : n+4]
	}
	if b[12] == 0x81 && b[13] == 0 {
		b = b[4:]
	}
	var n int
	switch p := b[14:]; uint16(b[12])<<8 | uint16(b[13]) {
	case 0x8915:
		e, n = rocev1, 40+int(p[4])<<8+int(p[5])
	case 0x0800:
		e, n = ipv4, int(p[2])<<8+int(p[3])
	case 0x86dd:
		e, n = ipv6, 40+int(p[4])<<8+int(p[5])
	default:
		t.Fatalf("%s: ethertype % x", x.name, b[12:14])
	}
	p = b[14 : 14+n]
	return e, p[:n-4], p[n-4:]
}
