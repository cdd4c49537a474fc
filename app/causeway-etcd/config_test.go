// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// small is a configuration of one voter; the tests' changes go before its tables, or after them.
const small = "name = \"a\"\ndata = \"DIR/data\"\n%s[[member]]\nname = \"a\"\npeer = \"%s\"\n%s"

const peer = "http://127.0.0.1:2380"

// bad are wrong configurations: what stands first, the voter's peer URL, what stands last, and what is said.
var bad = []struct{ head, peer, tail, want string }{
	{"nmae = 1\n", peer, "", "key nmae is not known; did you mean name?"},
	{"colour = 1\n", peer, "", "key colour is not known; the keys are name, data, insecure"},
	{"", peer, "[client]\nlisten = []\n", "table [client] is not known; did you mean clients?"},
	{"", peer, "[sizes]\nx = 1\n", "table [sizes] is not known; the tables are clients, peers, member, metrics, raft, store, log"},
	{"", peer, "[clients]\ncerts = 1\n", "[clients]: key certs is not known; did you mean cert?"},
	{"", peer, "port = 1\n", "[[member]]: key port is not known; the keys are name, peer"},
	{"insecure = \"yes\"\n", peer, "", "line 3: insecure is of type string; write true or false"},
	{"", peer, "[clients]\nlisten = \"x\"\n", "line 7: clients.listen is of type string; write a list, in brackets"},
	{"", peer, "[store]\nquota_mib = \"1\"\n", "line 7: store.quota_mib is of type string; write a whole number"},
	{"insecure =\n", peer, "", "line 3: this is not TOML: "},
	{"", peer, "[[member]]\npeer = \"" + peer + "\"\n", "[[member]] number 2: name is missing; write name = "},
	{"", peer, "[[member]]\nname = \"b c\"\n", `[[member]] "b c": this is no name for a voter; use letters, digits, dots and dashes, 63 at most`},
	{"", peer, "[[member]]\nname = \"a\"\n", `[[member]] "a": there are two of this name; give each voter a name of its own`},
	{"", peer, "[[member]]\nname = \"b\"\n", `[[member]] "b": peer is missing; write peer = `},
	{"", "10.9.0.1:2380", "", `[[member]] "a": peer "10.9.0.1:2380" is not a URL of the form https://ADDRESS:PORT; write it so`},
	{"", "http://127.0.0.1", "", `[[member]] "a": peer "http://127.0.0.1" is not a URL`},
	{"", "http://127.0.0.1:0", "", `[[member]] "a": peer "http://127.0.0.1:0" is not a URL`},
	{"", "http://127.0.0.1:2380/x", "", `[[member]] "a": peer "http://127.0.0.1:2380/x" is not a URL`},
	{"", "ftp://127.0.0.1:2380", "", `[[member]] "a": peer "ftp://127.0.0.1:2380" is not a URL`},
	{"", "http://0.0.0.0:2380", "", `[[member]] "a": peer "http://0.0.0.0:2380" is no address that others can reach; write the one of that machine`},
	{"", peer, "[[member]]\nname = \"b\"\npeer = \"" + peer + "\"\n", `[[member]] "b": peer "http://127.0.0.1:2380" is that of a, too; write that machine's own`},
	{"", peer, "[[member]]\nname = \"b\"\npeer = \"http://127.0.0.2:2380\"\n", "there are 2 [[member]]s; have 1, 3, 5 or 7: an even number survives no more failures than one less"},
	{"", "http://a.example:2380", "", `[peers]: listen is missing, and the peer URL "http://a.example:2380" has a name; write the address to listen at, such as listen = ["http://0.0.0.0:2380"]`},
	{"", "http://10.9.0.1:2380", "", `[peers]: listen "http://10.9.0.1:2380" can be read and changed by everybody on the network; write https:// with cert, key and ca, or insecure = true above all tables`},
	{"", "https://10.9.0.1:2380", "", `[peers]: listen "https://10.9.0.1:2380" needs a certificate; write cert and key, or http://`},
	{"", peer, "[peers]\nlisten = [\"http://a.example:2380\"]\n", `[peers]: listen "http://a.example:2380" has a name as its host; write the address that it means, or 0.0.0.0`},
	{"", "https://127.0.0.1:2380", "[peers]\nlisten = [\"" + peer + "\"]\n", `[[member]] "a": peer "https://127.0.0.1:2380" is not served as [peers] listen says, by http://; write all voters' URLs alike`},
	{"", "https://127.0.0.1:2380", "[peers]\n" + certAndKey, `[peers]: cert is "DIR/a.crt", and ca is missing; write the authority`},
	{"", peer, "[peers]\n" + certAndKey, `[peers]: cert is "DIR/a.crt", and listen "http://127.0.0.1:2380" does not use it; write https://127.0.0.1:2380`},
	{"", peer, "[clients]\nlisten = []\n", "[clients]: listen is empty; write one or more URLs, or leave it out"},
	{"", peer, "[clients]\nlisten = [\"2379\"]\n", `[clients]: listen "2379" is not a URL of the form https://ADDRESS:PORT; write it so`},
	{"", peer, "[clients]\nlisten = [\"http://0.0.0.0:2379\"]\n", `[clients]: listen "http://0.0.0.0:2379" can be read and changed by everybody`},
	{"insecure = true\n", peer, "[clients]\nlisten = [\"http://0.0.0.0:2379\"]\n", `[clients]: advertise "http://0.0.0.0:2379" is no address that clients can reach; write this machine's own`},
	{"", peer, "[clients]\nadvertise = [\"https://127.0.0.1:2379\"]\n", `[clients]: advertise "https://127.0.0.1:2379" is not served as listen says; write it with http://`},
	{"", peer, httpsClients + "key = \"DIR/a.key\"\n", `[clients]: listen "https://127.0.0.1:2379" needs a certificate; write cert and key, or http://`},
	{"", peer, "[clients]\nkey = \"DIR/a.key\"\n", `[clients]: key is "DIR/a.key", and cert is missing; write the file of its certificate`},
	{"", peer, httpsClients + "cert = \"DIR/a.crt\"\n", `[clients]: cert is "DIR/a.crt", and key is missing; write the file of its private key`},
	{"", peer, "[clients]\nca = \"DIR/ca.crt\"\n", `[clients]: ca is "DIR/ca.crt", and cert and key are missing; write them, and https:// URLs`},
	{"", peer, httpsClients + "cert = \"DIR/none\"\nkey = \"DIR/a.key\"\n", `[clients]: cert "DIR/none": there is no such file; write it, or name another`},
	{"", peer, httpsClients + "cert = \"DIR/a.crt\"\nkey = \"DIR\"\n", `[clients]: key "DIR": this is no file of at most 1048576 bytes; name the one that has it in PEM`},
	{"", peer, httpsClients + "cert = \"a.crt\"\nkey = \"DIR/a.key\"\n", `[clients]: cert "a.crt" is not a whole path; write it from / on`},
	{"", peer, httpsClients + "cert = \"DIR/a.crt\"\nkey = \"DIR/b.key\"\n", `[clients]: cert "DIR/a.crt" and key "DIR/b.key" are not a certificate with its key, both in PEM: `},
	{"", peer, httpsClients + "cert = \"DIR/server.crt\"\nkey = \"DIR/server.key\"\n", `[clients]: cert "DIR/server.crt" is not for servers and clients alike; make one with extendedKeyUsage = serverAuth, clientAuth`},
	{"", peer, httpsClients + certAndKey + "ca = \"DIR/a.key\"\n", `[clients]: ca "DIR/a.key" has no certificate in PEM; name the authority's certificate`},
	{"", peer, "[metrics]\nlisten = \"https://127.0.0.1:2381\"\n", `[metrics]: listen "https://127.0.0.1:2381" needs the certificate of [clients], which has none; write http://, or cert and key there`},
	{"", peer, "[metrics]\nlisten = \"http://10.9.0.1:2381\"\n", `[metrics]: listen "http://10.9.0.1:2381" can be read and changed by everybody`},
	{"", peer, "[raft]\nheartbeat = \"50\"\n", `[raft]: heartbeat "50" is not a time; write one with its unit, such as "10ms"`},
	{"", peer, "[raft]\nheartbeat = \"1ms\"\n", `[raft]: heartbeat "1ms" is out of range; use 10ms to 10s`},
	{"", peer, "[raft]\nelection = \"60s\"\n", `[raft]: election "60s" is out of range; use 50ms to 50s`},
	{"", peer, "[raft]\nelection = \"200ms\"\n", `[raft]: election "200ms" is less than five times heartbeat "50ms"; write "250ms" or more`},
	{"", peer, "[store]\nquota_mib = 8\n", "[store]: quota_mib 8 is out of range; use 16 to 8192"},
	{"", peer, "[store]\ncompact = \"1s\"\n", `[store]: compact "1s" is out of range; use 1m0s to 24h0m0s`},
	{"", peer, "[log]\nlevel = \"trace\"\n", `[log]: level "trace" is not known; use debug, info, warn, error`},
	{"", peer, "[log]\nformat = \"xml\"\n", `[log]: format "xml" is not known; use text, json`},
}

