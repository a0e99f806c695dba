package main

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	faultRow  = regexp.MustCompile(`(?m)^\| (\d+) \|.*\| (.*) \|$`)
	faultTest = regexp.MustCompile("`([a-z/-]+)`|(Test\\w+)(?:/(\\w+))?")
)

// TestFaultsHaveTheirTests: each test that docs/faults.md names exists.
func TestFaultsHaveTheirTests(t *testing.T) {
	_, files := sources(t)
	named := 0
	for i, row := range faultRow.FindAllStringSubmatch(readRepo(t, "docs/faults.md"), -1) {
		if row[1] != strconv.Itoa(i+1) {
			t.Errorf("fault %s is number %d", row[1], i+1)
		}
		pkg, before := "", named
		for _, m := range faultTest.FindAllStringSubmatch(row[2], -1) {
			if m[1] != "" {
				pkg = m[1]
				continue
			}
			named++
			if !hasTest(files, pkg, m[2], m[3]) {
				t.Errorf("fault %s: there is no %s %s/%s", row[1], pkg, m[2], m[3])
			}
		}
		if named == before {
			t.Errorf("fault %s has no test", row[1])
		}
	}
	if named < 100 {
		t.Errorf("only %d tests are named", named)
	}
}

// hasTest tells whether a package has a test, and a text from which a subtest
// may have its name.
func hasTest(files []source, pkg, test, subtest string) bool {
	found, named := false, subtest == ""
	for _, s := range files {
		if !s.test || s.pkg != pkg {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				found = found || n.Name.Name == test
			case *ast.BasicLit:
				named = named || n.Kind == token.STRING && strings.Contains(strings.ReplaceAll(n.Value, " ", "_"), subtest)
			}
			return true
		})
	}
	return found && named
}
