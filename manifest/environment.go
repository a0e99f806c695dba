package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	pyprojectFile = "pyproject.toml"
	promptFolder  = "workflow_api"
)

// Environment names the folders of one environment. Paths are absolute.
type Environment struct {
	Name      string // as shown to people
	Dir       string // the environment's folder
	Manifest  string // folder holding pyproject.toml and workflow_api: Dir/.cec or Dir itself
	Workspace string // "" when opened by folder and none encloses it
}

// LocateError says where no environment was found, and which there are.
type LocateError struct {
	Name   string   // the environment asked for, "" for none
	Looked []string // folders that were looked at
	Found  []string // names of the environments of the workspace
	Reason string
}

// Error is one sentence with all that is known.
func (e *LocateError) Error() string {
	text := "find environment: " + e.Reason
	if len(e.Looked) > 0 {
		text += "; looked in " + strings.Join(e.Looked, ", ")
	}
	if len(e.Found) > 0 {
		text += "; available environments: " + strings.Join(e.Found, ", ")
	}
	return text
}

// Locate takes the environment at a folder, or around it when the folder is
// the environment's ComfyUI or manifest folder. A folder without a manifest is
// accepted: the file may be written later.
func Locate(dir string) (Environment, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Environment{}, fmt.Errorf("find environment: %w", err)
	}
	switch stat, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return Environment{}, &LocateError{Looked: []string{dir}, Reason: "the folder does not exist"}
	case err != nil:
		return Environment{}, fmt.Errorf("find environment: %w", err)
	case !stat.IsDir():
		return Environment{}, &LocateError{Looked: []string{dir}, Reason: "this is not a folder"}
	}
	dir = enclosing(dir)
	return Environment{
		Name:      filepath.Base(dir),
		Dir:       dir,
		Manifest:  manifestFolder(dir),
		Workspace: workspaceAround(dir),
	}, nil
}

// enclosing steps out of the folders that an environment has inside.
func enclosing(dir string) string {
	if filepath.Base(dir) == promptFolder && isManifest(filepath.Dir(dir)) {
		dir = filepath.Dir(dir)
	}
	parent := filepath.Dir(dir)
	switch filepath.Base(dir) {
	case ".cec":
		return parent
	case "ComfyUI":
		if !isEnvironment(dir) && isEnvironment(parent) {
			return parent
		}
	}
	return dir
}

// manifestFolder is where an environment keeps, or will keep, its manifest.
func manifestFolder(dir string) string {
	cec := filepath.Join(dir, ".cec")
	if isManifest(cec) || isFolder(cec) && !isManifest(dir) {
		return cec
	}
	return dir
}

func isManifest(dir string) bool {
	stat, err := os.Stat(filepath.Join(dir, pyprojectFile))
	return err == nil && stat.Mode().IsRegular()
}

func isFolder(dir string) bool {
	stat, err := os.Stat(dir)
	return err == nil && stat.IsDir()
}

func isWorkspace(dir string) bool { return isFolder(filepath.Join(dir, ".metadata")) }

// workspaceAround looks upwards; ENV/.metadata is no workspace of its own.
func workspaceAround(dir string) string {
	for up := filepath.Dir(dir); up != filepath.Dir(up); up = filepath.Dir(up) {
		if isWorkspace(up) {
			return up
		}
	}
	return ""
}

// Find takes an environment of a workspace by its name; "" is the active one.
// The workspace is the one that COMFYGIT_HOME names, else ~/comfygit, else the
// one around the current folder.
func Find(name string, getenv func(string) string) (Environment, error) {
	workspace, looked := findWorkspace(getenv)
	if workspace == "" {
		return Environment{}, &LocateError{Name: name, Looked: looked, Reason: "no workspace was found (a folder with .metadata in it); set COMFYGIT_HOME or use --env-dir"}
	}
	if name == "" {
		if name = activeEnvironment(workspace); name == "" {
			return Environment{}, &LocateError{Looked: []string{workspace}, Found: environmentsOf(workspace), Reason: "no environment is named and none is active"}
		}
	}
	dir := filepath.Join(workspace, "environments", name)
	if name != filepath.Base(name) || name == "." || name == ".." || !isEnvironment(dir) {
		return Environment{}, &LocateError{
			Name:   name,
			Looked: []string{filepath.Join(workspace, "environments")},
			Found:  environmentsOf(workspace),
			Reason: fmt.Sprintf("environment '%s' not found", name),
		}
	}
	return Environment{Name: name, Dir: dir, Manifest: manifestFolder(dir), Workspace: workspace}, nil
}

func isEnvironment(dir string) bool {
	return isFolder(filepath.Join(dir, ".cec")) || isManifest(dir)
}

func findWorkspace(getenv func(string) string) (workspace string, looked []string) {
	if home := getenv("COMFYGIT_HOME"); home != "" {
		return firstWorkspace(home)
	}
	var candidates []string
	for _, home := range []string{getenv("HOME"), getenv("USERPROFILE")} {
		if home != "" {
			candidates = append(candidates, filepath.Join(home, "comfygit"))
		}
	}
	if dir, err := os.Getwd(); err == nil {
		for candidates = append(candidates, dir); dir != filepath.Dir(dir); candidates = append(candidates, dir) {
			dir = filepath.Dir(dir)
		}
	}
	return firstWorkspace(candidates...)
}

func firstWorkspace(candidates ...string) (string, []string) {
	for _, dir := range candidates {
		if dir, err := filepath.Abs(dir); err == nil && isWorkspace(dir) {
			return dir, candidates
		}
	}
	return "", candidates
}

func environmentsOf(workspace string) []string {
	entries, err := os.ReadDir(filepath.Join(workspace, "environments"))
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if isEnvironment(filepath.Join(workspace, "environments", e.Name())) {
			names = append(names, e.Name())
		}
	}
	return names
}

func activeEnvironment(workspace string) string {
	text, err := os.ReadFile(filepath.Join(workspace, ".metadata", "workspace.json"))
	if err != nil {
		return ""
	}
	var config struct {
		Active string `json:"active_environment"`
	}
	if json.Unmarshal(text, &config) != nil {
		return ""
	}
	return config.Active
}

// InputDir is the folder from which ComfyUI loads files: Dir/ComfyUI/input.
func (e Environment) InputDir() string { return filepath.Join(e.Dir, "ComfyUI", "input") }

// MetadataDir is where state is kept: the workspace's .metadata, or Dir's own.
func (e Environment) MetadataDir() string {
	if e.Workspace != "" {
		return filepath.Join(e.Workspace, ".metadata")
	}
	return filepath.Join(e.Dir, ".metadata")
}