const (
	httpsClients = "[clients]\nlisten = [\"https://127.0.0.1:2379\"]\n"
	certAndKey   = "cert = \"DIR/a.crt\"\nkey = \"DIR/a.key\"\n"
)

// certificates makes the certificates that the configurations name.
func certificates(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	a := newAuthority(t, in("ca.crt"))
	a.issue(in("a.crt"), in("a.key"), both...)
	a.issue(in("b.crt"), in("b.key"), both...)
	a.issue(in("server.crt"), in("server.key"), x509.ExtKeyUsageServerAuth)
	return dir
}

// check runs -check on a configuration.
func check(t *testing.T, dir, text string) (code int, said string) {
	t.Helper()
	file := filepath.Join(dir, "etcd.toml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := try("-config", file, "-check")
	return code, stdout + stderr
}

// TestBad checks that each mistake is one line that says who, what, with which value, and what to write instead.
func TestBad(t *testing.T) {
	dir := certificates(t)
	for _, c := range bad {
		code, said := check(t, dir, fmt.Sprintf(small, c.head, c.peer, c.tail))
		want := fmt.Sprintf("causeway-etcd: %s/etcd.toml: %s", dir, strings.ReplaceAll(c.want, "DIR", dir))
		if code != exitUsage || !strings.HasPrefix(said, want) || strings.Count(said, "\n") != 1 {
			t.Errorf("%s%s%s: exit code %d\n%swant %s", c.head, c.peer, c.tail, code, said, want)
		}
	}
	for text, want := range map[string]string{
		"":               `name is missing; write name = "voter-a", one of those of [[member]]`,
		"name = \"a\"\n": "there is no [[member]]; write one for each voter, this one included, with its name and peer",
		"name = \"b\"\n[[member]]\nname = \"a\"\npeer = \"" + peer + "\"\n":                  `name "b" is not among the [[member]]s, a; write one of these, or add a [[member]]`,
		"name = \"a\"\ndata = \"here\"\n[[member]]\nname = \"a\"\npeer = \"" + peer + "\"\n": `data "here" is not a whole path; write data = "/var/lib/causeway-etcd"`,
		strings.Repeat("#", maxFile+1): fmt.Sprintf("%d bytes are too many for a configuration; the limit is %d", maxFile+1, maxFile),
	} {
		if code, said := check(t, dir, text); code != exitUsage || said != "causeway-etcd: "+dir+"/etcd.toml: "+want+"\n" {
			t.Errorf("%.40q: exit code %d\n%s", text, code, said)
		}
	}
}

// TestGood checks configurations that are right, and the defaults.
func TestGood(t *testing.T) {
	dir := certificates(t)
	for _, c := range []struct{ head, peer, tail string }{
		{"", peer, ""},
		{"insecure = true\n", "http://10.9.0.1:2380", "[clients]\nlisten = [\"http://10.9.0.1:2379\", \"http://127.0.0.1:2379\"]\n[metrics]\nlisten = \"http://10.9.0.1:2381\"\n"},
		{"", "https://a.example:2380", "[peers]\nlisten = [\"https://[::]:2380\"]\n" + certAndKey + "ca = \"DIR/ca.crt\"\n" + httpsClients + certAndKey + "[metrics]\nlisten = \"https://10.9.0.1:2381\"\n"},
		{"", peer, "[raft]\nheartbeat = \"100ms\"\nelection = \"1s\"\n[store]\nquota_mib = 1024\ncompact = \"10m\"\n[log]\nlevel = \"warn\"\nformat = \"json\"\n"},
	} {
		if code, said := check(t, dir, fmt.Sprintf(small, c.head, c.peer, c.tail)); code != exitOK || said != "" {
			t.Errorf("%s%s%s: exit code %d\n%s", c.head, c.peer, c.tail, code, said)
		}
	}
	c, err := parse([]byte(strings.ReplaceAll(fmt.Sprintf(small, "", peer, ""), "DIR", dir)))
	if err != nil {
		t.Fatal(err)
	}
	if c.heartbeat != 50*time.Millisecond || c.election != 250*time.Millisecond || c.compact != time.Hour || c.Store.Quota != 256 {
		t.Errorf("the defaults are %v, %v, %v, %d", c.heartbeat, c.election, c.compact, c.Store.Quota)
	}
	if e := c.etcd("new", nil); e.QuotaBackendBytes != 256<<20 || e.ElectionMs != 250 || e.TickMs != 50 || e.AutoCompactionRetention != "1h0m0s" {
		t.Errorf("etcd has %d, %d, %d, %s", e.QuotaBackendBytes, e.ElectionMs, e.TickMs, e.AutoCompactionRetention)
	}
}

// TestDocs checks the configurations of docs/etcd.md, with certificates that are there.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/etcd.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, found := certificates(t), 0
	for _, block := range strings.Split(string(text), "```toml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		found++
		block = strings.NewReplacer("/etc/causeway/etcd.crt", "DIR/a.crt", "/etc/causeway/etcd.key", "DIR/a.key", "/etc/causeway/ca.crt", "DIR/ca.crt").Replace(block)
		if code, said := check(t, dir, block); code != exitOK {
			t.Errorf("%s%s", block, said)
		}
	}
	if found < 2 {
		t.Errorf("%d configurations were found", found)
	}
}

// FuzzParse checks that no text makes parse panic, and that what it rejects is rejected in one line.
func FuzzParse(f *testing.F) {
	for _, c := range bad {
		f.Add(fmt.Sprintf(small, c.head, c.peer, c.tail))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := parse([]byte(text)); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%v", err)
		} else if err == nil {
			c.etcd("new", nil)
		}
	})
}
