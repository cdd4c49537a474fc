// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestDemoFleet checks that the demonstration of a fleet goes through all that happens to it, in order, and succeeds.
func TestDemoFleet(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	p := start(t, exec.Command(os.Args[0], "demo", "-fleet", "-duration", "2s"))
	if code := p.wait(); code != exitOK {
		t.Errorf("exit code %d\n%v", code, &p.stderr)
	}
	const each = `m1 2\d \+ 136\d, m2 2\d \+ 136\d, m3 2\d \+ 136\d\.\n`
	out := p.stdout.String()
	rest := out
	for _, want := range []string{
		`shards of hosts \+ of groups: ` + each, `to InfiniBand +to RoCE\n`, `sent +received +lost .* doubled +out of order\n`, `Shards: ` + each,
		`m2 is killed \(SIGKILL\)\.\n`, `Lost \d+ in \S+, until the others carried on\. Shards: m1 32 \+ 2048, m2 none, m3 32 \+ 2048\.\n`,
		`m2 is started again, and takes its part back\.\n`, `Shards: ` + each,
		`m3 is drained .*\n`, `Shards: m1 32 \+ 2048, m2 32 \+ 2048, m3 none\.\n`, `m3 resumes .*\n`, `Shards: ` + each,
		`lost +to InfiniBand +to RoCE +within\n`, `no fault +\d+ +\d+ +\S+\nm2 is killed +[1-9]\d* +\d+ +\S+\nm2 is back .*\nm3 is drained .*\nm3 resumes .*\n`,
		`\d+ messages sent in \d+ s, \d+ received, [1-9]\d* lost\.\n`, `Nothing came twice, and nothing out of order\. Each bridge accounts for every packet\.\n$`,
	} {
		at := regexp.MustCompile(want).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("there is no %q in\n%s\nthe end of\n%s%v", want, rest, out, &p.stderr)
		}
		rest = rest[at[1]:]
	}
	if strings.Contains(out, "\033") {
		t.Errorf("there are escape sequences in\n%q", out)
	}
}

// TestDemoFleetMisused checks what is said of what cannot be, in one line each.
func TestDemoFleetMisused(t *testing.T) {
	for _, flag := range []string{"-keep", "-fabrics=2", "-pcap=x"} {
		if code, _, said := try("demo", "-fleet", flag); code != exitUsage || !strings.Contains(said, "-fleet goes without") || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: exit code %d\n%s", flag, code, said)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("without root nothing more is looked for")
	}
	t.Setenv("PATH", t.TempDir())
	p := launch(t, "demo", "-fleet")
	if code, said := p.wait(), p.stderr.String(); code != exitFailed || !strings.Contains(said, "apt-get install etcd-server") || strings.Count(said, "\n") != 1 {
		t.Errorf("exit code %d\n%s", code, said)
	}
}
