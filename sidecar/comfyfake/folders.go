package comfyfake

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// folders are the three places ComfyUI keeps files in.
type folders struct {
	root    string
	private bool
}

func openFolders(dir string) (folders, error) {
	f := folders{root: dir, private: dir == ""}
	if f.private {
		tmp, err := os.MkdirTemp("", "comfyfake-")
		if err != nil {
			return f, fmt.Errorf("make folders: %w", err)
		}
		f.root = tmp
	}
	var errs []error
	for _, kind := range []string{"input", "output", "temp"} {
		errs = append(errs, os.MkdirAll(f.dir(kind), 0o755))
	}
	return f, errors.Join(errs...)
}

// dir is the folder of a type, or empty for a type that does not exist.
func (f folders) dir(kind string) string {
	switch kind {
	case "input", "output", "temp":
		return filepath.Join(f.root, kind)
	}
	return ""
}

func (f folders) emptyTemp() error {
	if err := os.RemoveAll(f.dir("temp")); err != nil {
		return fmt.Errorf("empty temp folder: %w", err)
	}
	if err := os.MkdirAll(f.dir("temp"), 0o755); err != nil {
		return fmt.Errorf("empty temp folder: %w", err)
	}
	return nil
}

func (f folders) remove() error {
	if !f.private || f.root == "" {
		return nil
	}
	if err := os.RemoveAll(f.root); err != nil {
		return fmt.Errorf("remove folders: %w", err)
	}
	return nil
}

// inside says whether path is base or lies below it.
func inside(base, path string) bool {
	rel, err := filepath.Rel(base, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// annotated splits "name [output]" into name and type; kind is empty without
// a mark.
func annotated(name string) (base, kind string) {
	for _, k := range []string{"output", "input", "temp"} {
		if cut, ok := strings.CutSuffix(name, "["+k+"]"); ok {
			return strings.TrimSuffix(cut, " "), k
		}
	}
	return name, ""
}

// Dir is the folder of "input", "output" or "temp" files.
func (s *Server) Dir(kind string) string { return s.files.dir(kind) }
