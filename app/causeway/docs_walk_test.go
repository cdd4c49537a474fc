// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A walk follows a document: it writes its files and runs its commands, in namespaces and a folder of the test's own.
// The folder is where a reader would be, and /run is empty.
type walk struct {
	t        *testing.T
	began    time.Time
	here     place
	dir      string
	replace  *strings.Replacer // what of the document is elsewhere here
	complete bool              // a command whose output the document does not show prints nothing
	played   bool              // an InfiniBand node

	bridge  *program
	started []*said
	last    *said // the last command that ended by itself
	ran     int   // commands
	shown   int   // outputs that were compared
}

// said is a command and what it printed: a process, or the output of one that has ended.
type said struct {
	*program
	line  string
	out   string
	shown bool
}

func newWalk(t *testing.T) *walk {
	t.Helper()
	needNamespaces(t)
	dir, err := os.MkdirTemp("", "walk") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &walk{t: t, began: time.Now(), dir: dir, replace: strings.NewReplacer()}
	w.here = newPlaceWith(t, "-m", "mount -t tmpfs tmpfs /run && ip link set lo up")
	w.shims()
	return w
}

// follow carries out a block of the document: a file, commands, or what they print.
func (w *walk) follow(b block) {
	w.t.Helper()
	switch lines := strings.Split(strings.TrimSpace(b.text), "\n"); {
	case b.language == "toml":
		w.write(b.text)
	case b.language != "":
	case strings.HasPrefix(b.text, "config:"):
		if got := w.mistaken(); got != w.replace.Replace(b.text) {
			w.t.Errorf("line %d: check printed\n%s", b.line, got)
		}
	case b.text == "Ctrl-C\n":
		for _, s := range w.running() {
			s.end(syscall.SIGINT)
		}
	case isCommand(lines[0]):
		for _, line := range lines {
			w.step(line)
		}
	default:
		w.expect(b)
	}
}

// isCommand distinguishes commands from their output.
func isCommand(line string) bool {
	word, _, _ := strings.Cut(line, " ")
	return slices.Contains([]string{"sudo", "causeway", "make", "bin/causeway"}, word)
}

