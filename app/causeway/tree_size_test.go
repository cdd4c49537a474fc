// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

const (
	maxFileLines     = 400
	maxFunctionLines = 60
	maxMethods       = 40
)

// function is a function of a file, with its length.
type function struct {
	name  string
	line  int
	lines int
}

func TestFileSizes(t *testing.T) {
	for _, s := range sources(t, ".go", ".c", ".h") {
		if n := strings.Count(s.text, "\n"); n > maxFileLines {
			t.Errorf("%s: %d lines are more than %d. A file that long has more than one subject: divide it by subject, in the order in "+
				"which a packet meets them", s.path, n, maxFileLines)
		}
	}
}

func TestFunctionSizes(t *testing.T) {
	for _, s := range sources(t, ".go", ".c", ".h") {
		find := cFunctions
		if filepath.Ext(s.path) == ".go" {
			find = goFunctions
		}
		functions, err := find(s.text)
		if err != nil {
			t.Errorf("%s: %v", s.path, err)
		}
		for _, f := range functions {
			if f.lines > maxFunctionLines {
				t.Errorf("%s:%d: %s has %d lines, more than %d. A function should fit on a screen: name its stages and make each one a "+
					"function; a test's table can stand outside of it", s.path, f.line, f.name, f.lines, maxFunctionLines)
			}
		}
	}
}

// TestMethods counts each type's own methods; those of embedded types are these types'.
func TestMethods(t *testing.T) {
	methods := map[string]int{}
	for _, s := range sources(t, ".go") {
		if strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), s.path, s.text, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				methods[filepath.Dir(s.path)+"."+receiver(f.Recv.List[0].Type)]++
			}
		}
	}
	for name, n := range methods {
		if n > maxMethods {
			t.Errorf("%s has %d methods, more than %d. Methods that share one state can all change it: divide the type into parts that own "+
				"their state, and reach each other by narrow interfaces", name, n, maxMethods)
		}
	}
}

// receiver returns the name of a receiver's type.
func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return "?"
}

// goFunctions returns the functions of a Go file; a function literal counts with the one around it.
func goFunctions(text string) ([]function, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var out []function
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			first, last := files.Position(f.Pos()).Line, files.Position(f.End()).Line
			out = append(out, function{f.Name.Name, first, last - first + 1})
		}
	}
	return out, nil
}

// cFunctions returns the functions of a C file formatted by .clang-format: only a function's braces are alone at the
// beginning of a line, after the lines of its head.
func cFunctions(text string) ([]function, error) {
	var out []function
	head, brace := 0, 0
	for i, line := range strings.Split(text, "\n") {
		n := i + 1
		switch {
		case line == "{":
			brace = n
		case line == "}" && brace > 0:
			out = append(out, function{"a function", head, n - head + 1})
			head, brace = 0, 0
		case brace == 0 && isCHead(line):
			if head == 0 {
				head = n
			}
		case brace == 0:
			head = 0
		}
	}
	if brace > 0 {
		return out, fmt.Errorf("line %d: a brace that no brace at the beginning of a line closes; is the file formatted?", brace)
	}
	return out, nil
}

// isCHead reports whether a line can be part of a function's head: not blank, a comment, a directive, or
// the end of something else.
func isCHead(line string) bool {
	text := strings.TrimSpace(line)
	for _, start := range []string{"#", "/*", "*", "//", "}"} {
		if strings.HasPrefix(text, start) {
			return false
		}
	}
	return text != "" && !strings.HasSuffix(text, ";") && !strings.HasSuffix(text, "*/")
}

func TestFunctionScan(t *testing.T) {
	c := "#include <x.h>\nstruct s {\n\tint a;\n};\n\n/* f */\nstatic int f(int a,\n\t     int b)\n{\n\tif (a) {\n\t}\n\treturn 0;\n}\n\nint g(void)\n{\n}\n"
	got, err := cFunctions(c)
	if err != nil || len(got) != 2 || got[0].line != 7 || got[0].lines != 7 || got[1].line != 15 || got[1].lines != 3 {
		t.Errorf("C: got %+v, %v", got, err)
	}
	if _, err := cFunctions("int f(void)\n{\n\treturn 0;\n"); err == nil {
		t.Error("C: an open brace was not noticed")
	}
	g := "package p\n\nfunc f() {\n\tg := func() {\n\t}\n\tg()\n}\n"
	if got, err := goFunctions(g); err != nil || len(got) != 1 || got[0].line != 3 || got[0].lines != 5 {
		t.Errorf("Go: got %+v, %v", got, err)
	}
}
