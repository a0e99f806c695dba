package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/comfygit-ai/studio-sidecar/"

// imports says what each package may import beside the standard library, and
// why. Packages are named from the module's root; foreign ones by their path.
var imports = map[string]map[string]string{
	"manifest": {
		"github.com/BurntSushi/toml":     "pyproject.toml, with positions of its faults",
		"golang.org/x/text/unicode/norm": "names match in NFC and NFD",
		"golang.org/x/sys/unix":          "change times, and the environment's lock",
	},
	"manifest/watch": {
		"manifest":                     "what is watched",
		"github.com/fsnotify/fsnotify": "tells of changed folders",
	},
	"sidecar": {
		"sidecar/upload":             "the folder of the files that clients send",
		"manifest":                   "contracts, inputs and graphs are its vocabulary",
		"github.com/google/uuid":     "run and prompt ids",
		"golang.org/x/sync/errgroup": "owns the goroutines that follow runs",
	},
	"sidecar/artifact": {
		"sidecar/filename":                   "safe names",
		"github.com/gabriel-vasile/mimetype": "types come from the bytes",
		"golang.org/x/sys/unix":              "names are synced, where folders can be",
	},
	"sidecar/backend":  {},
	"sidecar/filename": {},
	"sidecar/upload": {
		"sidecar/filename":                   "safe names",
		"github.com/gabriel-vasile/mimetype": "types come from the bytes",
		"golang.org/x/sys/unix":              "locks tell whether somebody still writes a file",
	},
	"sidecar/sqlite": {
		"sidecar":                  "what it stores",
		"manifest":                 "JSON as Python writes it",
		"modernc.org/sqlite":       "the database, without cgo",
		"modernc.org/sqlite/lib":   "its result codes",
		"sidecar/sqlite/walvfs":    "commits in few system calls",
		"golang.org/x/sys/unix":    "the lock, where there is flock",
		"golang.org/x/sys/windows": "the lock, where there is none",
	},
	"sidecar/comfy": {
		"sidecar":                    "the executor that it is",
		"sidecar/backend":            "exchanges over HTTP",
		"sidecar/artifact":           "copies of temp outputs",
		"manifest":                   "declared outputs",
		"github.com/coder/websocket": "ComfyUI's socket",
		"golang.org/x/image/bmp":     "sizes of BMP pictures",
		"golang.org/x/image/webp":    "sizes of WEBP pictures",
		"golang.org/x/sync/errgroup": "bounded fetches",
	},
	"sidecar/comfyfake": {
		"github.com/coder/websocket": "ComfyUI's socket",
		"github.com/google/uuid":     "prompt and socket ids",
		"golang.org/x/image/draw":    "ImageScale",
		"golang.org/x/image/webp":    "LoadImage reads WEBP",
	},
	"routes": {
		"sidecar":                            "the service that it shows",
		"sidecar/artifact":                   "copies that it serves",
		"sidecar/protocol":                   "what two sidecars say to each other",
		"manifest":                           "contracts and bodies",
		"github.com/gorilla/mux":             "the router",
		"github.com/gabriel-vasile/mimetype": "types come from the bytes",
	},
	"sidecar/protocol": {
		"github.com/google/uuid": "prompt ids in artifact ids",
		"manifest":               "declared outputs",
		"sidecar":                "runs, and what a backend says of them",
	},
	"sidecar/worker": {
		"manifest":                   "remarks on a run",
		"sidecar":                    "the executor that it is",
		"sidecar/backend":            "exchanges over HTTP",
		"sidecar/artifact":           "copies of a worker's files",
		"sidecar/protocol":           "what two sidecars say to each other",
		"golang.org/x/sync/errgroup": "owns the goroutines that call back",
	},
	"static":           {},
	"internal/need":    {},
	"internal/bounded": {},
	"sidecar/sqlite/walvfs": {
		"modernc.org/sqlite/lib": "the tables of functions of a VFS",
		"modernc.org/libc":       "the memory of C, and how its functions are called",
	},
	"cmd/studio-sidecar": {
		"sidecar/upload": "wiring", "manifest": "wiring", "manifest/watch": "wiring", "sidecar": "wiring", "sidecar/sqlite": "wiring",
		"sidecar/artifact": "wiring", "sidecar/comfy": "wiring", "sidecar/protocol": "wiring", "sidecar/worker": "wiring", "sidecar/comfyfake": "the demo's ComfyUI",
		"routes": "wiring", "static": "wiring",
		"github.com/alecthomas/kong": "the command line",
		"golang.org/x/sync/errgroup": "owns the long-lived parts",
	},
	"bench": {
		"sidecar/comfyfake":  "the backend of both sides",
		"modernc.org/sqlite": "fills the files of both sides",
	},
}

// goroutines says which files may start one, and who waits for it.
var goroutines = map[string]string{
	"cmd/studio-sidecar/serve.go": "reads standard input until the process ends; a read cannot be called back",
}

