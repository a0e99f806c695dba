package manifest_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// many lays an environment with 2,000 graphs of 50 kB, all older than an hour.
func many(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	graph := `{"1":{"class_type":"A","inputs":{"f":"` + strings.Repeat("x", 50_000) + `"}}}`
	var text strings.Builder
	old := time.Now().Add(-time.Hour)
	for i := range 2000 {
		name := fmt.Sprintf("g%04d", i)
		put(b, dir, "workflow_api/"+name+".json", graph)
		text.WriteString(strings.ReplaceAll(declare(name, `inputs = [{ name = "f", type = "string", node_id = "1", field_key = "f" }]`), "/g.json", "/"+name+".json"))
	}
	put(b, dir, "pyproject.toml", text.String())
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, old, old)
	})
	if err != nil {
		b.Fatal(err)
	}
	return dir
}

func BenchmarkReadAndHash(b *testing.B) {
	dir := many(b)
	for b.Loop() {
		h := sha256.New()
		files, err := filepath.Glob(filepath.Join(dir, "workflow_api", "*"))
		if err != nil {
			b.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				b.Fatal(err)
			}
			h.Write(text)
		}
	}
}

func BenchmarkFirstDigest(b *testing.B) {
	dir := many(b)
	for b.Loop() {
		open(b, dir).Digest()
	}
}

func BenchmarkUnchanged(b *testing.B) {
	c := open(b, many(b))
	// Files at rest are trusted by their stamps only after a while.
	for laid := time.Now(); time.Since(laid) < 3*time.Second; {
		c.Snapshot().Digest()
	}
	for b.Loop() {
		c.Snapshot().Digest()
	}
}

func BenchmarkLoad(b *testing.B) {
	dir := many(b)
	for b.Loop() {
		open(b, dir).Snapshot()
	}
}

// BenchmarkBuild binds one value into a graph of 300 nodes and 50 kB.
func BenchmarkBuild(b *testing.B) {
	var graph strings.Builder
	for i := range 300 {
		fmt.Fprintf(&graph, `%s"%d": {"inputs": {"f": %d, "text": "%s", "model": ["%d", 0]}, "class_type": "A", "_meta": {"title": "T"}}`,
			map[bool]string{true: "{", false: ",\n"}[i == 0], i, i, strings.Repeat("x", 70), i)
	}
	graph.WriteString("}")
	dir := write(b, map[string]string{"pyproject.toml": declare("w", `inputs = [{ name = "f", type = "integer", node_id = "7", field_key = "f" }]`), "workflow_api/g.json": graph.String()})
	s := open(b, dir).Snapshot()
	values := manifest.Values{{Name: "f", Value: []byte("5")}}
	for b.Loop() {
		if built, err := s.Build(s.Contracts()[0], values); err != nil || built.HasErrors() {
			b.Fatal(err, built.Issues)
		}
	}
}
