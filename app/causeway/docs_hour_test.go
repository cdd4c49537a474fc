// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// elsewhere matches the documents' commands that other tests run, or that built this program.
var elsewhere = regexp.MustCompile(`^(sudo make deb|sudo causeway demo$|sudo make|make )`)

// TestDocsFirstHour does what docs/first-hour.md says, command by command, and compares what each prints with what the
// page says that it prints. The test does what systemd would do.
func TestDocsFirstHour(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	w.replace = strings.NewReplacer("/etc/causeway", w.dir)
	w.complete = true
	for _, b := range blocksOf(t, filepath.Join("docs", "first-hour.md"), "") {
		w.follow(b)
	}
	if w.ran < 20 || w.shown < 15 || w.bridge == nil || !strings.Contains(w.bridge.stderr.String(), "conserved=true") {
		t.Errorf("%d commands were run, %d outputs compared; the bridge is %v", w.ran, w.shown, w.bridge)
	}
}

// TestDocsReadme does what README.md says under "A first configuration", on a machine with nothing: packets cross both
// ways.
func TestDocsReadme(t *testing.T) {
	w := newWalk(t)
	for _, b := range blocksOf(t, "README.md", "## A first configuration") {
		w.follow(b)
	}
	if w.bridge == nil || w.ran < 12 {
		t.Fatalf("%d commands were run; the bridge is %v", w.ran, w.bridge)
	}
	listened := 0
	for _, s := range w.started {
		if strings.Contains(s.line, "causeway listen") {
			listened++
			if code := s.wait(); code != exitOK || !strings.Contains(s.stdout.String(), " 10 received") || !strings.Contains(s.stdout.String(), "; 0 lost") {
				t.Errorf("%s: exit code %d\n%v%v", s.line, code, &s.stdout, &s.stderr)
			}
		}
	}
	w.bridge.end(syscall.SIGINT)
	if listened != 2 || strings.Count(w.bridge.stderr.String(), "conserved=true") != 2 {
		t.Errorf("%d listeners; the bridge said\n%v", listened, &w.bridge.stderr)
	}
}

// blocksOf returns the blocks of a document; with a heading, those below it until the next.
func blocksOf(t *testing.T, path, under string) (blocks []block) {
	t.Helper()
	for _, d := range documents(t) {
		if d.path != path {
			continue
		}
		first, last := 0, strings.Count(d.text, "\n")
		if before, after, found := strings.Cut(d.text, under+"\n"); under != "" && found {
			first = strings.Count(before, "\n")
			section, _, _ := strings.Cut(after, "\n## ")
			last = first + strings.Count(section, "\n")
		}
		for _, b := range d.blocks {
			if b.line > first && b.line <= last {
				blocks = append(blocks, b)
			}
		}
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has no blocks below %q", path, under)
	}
	return blocks
}

// mistaken checks the bridge's file with the mistake that the page describes, and returns what check prints.
func (w *walk) mistaken() string {
	file := filepath.Join(w.dir, "bridge.toml")
	good, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	bad := strings.Replace(string(good), "ip = \"239.1.2.3\"\n", "ip = \"239.1.2.3\"\nmgid = \"rdmacn\"\n", 1)
	if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
		w.t.Fatal(err)
	}
	out, _ := w.command("causeway check " + file).CombinedOutput() // it exits with 1
	if err := os.WriteFile(file, good, 0o600); err != nil {
		w.t.Fatal(err)
	}
	return string(out)
}

// shims are the programs that the walk's commands find first: sudo, because the test is root already, and causeway.
func (w *walk) shims() {
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		w.t.Fatal(err)
	}
	for _, dir := range []string{"bin", "path"} {
		if err := os.Mkdir(filepath.Join(w.dir, dir), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.Symlink(self, filepath.Join(w.dir, dir, "causeway")); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(w.dir, "path", "sudo"), []byte("#!/bin/sh\nexec \"$@\"\n"), 0o755); err != nil {
		w.t.Fatal(err)
	}
}

// command makes a process from a line, in the walk's namespaces and folder.
func (w *walk) command(line string) *exec.Cmd {
	script := `cd "` + w.dir + `" && PATH="` + w.dir + `/path:$PATH" && ` + line
	cmd := exec.Command(w.here[0], append(w.here[1:len(w.here):len(w.here)], "bash", "-c", script)...)
	cmd.Env = append(os.Environ(), mainVariable+"=1")
	return cmd
}