// source is one parsed Go file of the module.
type source struct {
	path string // from the module's root, with slashes
	pkg  string // folder, from the module's root
	test bool
	file *ast.File
}

// tree are all Go files of the module.
type tree struct {
	set   *token.FileSet
	files []source
}

// parsed reads them once.
var parsed = sync.OnceValues(func() (all tree, err error) {
	root := filepath.Join("..", "..")
	all.set = token.NewFileSet()
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && path != root) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(all.set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		rel = filepath.ToSlash(rel)
		all.files = append(all.files, source{rel, filepath.ToSlash(filepath.Dir(rel)), strings.HasSuffix(path, "_test.go"), file})
		return err
	})
	return all, err
})

func sources(t *testing.T) (*token.FileSet, []source) {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return all.set, all.files
}

func TestImports(t *testing.T) {
	_, files := sources(t)
	used := map[string]map[string]bool{}
	for _, s := range files {
		if s.test {
			continue
		}
		allowed, listed := imports[s.pkg]
		if !listed {
			t.Errorf("%s: package %s has no rule", s.path, s.pkg)
			continue
		}
		for _, spec := range s.file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimPrefix(path, module)
			if !strings.Contains(strings.Split(name, "/")[0], ".") && name == path {
				continue // standard library
			}
			if allowed[name] == "" {
				t.Errorf("%s imports %s: no rule gives a reason for it", s.path, name)
			}
			if used[s.pkg] == nil {
				used[s.pkg] = map[string]bool{}
			}
			used[s.pkg][name] = true
		}
	}
	for pkg, allowed := range imports {
		for name := range allowed {
			if !used[pkg][name] {
				t.Errorf("rule %s → %s is not used any more", pkg, name)
			}
		}
	}
}

func TestPackageComments(t *testing.T) {
	_, files := sources(t)
	comments := map[string][]string{}
	for _, s := range files {
		if s.test {
			continue
		}
		comments[s.pkg] = append(comments[s.pkg], "")[:len(comments[s.pkg])]
		if s.file.Doc != nil {
			comments[s.pkg] = append(comments[s.pkg], s.path)
		}
	}
	for pkg, where := range comments {
		if len(where) != 1 {
			t.Errorf("package %s has %d package comments: %v", pkg, len(where), where)
		}
	}
}

// TestStatusHasOneDoor: only Apply's file assigns a status.
func TestStatusHasOneDoor(t *testing.T) {
	set, files := sources(t)
	for _, s := range files {
		if s.test || !strings.HasPrefix(s.pkg, "sidecar") && s.pkg != "routes" || s.path == "sidecar/apply.go" || s.pkg == "sidecar/comfyfake" {
			continue
		}
		imported := s.pkg == "sidecar" || slices.ContainsFunc(s.file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == strconv.Quote(module+"sidecar") })
		ast.Inspect(s.file, func(n ast.Node) bool {
			assign, ok := n.(*ast.AssignStmt)
			if !ok || !imported {
				return true
			}
			for _, left := range assign.Lhs {
				sel, ok := left.(*ast.SelectorExpr)
				if ok && sel.Sel.Name == "Status" && isRun(sel.X) {
					t.Errorf("%s assigns %s; only Run.Apply may", set.Position(sel.Pos()), sel.Sel.Name)
				}
			}
			return true
		})
	}
}

// isRun guesses by the customary names of run variables.
func isRun(x ast.Expr) bool {
	id, ok := x.(*ast.Ident)
	return ok && (id.Name == "r" || id.Name == "run" || id.Name == "latest")
}

func TestGoroutinesHaveAnOwner(t *testing.T) {
	set, files := sources(t)
	used := map[string]bool{}
	for _, s := range files {
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				used[s.path] = true
				if goroutines[s.path] == "" {
					t.Errorf("%s starts a goroutine; list the file with who waits for it", set.Position(g.Pos()))
				}
			}
			return true
		})
	}
	for path := range goroutines {
		if !used[path] {
			t.Errorf("%s starts no goroutine any more", path)
		}
	}
}

func TestNothingSleepsSkipsOrExits(t *testing.T) {
	set, files := sources(t)
	for _, s := range files {
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			switch {
			case !ok:
			case pkg.Name == "time" && sel.Sel.Name == "Sleep":
				t.Errorf("%s sleeps; wait for what is wanted", set.Position(call.Pos()))
			case strings.HasPrefix(sel.Sel.Name, "Skip") && s.test:
				t.Errorf("%s skips a test; internal/need does, and fails it in CI", set.Position(call.Pos()))
			case pkg.Name == "os" && sel.Sel.Name == "Exit" && s.path != "cmd/studio-sidecar/main.go" && !s.test:
				t.Errorf("%s exits outside main", set.Position(call.Pos()))
			}
			return true
		})
	}
}

func readRepo(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
