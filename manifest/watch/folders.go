package watch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"

	"github.com/comfygit-ai/studio-sidecar/manifest"
)

// folders keeps a watch on every folder whose entries matter. Folders are
// watched and not files, because editors replace files.
type folders struct {
	catalog *manifest.Catalog
	events  *fsnotify.Watcher // nil when there are no events
	watched map[string]os.FileInfo
}

func (f *folders) channels() (<-chan fsnotify.Event, <-chan error) {
	if f.events == nil {
		return nil, nil
	}
	return f.events.Events, f.events.Errors
}

// wanted lists the folders that exist: around the environment, where a manifest
// may appear, the manifest's own, its repository's, and the graphs'. The error
// tells of those that cannot be looked at.
func (f *folders) wanted() (map[string]os.FileInfo, error) {
	env := f.catalog.Environment()
	git := filepath.Join(env.Manifest, ".git")
	out := map[string]os.FileInfo{}
	for _, dir := range []string{filepath.Dir(env.Dir), env.Dir, env.Manifest, git, filepath.Join(git, "refs", "heads")} {
		if st, err := os.Stat(dir); err == nil && st.IsDir() {
			out[dir] = st
		}
	}
	root := filepath.Join(env.Manifest, "workflow_api")
	st, err := os.Stat(root)
	if err != nil || !st.IsDir() {
		return out, nil
	}
	out[root] = st
	return out, below(out, root)
}

// below adds the folders below dir; links to folders are not followed, as the
// digest does not follow them.
func below(out map[string]os.FileInfo, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return unlessGone(err)
	}
	var faults []error
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		path := filepath.Join(dir, e.Name())
		st, err := e.Info()
		if err != nil {
			faults = append(faults, unlessGone(err))
			continue
		}
		out[path] = st
		faults = append(faults, below(out, path))
	}
	return errors.Join(faults...)
}

// unlessGone: a folder may vanish while it is looked at.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// sync brings the watches to what is wanted. A folder that was replaced by
// another of the same name is watched anew.
func (f *folders) sync() error {
	if f.events == nil {
		return nil
	}
	wanted, err := f.wanted()
	for path, was := range f.watched {
		if is, ok := wanted[path]; !ok || !os.SameFile(was, is) {
			_ = f.events.Remove(path) // it may be gone by itself
			delete(f.watched, path)
		}
	}
	if f.watched == nil {
		f.watched = map[string]os.FileInfo{}
	}
	faults := []error{err}
	for path, st := range wanted {
		if _, ok := f.watched[path]; ok {
			continue
		}
		if err := f.events.Add(path); err != nil {
			faults = append(faults, unlessGone(err))
			continue
		}
		f.watched[path] = st
	}
	return errors.Join(faults...)
}

// isGit tells whether a path is part of the repository's state.
func (f *folders) isGit(path string) bool {
	git := filepath.Join(f.catalog.Environment().Manifest, ".git") + string(filepath.Separator)
	return strings.HasPrefix(path, git) && !strings.HasSuffix(path, ".lock")
}
