package main

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
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
	tests, texts := testsOf(files)
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
			if !tests[pkg+" "+m[2]] || !slices.ContainsFunc(texts[pkg], func(text string) bool { return strings.Contains(text, m[3]) }) {
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

// testsOf are the tests of each package, and the texts from which subtests may
// have their names.
func testsOf(files []source) (tests map[string]bool, texts map[string][]string) {
	tests, texts = map[string]bool{}, map[string][]string{}
	for _, s := range files {
		if !s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				tests[s.pkg+" "+n.Name.Name] = true
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					texts[s.pkg] = append(texts[s.pkg], strings.ReplaceAll(n.Value, " ", "_"))
				}
			}
			return true
		})
	}
	return tests, texts
}
