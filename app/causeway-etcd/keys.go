// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"causeway/config"
)

// A key is one key of the file.
type key struct {
	table   string // "" is the file's beginning
	name    string
	def     string // in words or in the form of the file
	meaning string
}

// keys lists the keys in the order in which a file usually has them.
var keys = []key{
	{"", "name", "none, it is needed", "The name of this voter, one of those of [[member]]."},
	{"", "data", `"/var/lib/causeway-etcd"`, "The data directory, on a disk that survives restarts."},
	{"", "insecure", "false", "Whether URLs beyond this machine may be http://, which anybody on the network can read, and write to."},
	{"clients", "listen", `["http://127.0.0.1:2379"]`, "The URLs where bridges and other clients are served. The host is an address of this machine, or 0.0.0.0 or [::] for all."},
	{"clients", "advertise", "listen", "The URLs of this voter that clients are told; needed where listen has all addresses of the machine."},
	{"clients", "cert", "none", "The certificate with which it shows clients who it is, for https://, in PEM. It is also its own client certificate, so it needs both uses."},
	{"clients", "key", "none", "The certificate's private key, in PEM."},
	{"clients", "ca", "none", "The authority, in PEM, by which clients must have a certificate. Without it everybody who reaches an https:// URL is served."},
	{"peers", "listen", "the peer URL of this voter's [[member]]", "The URLs where other voters are served. The default needs an address as the host, not a name."},
	{"peers", "cert", "none", "The certificate with which voters show each other who they are, for https://, in PEM. It needs both uses, and the addresses of the peer URLs."},
	{"peers", "key", "none", "The certificate's private key, in PEM."},
	{"peers", "ca", "none", "The authority, in PEM, by which other voters must have a certificate; needed with cert."},
	{"member", "name", "none, it is needed", "A voter's name. [[member]] stands once for each of them, this one included, alike in all files: one, three or five."},
	{"member", "peer", "none, it is needed", "The URL by which the other voters reach it."},
	{"metrics", "listen", "none", "A further URL for metrics in Prometheus' form, at /metrics, and for /health. Clients' URLs have them, too."},
	{"raft", "heartbeat", `"50ms"`, "How often the leader tells the others that it is there; alike in all files."},
	{"raft", "election", `"250ms"`, "How long the others miss that before they elect another: at least five heartbeats, and at most a quarter of what a fleet's right lasts. Alike in all files."},
	{"store", "quota_mib", "256", "The most that the data may take, in MiB, 16 to 8192; beyond it only reads and deletions are served."},
	{"store", "compact", `"1h"`, "How long past states are kept, at least; one minute to a day."},
	{"log", "level", `"info"`, `"debug", "info", "warn" or "error". Of etcd's own messages those that warn are logged, in any case but "error".`},
	{"log", "format", `"text"`, `"text" or "json".`},
}

// header returns a table as a file has it.
func header(table string) string {
	if table == "member" {
		return "[[member]]"
	}
	return "[" + table + "]"
}

// keysHelp returns all keys as text.
func keysHelp() string {
	var b strings.Builder
	last := ""
	for _, k := range keys {
		if k.table != last {
			fmt.Fprintf(&b, "  %s\n", header(k.table))
			last = k.table
		}
		fmt.Fprintf(&b, "    %-10s %s Default: %s.\n", k.name, k.meaning, strings.TrimSuffix(k.def, "."))
	}
	return b.String()
}

// unknownKey says what is wrong about a key that the file may not have, by its parts.
func unknownKey(parts []string, isTable bool) error {
	var tables []string
	names := map[string][]string{} // by table
	for _, k := range keys {
		if len(names[k.table]) == 0 && k.table != "" {
			tables = append(tables, k.table)
		}
		names[k.table] = append(names[k.table], k.name)
	}
	name := parts[len(parts)-1]
	switch {
	case len(parts) == 1 && isTable:
		return fmt.Errorf("table [%s] is not known; %s", name, suggestion(name, tables, "tables"))
	case len(parts) == 1:
		return fmt.Errorf("key %s is not known; %s", name, suggestion(name, names[""], "keys"))
	case len(names[parts[0]]) == 0:
		return fmt.Errorf("table [%s] is not known; %s", parts[0], suggestion(parts[0], tables, "tables"))
	}
	return fmt.Errorf("%s: key %s is not known; %s", header(parts[0]), name, suggestion(name, names[parts[0]], "keys"))
}

// suggestion returns what a word was probably meant to be, or else all words there are.
func suggestion(word string, known []string, what string) string {
	if near := config.Nearest(word, known); near != "" {
		return "did you mean " + near + "?"
	}
	return fmt.Sprintf("the %s are %s", what, strings.Join(known, ", "))
}
