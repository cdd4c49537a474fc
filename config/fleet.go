// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/url"
	"regexp"
	"time"
)

// Fleet says of which fleet the bridge is a member.
type Fleet struct {
	Name   string   // "": of none
	Etcd   []string // URLs of its servers
	CA     string   // files: of the authority for etcd's servers
	Cert   string   // the bridge's certificate
	Key    string
	Weight float64       // its part of the work beside that of other members
	Lease  time.Duration // how long it may forward after a renewal
	Pushed bool          // what all members share comes from etcd, where "causeway push" has written it
	// Unanimous: without etcd it goes on while all other members promise to take nothing.
	Unanimous bool
}

// What a lease may be, in milliseconds: etcd's answers take tens of them.
const leastLease, mostLease = 200, 60_000

// fleetName is part of keys in etcd, of metrics and of commands.
var fleetName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// fleetDoc describes the table.
var fleetDoc = tableDoc{name: "fleet", meaning: "Several bridges as one, which share the work between the same fabrics by an assignment in etcd. A single bridge needs none.", keys: []key{
	{name: "name", kind: text, noted: "no fleet", example: `"east"`,
		meaning: "The fleet's name, the same in all its bridges and of no other fleet on the same Ethernet or etcd: the MAC addresses of shards are made of it. " +
			"A member is known by its `[bridge] name`."},
	{name: "etcd", kind: texts, noted: "none", example: `["https://10.0.0.1:2379"]`,
		meaning: "The URLs of all servers of the etcd that has the assignment. With `https`, `ca` is needed, too."},
	{name: "ca", kind: text, noted: "none", example: `"/etc/causeway/etcd-ca.pem"`,
		meaning: "The file with the certificate of the authority that etcd's servers are checked by."},
	{name: "cert", kind: text, noted: "none", example: `"/etc/causeway/etcd-client.pem"`,
		meaning: "The file with the bridge's certificate for etcd, of which `key` is the key."},
	{name: "key", kind: text, noted: "none", example: `"/etc/causeway/etcd-client.key"`,
		meaning: "The file with the key of `cert`."},
	{name: "weight", kind: number, def: int64(100), lo: 1, hi: 1000, example: "100",
		meaning: "The bridge's part of the work: a member with 200 has twice the shards of one with 100."},
	{name: "configuration", kind: text, def: "file", words: []string{"file", "etcd"}, example: `"etcd"`,
		meaning: "Where what all members have the same comes from: `file`, this one; `etcd`, what `causeway push` has written there, which counts before " +
			"what this file says of it. fleet.md has which keys these are. Until there was a push, it is this file, too."},
	{name: "without_etcd", shared: true, kind: text, def: "stop", words: []string{"stop", "unanimous"}, example: `"unanimous"`,
		meaning: "What a bridge does when its lease runs out and etcd is away: `stop`, it forwards nothing; `unanimous`, it goes on while every other member, " +
			"which it asks over both fabrics, promises to take nothing meanwhile. The same in all members. With `unanimous`, never start a bridge of the same " +
			"`[bridge] name` elsewhere while the one before may still run."},
	{name: "lease_ms", shared: true, kind: number, def: int64(1000), lo: leastLease, hi: mostLease, example: "1000",
		meaning: "The milliseconds for which a bridge may forward after it was last heard by etcd, the same in all members. The shards of one that dies without a word " +
			"are carried on by others after that time. At least four election timeouts of etcd, or else a new leader there stops the fleet."},
}}

// fleet reads the bridge's fleet.
func (p *parser) fleet(t *table) {
	if !t.has("name") {
		for _, k := range []string{"etcd", "ca", "cert", "key"} {
			if t.has(k) {
				t.fail(k, `%s is there, but no name; write name = "east", or remove [fleet]`, k)
				return
			}
		}
		return
	}
	f := Fleet{Name: t.text("name"), Etcd: t.texts("etcd"), CA: t.text("ca"), Cert: t.text("cert"), Key: t.text("key"),
		Weight: float64(t.number("weight")), Lease: time.Duration(t.number("lease_ms")) * time.Millisecond,
		Pushed: t.text("configuration") == "etcd", Unanimous: t.text("without_etcd") == "unanimous"}
	p.cfg.Fleet = f
	f.Check(t.fail)
}

// Check has fail told of each thing that is wrong with a member's fleet, and by which key. Weight, and the member's name,
// are others' to check.
func (f *Fleet) Check(fail func(key, format string, args ...any)) {
	if !fleetName.MatchString(f.Name) {
		fail("name", "name %s is not a fleet's; use letters, digits, dashes and dots, such as %s", show(f.Name), `"east"`)
	}
	if len(f.Etcd) == 0 {
		fail("etcd", `etcd is missing; name each of its servers, such as "https://10.0.0.1:2379"`)
	}
	for _, e := range f.Etcd {
		u, err := url.Parse(e)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			fail("etcd", "etcd %s is no URL of a server; write one like %s", show(e), `"https://10.0.0.1:2379"`)
		case u.Scheme == "https" && f.CA == "":
			fail("etcd", `etcd %s is asked over TLS, and there is no ca; name the file, such as "/etc/causeway/etcd-ca.pem"`, show(e))
		}
	}
	if (f.Cert == "") != (f.Key == "") {
		fail("cert", "cert and key go together; write both, or remove both")
	}
	if f.Lease < leastLease*time.Millisecond || f.Lease > mostLease*time.Millisecond {
		fail("lease_ms", "a lease of %v is out of range; use %d to %d ms", f.Lease, leastLease, mostLease)
	}
}
