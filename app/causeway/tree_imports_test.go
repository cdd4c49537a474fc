// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "causeway"

// mayImport says which of the project's packages a folder's packages may import. The longest folder that
// a package lies in counts; packages under one rule may import each other. In a list, "x" is the package
// x alone and "x/..." also what lies below it.
var mayImport = []struct {
	folder  string
	allowed string
	why     string
}{
	{"app", "config/... dpdk/... fleet/... ibside/... lcore/... tables/...", "app builds the bridge out of everything but perf, which measures it"},
	{"perf", "config dpdk/... fleet/shards ibside/... lcore/... tables/...", "perf measures the parts, not the program"},
	{"fleet", "ibside/ib lcore/frame", "who does which part of the work is decided without knowing how it is done"},
	{"lcore", "tables ibside/ib lcore/frame lcore/pgm dpdk", "the datapath knows neither which ports are attached nor what management does"},
	{"lcore/dryrun", "tables dpdk lcore ibside/fabricport", "the datapath between rings, for a packet that is not there"},
	{"lcore/manage", "tables ibside ibside/ib lcore/frame lcore/manage/...",
		"management reaches the datapath through tables and rings only, so that it can be tested without DPDK"},
	{"lcore/manage/groups", "tables ibside ibside/ib lcore/frame lcore/manage/groups/... " + manageTools, managePart},
	{"lcore/manage/neighbours", "tables ibside/ib lcore/frame lcore/manage/neighbours/... " + manageTools, managePart},
	{"lcore/manage/proxyqps", "tables ibside/ib lcore/frame " + manageTools, managePart},
	{"lcore/manage/sidr", "tables ibside ibside/ib lcore/frame lcore/frame/roce lcore/manage/proxyqps lcore/manage/sidr/... " + manageTools,
		managePart},
	{"lcore/manage/messages", "ibside/ib lcore/frame lcore/frame/roce " + manageTools, managePart},
	{"lcore/manage/nodes", "tables ibside ibside/ib " + manageTools, managePart},
	{"lcore/manage/learner", "tables ibside ibside/ib lcore/manage/nodes lcore/manage/learner/... " + manageTools, managePart},
	{"lcore/manage/learner/bounds", "", manageDecides},
	{"lcore/manage/gids", "tables ibside ibside/ib lcore/frame lcore/manage/gids/... " + manageTools, managePart},
	{"lcore/manage/groups/igmp", "lcore/frame", manageDecides},
	{"lcore/manage/groups/mgid", "ibside/ib", manageDecides},
	{"lcore/manage/neighbours/schedule", "lcore/frame", manageDecides},
	{"lcore/manage/gids/assignment", "ibside ibside/ib", manageDecides},
	{"lcore/manage/sidr/pending", "", manageDecides},
	{"lcore/manage/ask", "lcore/manage/inbox", manageTool},
	{"lcore/manage/inbox", "", manageTool},
	{"lcore/manage/local", "lcore/frame", manageTool},
	{"lcore/manage/punt", "ibside/ib lcore/frame", manageTool},
	{"lcore/manage/ratelog", "", manageTool},
	{"lcore/manage/limit", "", manageDecides},
	{"lcore/frame", "", "a codec knows nothing of the bridge"},
	{"lcore/frame/roce", "ibside/ib lcore/frame", "whole packets for programs that act as a RoCE host: both codecs, and nothing of the bridge"},
	{"ibside", "ibside/ib", "it says what an IB port is"},
	{"ibside/multicast", "ibside ibside/ib", "groups are alike for all ports"},
	{"ibside/messages", "ibside ibside/ib", "bridges send each other messages alike by all ports"},
	{"ibside/verbs", "dpdk ibside ibside/ib ibside/ipoib ibside/sa ibside/messages ibside/multicast", "a port knows nothing of the datapath"},
	{"ibside/verbs/mlx5mem", "", "a device knows nothing of the port"},
	{"ibside/fabricport", "dpdk ibside ibside/ib ibside/sa ibside/messages ibside/multicast ibside/fabric", "a port knows nothing of the datapath"},
	{"ibside/multipath", "dpdk ibside ibside/ib ibside/sa", "a port made of others knows neither their kinds nor the datapath"},
	{"ibside/fabric", "config/nesting ibside/ib ibside/sa ibside/stamp", "a subnet and its nodes know nothing of the bridge; nodes send test messages"},
	{"ibside/stamp", "", "test messages know nothing of what carries them"},
	{"ibside/acm", "ibside/ib", "files for InfiniBand nodes are written on any machine"},
	{"ibside/sa", "ibside ibside/ib", "subnet administration is MADs, over whichever port carries them"},
	{"ibside/ipoib", "ibside ibside/ib lcore/frame", "it reads the kernel's tables, and knows nothing of the bridge"},
	{"ibside/ib", "", "a codec knows nothing of the bridge"},
	{"tables", "ibside/ib", "tables do not know who reads them"},
	{"config", "config/nesting ibside/ib", "a configuration can be checked on any machine"},
	{"config/nesting", "", "a file format knows nothing of what is in it"},
	{"dpdk", "", "a thin binding has no policy"},
	{"packaging", "", "packages are tested from without"},
}

// manageTools are what each part of management may import of management.
const manageTools = "lcore/manage/ask lcore/manage/inbox lcore/manage/limit lcore/manage/local lcore/manage/punt lcore/manage/ratelog"

// Why the packages below management may import so little.
const (
	managePart    = "a part of management owns its state, and reaches other parts by interfaces that it declares"
	manageDecides = "it only decides; tables, ports and the clock are its caller's"
	manageTool    = "parts of management use it; it knows none of them"
)

