package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

// environmentFiles is what both servers offer: three workflows, four
// contracts.
//
//go:embed environment
var environmentFiles embed.FS

// workspace is a ComfyGit workspace with one environment, as the reference
// wants it.
type workspace struct {
	root string
	name string
}

func (w workspace) envDir() string { return filepath.Join(w.root, "environments", w.name) }
func (w workspace) cec() string    { return filepath.Join(w.envDir(), ".cec") }

// layWorkspace writes a workspace into dir. The environment is a git
// repository where there is a git, as ComfyGit's own are.
func layWorkspace(ctx context.Context, dir string) (workspace, error) {
	w := workspace{root: dir, name: "bench"}
	files, err := fs.Sub(environmentFiles, "environment")
	if err != nil {
		return w, fmt.Errorf("open the environment: %w", err)
	}
	if err := os.CopyFS(w.cec(), files); err != nil {
		return w, fmt.Errorf("write the environment: %w", err)
	}
	texts := map[string]string{
		".metadata/version": "1",
		".metadata/workspace.json": `{"version": 1, "active_environment": "", "created_at": "2026-01-01T00:00:00",
			"global_model_directory": {"path": "models", "added_at": "2026-01-01T00:00:00", "last_sync": "2026-01-01T00:00:00"}}`,
		"comfygit_cache/custom_nodes/node_mappings.json": `{"version": "1", "generated_at": "2026-01-01T00:00:00", "stats": {}, "mappings": {}, "packages": {}}`,
		// Without this file the reference asks the network for it at each start.
		"comfygit_cache/custom_nodes/comfyui_builtins_by_version.json": "{}",
		"environments/" + w.name + "/.complete":                        "",
		"environments/" + w.name + "/.cec/.complete":                   "",
	}
	for name, text := range texts {
		if err := writeFile(filepath.Join(w.root, name), text); err != nil {
			return w, err
		}
	}
	for _, name := range []string{"models", "comfygit_cache/registry", filepath.Join("environments", w.name, "ComfyUI", "input")} {
		if err := os.MkdirAll(filepath.Join(w.root, name), 0o755); err != nil {
			return w, fmt.Errorf("make a folder of the workspace: %w", err)
		}
	}
	return w, w.commit(ctx)
}

func writeFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write a file: %w", err)
	}
	return nil
}

func (w workspace) commit(ctx context.Context) error {
	if _, err := exec.LookPath("git"); errors.Is(err, exec.ErrNotFound) {
		return nil
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"},
		{"add", "-A"},
		{"-c", "user.name=bench", "-c", "user.email=bench@example.invalid", "-c", "commit.gpgsign=false", "commit", "-q", "-m", "Environment of the bench"},
	} {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = w.cec()
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w\n%s", args[0], err, out)
		}
	}
	return nil
}
