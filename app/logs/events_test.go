// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/log.md")

const root = "../.."

// A call is one place in the source that logs.
type call struct {
	where  string
	event  string // "" when it is not a literal
	levels []string
}

// levelOf maps the methods of slog.Logger that log to their levels; Log takes its level as an argument.
var levelOf = map[string]string{"Debug": "debug", "Info": "info", "Warn": "warn", "Error": "error", "Log": ""}

// calls returns every place of the bridge's own source that logs. Log's level cannot be determined here, nor can an
// event in a variable: then any literal of the function that looks like an event counts.
func calls(t *testing.T) (all []call) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() && slices.Contains([]string{"perf", "testdata", ".git", "bin", "e2e"}, e.Name()) {
			return orSkip(err)
		}
		if e.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok {
				if found, ok := logging(c); ok {
					found.where = files.Position(c.Pos()).String()
					all = append(all, found)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("only %d places that log were found: this test looks in the wrong place", len(all))
	}
	return all
}

func orSkip(err error) error {
	if err != nil {
		return err
	}
	return fs.SkipDir
}

// logging reports whether a call is x.log.Info("event", …) or the like.
func logging(c *ast.CallExpr) (call, bool) {
	method, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return call{}, false
	}
	level, ok := levelOf[strings.TrimSuffix(method.Sel.Name, "Context")]
	on := ""
	switch x := method.X.(type) {
	case *ast.Ident:
		on = x.Name
	case *ast.SelectorExpr:
		on = x.Sel.Name
	}
	if !ok || !slices.Contains([]string{"log", "logger", "Log"}, on) {
		return call{}, false
	}
	at := 0
	if level == "" {
		at = 2 // context, level
	} else if strings.HasSuffix(method.Sel.Name, "Context") {
		at = 1
	}
	out := call{levels: []string{level}}
	if at < len(c.Args) {
		if s, ok := c.Args[at].(*ast.BasicLit); ok && s.Kind == token.STRING {
			out.event, _ = strconv.Unquote(s.Value)
		}
	}
	return out, true
}

// TestEvents checks that each event of the source is in the list, at its level, and each of the list in the source.
func TestEvents(t *testing.T) {
	known, used := map[string]event{}, map[string]bool{"suppressed": true, "log_lost": true}
	for _, e := range events {
		if known[e.Name].Name != "" {
			t.Errorf("%s is in the list twice", e.Name)
		}
		known[e.Name] = e
	}
	for _, c := range calls(t) {
		if c.event == "" {
			continue // a variable: see variables
		}
		used[c.event] = true
		e, ok := known[c.event]
		if !ok {
			t.Errorf("%s: the event %q is not in app/logs/list_test.go: name it there with what it means, and run go test ./app/logs -update", c.where, c.event)
		} else if c.levels[0] != "" && !slices.Contains(strings.Fields(e.Level), c.levels[0]) {
			t.Errorf("%s: %q is logged at %s, and the list says %s", c.where, c.event, c.levels[0], e.Level)
		}
	}
	for file, names := range variables {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Error(err)
		}
		for _, name := range names {
			used[name] = true
			if known[name].Name == "" || !strings.Contains(string(text), strconv.Quote(name)) {
				t.Errorf("%s: %q is not in the list, or not in the file", file, name)
			}
		}
	}
	for _, e := range events {
		if !used[e.Name] {
			t.Errorf("nothing logs %q: remove it from the list", e.Name)
		}
	}
}

// variables are the events that reach a logger in a variable, by the file that has their names. A new such place must
// be added here.
var variables = map[string][]string{
	"lcore/manage/learner/learned.go":   {"node_aged", "node_evicted", "node_lost", "node_moved_away"},
	"lcore/manage/gids/aliases.go":      {"host_alias", "host_alias_failed", "host_alias_dropped"},
	"lcore/manage/neighbours/claims.go": {"host_moved", "host_flapping"},
}

// TestVariables checks that there is no further place whose event is in a variable: such an event would be in no list.
func TestVariables(t *testing.T) {
	for _, c := range calls(t) {
		file, _ := filepath.Rel(root, strings.SplitN(c.where, ":", 2)[0])
		if c.event == "" && variables[file] == nil {
			t.Errorf("%s: the event is not a literal; write one, or name it in variables of this test", c.where)
		}
	}
}

// TestReference checks that docs/log.md agrees with the list.
func TestReference(t *testing.T) {
	file := filepath.Join(root, "docs", "log.md")
	if *update {
		if err := os.WriteFile(file, []byte(reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != reference() {
		t.Errorf("docs/log.md does not agree with list_test.go (%v); run go test ./app/logs -run TestReference -update", err)
	}
}