// usesC lists the packages that may import "C": the ports, the datapath and the tables; a package that gives
// tests of one its C side; and, with all below it, perf.
var usesC = []string{"dpdk", "dpdk/dpdktest", "ibside/verbs", "ibside/verbs/verbstest", "ibside/verbs/mlx5mem",
	"ibside/verbs/mlx5mem/mlx5memtest", "ibside/fabricport", "ibside/fabricport/porttest", "ibside/multipath", "lcore", "lcore/icrctest", "lcore/pgm", "lcore/pgm/pgmtest", "lcore/probe", "lcore/mirror", "tables",
	"tables/tablestest", "perf"}

// pureGo lists the packages that may not have C even among what they import.
var pureGo = []string{"config", "ibside", "ibside/ib", "ibside/fabric", "ibside/messages", "ibside/multicast", "ibside/sa", "ibside/stamp", "ibside/acm", "ibside/ipoib",
	"lcore/frame", "lcore/frame/roce", "lcore/manage/groups/igmp", "lcore/manage/groups/mgid", "lcore/manage/neighbours/schedule",
	"lcore/manage/gids/assignment", "lcore/manage/learner/bounds", "lcore/manage/sidr/pending", "lcore/manage/ask", "lcore/manage/inbox", "lcore/manage/limit", "lcore/manage/local",
	"lcore/manage/punt", "lcore/manage/ratelog", "dpdk/lacp", "app/bridge/bond", "app/doctor", "fleet/bfd", "fleet/peers", "fleet/shards", "fleet/lease"}

// listed is what go list says of a package.
type listed struct {
	ImportPath string
	CgoFiles   []string
	Imports    []string
	Deps       []string
}

// packages lists the module's packages, with the e2e tests' tag.
func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-tags", "e2e", "-json=ImportPath,CgoFiles,Imports,Deps", "./...")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("go list: %v\n%s", err, exit.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		p.ImportPath = strings.TrimPrefix(p.ImportPath, module+"/")
		all = append(all, p)
	}
	if len(all) < 3 {
		t.Fatalf("go list found only %d packages", len(all))
	}
	return all
}

// in reports whether a package lies in a folder.
func in(pkg, folder string) bool { return pkg == folder || strings.HasPrefix(pkg, folder+"/") }

func TestImports(t *testing.T) {
	for _, p := range packages(t) {
		rule := ruleOf(p.ImportPath)
		if rule < 0 {
			t.Errorf("%s has no rule: say in mayImport what it may import", p.ImportPath)
			continue
		}
		r := mayImport[rule]
		for _, imported := range p.Imports {
			own, ok := strings.CutPrefix(imported, module+"/")
			if ok && ruleOf(own) != rule && !slices.ContainsFunc(strings.Fields(r.allowed), func(a string) bool { return covers(a, own) }) {
				t.Errorf("%s imports %s. Imports flow one way: %s. It may import: %s", p.ImportPath, own, r.why, r.allowed)
			}
		}
	}
}

// TestImportsForTests checks that only tests and perf have the device made of memory.
func TestImportsForTests(t *testing.T) {
	const memory = "ibside/verbs/mlx5mem"
	for _, p := range packages(t) {
		if in(p.ImportPath, "perf") || in(p.ImportPath, memory) {
			continue
		}
		if i := slices.IndexFunc(p.Deps, func(d string) bool { return in(d, module+"/"+memory) }); i >= 0 {
			t.Errorf("%s has %s among what it imports. It takes the place of system calls: a program that has it finds no real device",
				p.ImportPath, p.Deps[i])
		}
	}
}

// ruleOf returns the index of the rule in mayImport that governs a package, -1 when there is none.
func ruleOf(pkg string) int {
	rule := -1
	for i, r := range mayImport {
		if in(pkg, r.folder) && (rule < 0 || len(r.folder) > len(mayImport[rule].folder)) {
			rule = i
		}
	}
	return rule
}

// covers reports whether an entry of an allowed list covers a package.
func covers(entry, pkg string) bool {
	folder, below := strings.CutSuffix(entry, "/...")
	return pkg == folder || below && in(pkg, folder)
}

func TestCgo(t *testing.T) {
	all := packages(t)
	hasC := map[string]bool{}
	for _, p := range all {
		hasC[module+"/"+p.ImportPath] = len(p.CgoFiles) > 0
		allowed := slices.Contains(usesC, p.ImportPath) || in(p.ImportPath, "perf")
		if len(p.CgoFiles) > 0 && !allowed {
			t.Errorf(`%s imports "C" in %s. C is for the packet path and the ports (%s); everything else is Go, and tests anywhere`,
				p.ImportPath, strings.Join(p.CgoFiles, ", "), strings.Join(usesC, ", "))
		}
	}
	for _, p := range all {
		if !slices.Contains(pureGo, p.ImportPath) {
			continue
		}
		for _, d := range append([]string{module + "/" + p.ImportPath}, p.Deps...) {
			if hasC[d] {
				t.Errorf("%s needs %s, which has C. It must build with CGO_ENABLED=0: it is used and tested without DPDK", p.ImportPath, d)
			}
		}
	}
}

func TestUnsafe(t *testing.T) {
	for _, s := range sources(t, ".go") {
		file, err := parser.ParseFile(token.NewFileSet(), s.path, s.text, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, i := range file.Imports {
			name, _ := strconv.Unquote(i.Path.Value)
			base := strings.TrimSuffix(strings.TrimSuffix(path.Base(s.path), ".go"), "_test")
			if name == "unsafe" && !strings.HasSuffix(base, "_unsafe") {
				t.Errorf("%s imports unsafe, but is not called *_unsafe.go. Whoever looks for memory errors must know where to look", s.path)
			}
		}
	}
}
