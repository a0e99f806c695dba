package main

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestReadmeListsTheFlags holds README's table to the grammar of serve: each
// flag with its variable and default, and no row that is not one.
func TestReadmeListsTheFlags(t *testing.T) {
	readme := readRepo(t, "README.md")
	_, table, ok := strings.Cut(readme, "## Flags of serve\n")
	if !ok {
		t.Fatal("README has no table of flags")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	var line cli
	parser, err := kong.New(&line)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, node := range []*kong.Node{parser.Model.Node, find(t, parser, "serve")} {
		for _, flag := range node.Flags {
			if flag.Name == "help" || flag.Hidden {
				continue
			}
			if len(flag.Envs) != 1 || !strings.HasPrefix(flag.Envs[0], "STUDIO_SIDECAR_") {
				t.Errorf("--%s has no variable of its own: %v", flag.Name, flag.Envs)
				continue
			}
			known["--"+flag.Name] = true
			row := "`--" + flag.Name + "` | `" + flag.Envs[0] + "` |"
			if flag.HasDefault {
				row += " `" + flag.Default + "` |"
			}
			if !strings.Contains(table, row) {
				t.Errorf("README does not list %s", row)
			}
		}
	}
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) < 3 || !strings.Contains(cells[1], "`") {
			continue
		}
		names := strings.Split(strings.ReplaceAll(strings.TrimSpace(cells[1]), "`", ""), ", ")
		if name := names[len(names)-1]; !known[name] {
			t.Errorf("README lists %s, which serve does not have", name)
		}
	}
}

// TestEveryFlagHasAVariable: of every command.
func TestEveryFlagHasAVariable(t *testing.T) {
	var line cli
	parser, err := kong.New(&line)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range append([]*kong.Node{parser.Model.Node}, parser.Model.Children...) {
		for _, flag := range node.Flags {
			if flag.Name != "help" && len(flag.Envs) == 0 {
				t.Errorf("%s: --%s has no variable", node.Name, flag.Name)
			}
		}
	}
}

func find(t *testing.T, parser *kong.Kong, name string) *kong.Node {
	t.Helper()
	for _, node := range parser.Model.Children {
		if node.Name == name {
			return node
		}
	}
	t.Fatalf("there is no command %s", name)
	return nil
}
