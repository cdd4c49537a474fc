// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package packaging

import (
	"os"
	"regexp"
	"strings"
)

// etcd sets up the first voter, as docs/etcd.md says, alone; saves and restores what it has; and has a fleet's program use it.
func (m *machine) etcd() {
	must(m.t, "nsenter", "-t", m.leader, "-n", "ip", "address", "add", "10.9.0.1/32", "dev", "lo")
	m.says("rm -rf /var/lib/etcd/default")
	m.says("openssl req")
	m.says("install -d /etc/etcd")
	m.writes("/etc/default/etcd", "ETCD_NAME")
	m.must("mkdir", "-p", "/etc/systemd/system/etcd.service.d")
	m.writes("/etc/systemd/system/etcd.service.d/fleet.conf", "[Service]")
	m.says("systemctl start etcd") // returns when it serves
	variables := m.document("export ETCDCTL_API")
	if out := m.sh(variables); !strings.Contains(out, "3.4.") {
		m.t.Errorf("the voter is\n%s", out)
	}
	variables, _, _ = strings.Cut(variables, "\nsudo")
	m.sh(variables + "\netcdctl put kept it\n" + m.document("snapshot save"))
	m.sh(variables + "\netcdctl put undone it")
	m.says("snapshot restore")
	if out := m.sh(variables + "\netcdctl get kept; etcdctl get undone"); out != "kept\nit" {
		m.t.Errorf("restored is %q", out)
	}
	files := strings.NewReplacer("ca.crt", "/root/ca.crt", "bridge.crt", "/root/10.9.0.1.crt", "bridge.key", "/root/10.9.0.1.key")
	rehearse := files.Replace(strings.TrimSpace(m.document("fleet rehearse")))
	if out := m.sh("timeout 5 " + rehearse + " </dev/null || true"); !strings.Contains(out, "64 host shards") {
		m.t.Errorf("a bridge's rehearsal says\n%s", out)
	}
	m.must("systemctl", "stop", "etcd")
}

var (
	fence    = regexp.MustCompile("(?m)^ *```[a-z]*\n?")
	indented = regexp.MustCompile("(?m)^   ")
	ofOthers = regexp.MustCompile(`,(voter-[bc]=)?https://10\.9\.0\.[23]:\d+| -etcd https://10\.9\.0\.[23]:\d+`)
)

// document returns the block of docs/etcd.md that has some words, for the first machine alone.
func (m *machine) document(words string) string {
	m.t.Helper()
	text, err := os.ReadFile("../docs/etcd.md")
	if err != nil {
		m.t.Fatal(err)
	}
	for i, block := range fence.Split(string(text), -1) {
		if i%2 != 0 && strings.Contains(block, words) {
			return ofOthers.ReplaceAllString(indented.ReplaceAllString(block, ""), "")
		}
	}
	m.t.Fatalf("docs/etcd.md has no block with %q", words)
	return ""
}

// sh has root do what a script says, which stops at its first failure.
func (m *machine) sh(script string) string {
	m.t.Helper()
	return m.must("sh", "-ec", "cd /root; sudo() { [ $1 = -E ] && shift; \"$@\"; }\n"+script)
}

// says does what the document says.
func (m *machine) says(words string) {
	m.t.Helper()
	m.sh(m.document(words))
}

// writes writes a file that the document has.
func (m *machine) writes(file, words string) {
	m.t.Helper()
	m.must("sh", "-c", "cat >"+file+" <<'END'\n"+m.document(words)+"END\n")
}
