// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	words "causeway/app/command"
	"causeway/lcore"
)

// shellCommands splits a line as a shell would, as far as documents need it: into words, and at what separates
// commands. Redirections and comments are left out.
func shellCommands(line string) (all [][]string) {
	var now []string
	var word strings.Builder
	quoted, begun, skip := false, false, false
	endWord := func() {
		if begun && !skip {
			now = append(now, word.String())
		}
		skip = skip && !begun
		word.Reset()
		begun = false
	}
	endCommand := func() {
		endWord()
		if len(now) > 0 {
			all = append(all, now)
		}
		now, skip = nil, false
	}
	for _, r := range line {
		switch {
		case r == '\'' || r == '"':
			quoted, begun = !quoted, true
		case quoted:
			word.WriteRune(r)
		case r == '#' && !begun:
			endCommand()
			return all
		case strings.ContainsRune("|;&", r):
			endCommand()
		case strings.ContainsRune("<>()", r):
			endWord()
			skip = r == '>' || r == '<'
		case r == ' ' || r == '\t':
			endWord()
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	endCommand()
	return all
}

// ours returns the words after "causeway" in a command that runs it, directly or through sudo and the like.
func ours(command []string) ([]string, bool) {
	if len(command) > 0 && command[0] == "$" {
		command = command[1:]
	}
	if len(command) > 0 && command[0] == "sudo" {
		command = command[1:]
	}
	if len(command) > 4 && slices.Equal(command[:3], []string{"ip", "netns", "exec"}) {
		command = command[4:]
	}
	if len(command) == 0 || command[0] != "causeway" && command[0] != "bin/causeway" {
		return nil, false
	}
	return command[1:], true
}

// wrongLine says what is wrong about the words after "causeway"; "": nothing. It runs the subcommand with -h after all
// the flags, which parses them and does nothing else.
func wrongLine(t *testing.T, args []string) string {
	if len(args) == 0 {
		return ""
	}
	c, ok := find(args[0])
	if !ok {
		return fmt.Sprintf("there is no command %q", args[0])
	}
	takes := map[string]bool{}
	for _, f := range helpOf(t, c).flags {
		takes[f.name] = f.value != ""
	}
	var flags []string
	args = args[1:]
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && args[0] != "-" {
		name, _, joined := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
		n := 1
		if takes[name] && !joined {
			n = 2
		}
		if len(args) < n {
			return "-" + name + " has no value"
		}
		flags, args = append(flags, args[:n]...), args[n:]
	}
	var wrong strings.Builder
	if code := c.run(append(flags, "-h"), io.Discard, &wrong); code != exitOK {
		return wrong.String()
	}
	switch c.name {
	case "ctl":
		return wrongWords(args)
	case "help":
		if _, ok := find(strings.Join(args, " ")); !ok && len(args) > 0 && args[0] != "COMMAND" {
			return fmt.Sprintf("there is no command %q", args)
		}
	}
	return ""
}

// wrongWords says what is wrong about a command to a bridge's console.
func wrongWords(args []string) string {
	if n := len(args); n > 0 && args[n-1] == "-json" {
		args = args[:n-1]
	}
	if _, err := words.Standard.ParseWords(args); err != nil {
		return "ctl: " + err.Error()
	}
	return ""
}

func TestDocsLines(t *testing.T) {
	for line, right := range map[string]bool{
		"sudo causeway ctl show drops | jq .":                      true,
		"causeway ctl show drops '|' count > x":                    true,
		"causeway ctl show drops '|' sum":                          false,
		"causeway ctl show hots":                                   false,
		"causeway doctor -fixes FILE":                              true,
		"causeway doctor -fix FILE":                                false,
		"causeway chek FILE":                                       false,
		"sudo ip netns exec h causeway send -on packet:e -rate 1k": true,
		"causeway send -on packet:e -rate fast":                    false,
		"true && causeway run -c FILE # comment":                   true,
		"true && causeway run -f FILE":                             false,
	} {
		wrong, found := "", false
		for _, c := range shellCommands(line) {
			if args, ok := ours(c); ok {
				wrong, found = wrong+wrongLine(t, args), true
			}
		}
		if !found || (wrong == "") != right {
			t.Errorf("%s: found %v, %q", line, found, wrong)
		}
	}
}

// TestDocsCommands checks that every command in the documents exists, with its flags, and with its console command.
func TestDocsCommands(t *testing.T) {
	found := 0
	for _, d := range documents(t) {
		if d.made() {
			continue
		}
		lines := slices.Clone(d.inline)
		for _, b := range d.blocks {
			for i, line := range strings.Split(b.text, "\n") {
				lines = append(lines, span{b.line + i, line})
			}
		}
		for _, l := range lines {
			for _, c := range shellCommands(l.text) {
				if args, ok := ours(c); ok {
					found++
					if wrong := wrongLine(t, args); wrong != "" {
						t.Errorf("%s:%d: %s: %s", d.path, l.line, l.text, wrong)
					}
				}
			}
		}
	}
	if found < 60 {
		t.Errorf("only %d commands were found", found)
	}
}

// TestDocsConsole checks that console commands named within the text are commands, or their beginnings.
func TestDocsConsole(t *testing.T) {
	found := 0
	for _, d := range documents(t) {
		for _, s := range d.inline {
			first, _, more := strings.Cut(s.text, " ")
			known, beginning := false, false
			for _, c := range words.Standard.Commands {
				known = known || strings.HasPrefix(c.Path+" ", first+" ")
				beginning = beginning || strings.HasPrefix(c.Path+" ", s.text+" ")
			}
			if d.made() || !known || !more {
				continue
			}
			found++
			if _, err := words.Standard.Parse(s.text); err != nil && !beginning {
				t.Errorf("%s:%d: `%s`: %v", d.path, s.line, s.text, err)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d of the console's commands were found", found)
	}
}

// known is every name that the project defines, by where it is defined.
type known struct{ metrics, keys, names map[string]bool }

// others are names with an underscore that are not the project's.
var others = strings.Fields(`af_packet gc_thresh2 gc_thresh3 rdma_cm rdma_rxe rdma_join_multicast rdma_connect rdma_getaddrinfo rdma_resolve_addr ib_umad rte_flow
	roce_to_ib ib_to_roce max_cqe max_qp max_srq_wr net_tap out_of_buffer proxy_arp mlx5_core mlx5_ib ib_uverbs sweep_interval mlx5_bond_0 proxy_ndp
	consolidate_ipv6_snm_req`)

var (
	metricRow = regexp.MustCompile("(?m)^\\| `(causeway_[a-z0-9_]+)`")
	anyRow    = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)`")
	section   = regexp.MustCompile(`^\[+([a-z_]+)\]+$`)
	lossName  = regexp.MustCompile(`(?m)^(?:SEND|RECV)_DROP\((\w+),`)
)

func readNames(t *testing.T) known {
	read := func(path ...string) string {
		data, err := os.ReadFile(filepath.Join(append([]string{root(t)}, path...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	k := known{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for _, m := range metricRow.FindAllStringSubmatch(read("docs", "metrics.md"), -1) {
		k.metrics[m[1]] = true
	}
	for _, part := range strings.Split(read("docs", "configuration.md"), "\n## ")[1:] {
		head, body, _ := strings.Cut(part, "\n")
		m := section.FindStringSubmatch(head)
		if m == nil {
			t.Fatalf("docs/configuration.md: the section %q is no table", head)
		}
		for _, row := range anyRow.FindAllStringSubmatch(body, -1) {
			k.keys[m[1]+"."+row[1]], k.names[row[1]] = true, true
		}
	}
	for _, m := range anyRow.FindAllStringSubmatch(read("docs", "log.md"), -1) {
		k.names[m[1]] = true
	}
	for _, m := range lossName.FindAllStringSubmatch(read("ibside", "verbs", "drops.def"), -1) {
		k.names[m[1]] = true
	}
	for _, d := range lcore.Drops() {
		k.names[d.String()] = true
	}
	for _, name := range others {
		k.names[name] = true
	}
	for name := range k.metrics { // the text shortens causeway_nodes_absent_total to nodes_absent
		short := strings.TrimPrefix(strings.TrimSuffix(name, "_total"), "causeway_")
		k.names[short] = true
	}
	return k
}

var (
	metricName = regexp.MustCompile(`^causeway_[a-z0-9_]+(…?)$`)
	keyName    = regexp.MustCompile(`^\[+([a-z]+)\]+ ([a-z0-9_]+)`)
	snakeName  = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)+$`)
	testName   = regexp.MustCompile(`^Test[A-Z]\w+$`)
	alertName  = regexp.MustCompile(`^Causeway[A-Z]\w+$`)
	fileName   = regexp.MustCompile(`^[a-z][\w/.*-]*\.(go|c|h|def)$`)
)

// wrongName says what is wrong about a piece of code in a text, if its form shows what kind of name it is; "": nothing.
func (k known) wrongName(s string, tests, alerts string, files []string) string {
	switch m := keyName.FindStringSubmatch(s); {
	case m != nil && !k.keys[m[1]+"."+m[2]]:
		return "the configuration has no such key"
	case m != nil:
		return ""
	case strings.HasSuffix(s, "…") && metricName.MatchString(s):
		for name := range k.metrics {
			if strings.HasPrefix(name, strings.TrimSuffix(s, "…")) {
				return ""
			}
		}
		return "no metric begins like this"
	case metricName.MatchString(s) && !k.metrics[s] && !k.metrics[strings.TrimSuffix(s, "_bucket")]:
		return "there is no such metric"
	case metricName.MatchString(s):
		return ""
	case snakeName.MatchString(s) && !k.names[s]:
		return "it is no drop reason, key, event or metric; if it is somebody else's name, add it to others in this test"
	case testName.MatchString(s) && !strings.Contains(tests, "func "+s+"("):
		return "there is no such test"
	case alertName.MatchString(s) && !strings.Contains(alerts, "alert: "+s+"\n"):
		return "there is no such alert"
	case fileName.MatchString(s) && !slices.ContainsFunc(files, func(f string) bool { return isFile(s, f) }):
		return "there is no such file"
	}
	return ""
}

// isFile reports whether a name means a path of the project: the path, its last part, or a pattern of either.
func isFile(name, path string) bool {
	whole, _ := filepath.Match(name, path)
	last, _ := filepath.Match(name, filepath.Base(path))
	return whole || last
}

// TestDocsNames checks that drop reasons, keys, events, metrics, alerts, tests and files that the documents name exist.
func TestDocsNames(t *testing.T) {
	k := readNames(t)
	alerts, err := os.ReadFile(filepath.Join(root(t), "docs", "alerts", "causeway.rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	var files []string
	for _, s := range sources(t, ".go", ".c", ".h", ".def") {
		files = append(files, s.path)
		if strings.HasSuffix(s.path, "_test.go") {
			tests.WriteString(s.text)
		}
	}
	for wrong, what := range map[string]bool{"[roce] mtv": true, "[roce] mtu": false, "causeway_port_…": false, "causeway_x_total": true,
		"mc_unknown": false, "mc_unknow": true, "TestDocsNames": false, "icrc*.c": false, "lcore/x.c": true} {
		if got := k.wrongName(wrong, tests.String(), string(alerts), files); (got != "") != what {
			t.Errorf("%s: %q", wrong, got)
		}
	}
	for _, d := range documents(t) {
		if d.made() {
			continue
		}
		for _, s := range d.inline {
			if wrong := k.wrongName(s.text, tests.String(), string(alerts), files); wrong != "" {
				t.Errorf("%s:%d: `%s`: %s", d.path, s.line, s.text, wrong)
			}
		}
	}
}