// write writes a block of configuration to its file: the subnet's, the bridge's, or lines to append to the bridge's.
func (w *walk) write(text string) {
	name := "bridge.toml"
	if strings.Contains(text, "[fabric]") {
		name = "subnet.toml"
	}
	if cpu := firstCPU(w.t); cpu != 0 { // the test may not use the CPU that every machine has
		text = strings.Replace(text, "lcores = [0]", fmt.Sprintf("lcores = [%d]", cpu), 1)
	}
	file := filepath.Join(w.dir, name)
	before, err := os.ReadFile(file)
	if err == nil {
		before = append(before, '\n')
	}
	if err := os.WriteFile(file, append(before, text...), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// step runs a command of the document.
func (w *walk) step(line string) {
	w.t.Helper()
	line, _, _ = strings.Cut(line, "  #")
	line = strings.TrimSpace(line)
	if elsewhere.MatchString(line) {
		return
	}
	if l := w.last; w.complete && l != nil && !l.shown && l.out != "" && !strings.Contains(l.line, "doctor") {
		w.t.Errorf("%s printed what the document does not show:\n%s", l.line, l.out)
	}
	w.t.Logf("%4.1f s: %s", time.Since(w.began).Seconds(), line)
	w.ran++
	w.do(line, w.replace.Replace(line))
}

// do runs a command: those of systemctl by signals to the bridge, and those that do not end in the background.
func (w *walk) do(line, here string) {
	w.t.Helper()
	w.last = nil
	if strings.Contains(line, "-on fabric:") {
		w.awaitGone()
	}
	switch {
	case strings.HasPrefix(line, "sudo systemctl start"):
		w.startBridge("causeway run -c " + filepath.Join(w.dir, "bridge.toml"))
	case strings.Contains(line, "causeway run"):
		w.startBridge(here)
	case strings.HasPrefix(line, "sudo systemctl reload"):
		if err := w.bridge.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			w.t.Fatal(err)
		}
		w.bridge.awaitLine("msg=reloaded")
	case strings.HasPrefix(line, "sudo systemctl stop"):
		w.bridge.end(syscall.SIGTERM)
	case strings.Contains(line, "causeway listen"), strings.Contains(line, "causeway send") && (strings.Contains(line, "60s") || strings.Contains(line, "caller")):
		s := &said{program: start(w.t, w.command("exec "+here)), line: line}
		w.started = append(w.started, s)
		s.await("its first line", func() bool { return strings.Contains(s.stdout.String(), "\n") })
		w.awaitNode(s)
	default:
		w.last = &said{line: line}
		w.run(w.last)
		w.heard(line)
	}
}

// lidOf finds an InfiniBand node's LID in its first line.
var lidOf = regexp.MustCompile(` lid=(0x[0-9a-f]+) `)

// awaitNode waits until the bridge knows the path to a node that has begun, as a reader does who is no faster: until
// then what the node sends without a GRH is of an unknown source.
func (w *walk) awaitNode(s *said) {
	w.bridge.awaitLine("msg=ready")
	at := lidOf.FindStringSubmatch(s.stdout.String())
	if at == nil {
		return // a RoCE host
	}
	known := regexp.MustCompile(at[1] + ` .* resolved\b`)
	s.await("its path", func() bool {
		out, err := w.command("causeway ctl show nodes").CombinedOutput()
		return err == nil && known.Match(out)
	})
}

// present matches a node's row while the bridge takes it to be there.
var present = regexp.MustCompile(`\b(resolved|stale)\b`)

// awaitGone waits until the bridge knows that the node that played before has gone. A notice that comes after the next
// one has begun would make that one's LID stale for a moment.
func (w *walk) awaitGone() {
	for deadline := time.Now().Add(within); w.played; time.Sleep(10 * time.Millisecond) {
		out, err := w.command("causeway ctl show nodes").CombinedOutput()
		if err == nil && !present.Match(out) {
			break
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("the node that played before has not gone: %v\n%s", err, out)
		}
	}
	w.played = true
}

// heard waits until the listeners have what a sender has sent, as a reader does, who sees them end.
func (w *walk) heard(line string) {
	for _, s := range w.running() {
		if strings.Contains(line, "causeway send") && strings.Contains(s.line, "causeway listen") && strings.Contains(s.line, "-count") {
			s.wait()
		}
	}
}

// startBridge starts the bridge, and waits until only its node is missing.
func (w *walk) startBridge(line string) {
	w.bridge = start(w.t, w.command("exec "+line))
	w.bridge.awaitLine("msg=console")
	w.bridge.awaitLine("path_missing")
}

// run runs a command that ends. Only doctor may exit with findings.
func (w *walk) run(s *said) {
	w.t.Helper()
	line := w.replace.Replace(s.line)
	if strings.HasSuffix(line, "ctl top") {
		line += " count 1" // q would end it
	}
	cmd := w.command(line)
	out, err := cmd.CombinedOutput()
	if doctor := strings.HasPrefix(line, "causeway doctor") && cmd.ProcessState.ExitCode() == exitFailed; err != nil && !doctor {
		w.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	s.out = string(out)
}

// running are the programs that have not ended.
func (w *walk) running() (all []*said) {
	for _, s := range w.started {
		select {
		case <-s.done:
		default:
			all = append(all, s)
		}
	}
	return all
}

// expect checks that the last command, or one that was started before, printed what the block says. It asks the bridge
// again until then, because counters lag behind traffic.
func (w *walk) expect(b block) {
	w.t.Helper()
	w.shown++
	want := settled(w.replace.Replace(b.text))
	for deadline := time.Now().Add(within); ; time.Sleep(100 * time.Millisecond) {
		got := ""
		for _, s := range w.candidates() {
			if x := settled(s.out); x == want {
				s.shown = true
				return
			} else {
				got += s.line + ":\n" + s.out + "\n" + x + "\n"
			}
		}
		if time.Now().After(deadline) {
			drops, _ := w.command("causeway ctl show drops").CombinedOutput()
			w.t.Fatalf("line %d of the document: no command printed\n%s\nbut\n%s\nshow drops:\n%s\nthe bridge:\n%v", b.line, want, got, drops, &w.bridge.stderr)
		}
		if w.last != nil && strings.Contains(w.last.line, " ctl ") {
			w.run(w.last)
		}
	}
}

// candidates are the last command and those started before, with what they have printed.
func (w *walk) candidates() (all []*said) {
	if w.last != nil {
		all = append(all, w.last)
	}
	for _, s := range w.started {
		s.out = s.stdout.String()
		all = append(all, s)
	}
	return all
}
