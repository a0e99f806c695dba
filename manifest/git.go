package manifest

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	gitLimit = 2 * time.Second // of one question to git
	// gitAge bounds how long an answer stands that no stamp contradicts: git
	// also looks at files that are not stamped here.
	gitAge = 5 * time.Second
	// gitPause keeps questions apart while files have just changed and stamps
	// prove nothing yet.
	gitPause = 50 * time.Millisecond
	// strayLimit is how many files beside the contracts are stamped.
	strayLimit = 200
)

// Ref says which state of an environment something was made from.
type Ref struct {
	Environment    string
	CecCommit      string // "" without a repository of its own, or without a commit
	CecDirty       *bool  // nil without a repository of its own
	ContractDigest string // "" when there are no files or one cannot be read
}

type refJSON struct {
	Environment    string  `json:"environment"`
	CecCommit      *string `json:"cec_commit"`
	CecDirty       *bool   `json:"cec_dirty"`
	ContractDigest *string `json:"contract_digest"`
}

// MarshalJSON writes what is not known as null.
func (r Ref) MarshalJSON() ([]byte, error) {
	return json.Marshal(refJSON{r.Environment, orNil(r.CecCommit), r.CecDirty, orNil(r.ContractDigest)})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Ref) UnmarshalJSON(raw []byte) error {
	var wire refJSON
	if err := json.Unmarshal(raw, &wire); err != nil {
		return err
	}
	*r = Ref{Environment: wire.Environment, CecDirty: wire.CecDirty}
	if wire.CecCommit != nil {
		r.CecCommit = *wire.CecCommit
	}
	if wire.ContractDigest != nil {
		r.ContractDigest = *wire.ContractDigest
	}
	return nil
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// repository remembers what git said about a manifest folder.
type repository struct {
	now    func() time.Time
	rounds rounds
	dir    string
	digest string // of the contracts when git was asked
	paths  []string
	stamps []stamp // of paths
	asked  time.Time
	commit string
	dirty  *bool
}

func (r *repository) state(ctx context.Context, dir, digest string) (commit string, dirty *bool) {
	r.rounds.do(func() { r.refresh(ctx, dir, digest) })
	r.rounds.working.Lock()
	defer r.rounds.working.Unlock()
	return r.commit, r.dirty
}

func (r *repository) refresh(ctx context.Context, dir, digest string) {
	now := r.now()
	if r.dir == dir && r.digest == digest && now.Sub(r.asked) < gitAge && slices.Equal(stampAll(r.paths), r.stamps) {
		settled := !slices.ContainsFunc(r.stamps, func(s stamp) bool { return s.recent(r.asked) })
		if settled || now.Sub(r.asked) < gitPause {
			return
		}
	}
	r.dir, r.digest, r.asked = dir, digest, now
	r.paths = gitPaths(dir)
	r.stamps = stampAll(r.paths)
	r.commit, r.dirty = askGit(ctx, dir)
}

func stampAll(paths []string) []stamp {
	stamps := make([]stamp, len(paths))
	for i, p := range paths {
		stamps[i], _ = stampOf(p)
	}
	return stamps
}

// gitPaths covers what moves when a commit is made or a file of the manifest
// is changed; a new file moves its folder. The folder .git itself is left out:
// whoever asks git anything moves it.
func gitPaths(dir string) []string {
	gitDir := filepath.Join(dir, ".git")
	if _, ok := stampOf(gitDir); !ok {
		return []string{gitDir}
	}
	if text, err := os.ReadFile(gitDir); err == nil { // a worktree: .git is a file
		gitDir = strings.TrimSpace(strings.TrimPrefix(string(text), "gitdir:"))
		if !filepath.IsAbs(gitDir) {
			gitDir = filepath.Join(dir, gitDir)
		}
	}
	paths := []string{gitDir + "/HEAD", gitDir + "/index", gitDir + "/packed-refs", gitDir + "/logs/HEAD", dir}
	if head, err := os.ReadFile(gitDir + "/HEAD"); err == nil {
		paths = append(paths, filepath.Join(gitDir, strings.TrimSpace(strings.TrimPrefix(string(head), "ref:"))))
	}
	return append(paths, strayFiles(dir)...)
}

// strayFiles lists the manifest's own files and those of its workflows.
func strayFiles(dir string) []string {
	var out []string
	for _, folder := range []string{dir, filepath.Join(dir, "workflows"), filepath.Join(dir, promptFolder)} {
		out = append(out, folder)
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue
		}
		for _, e := range entries[:min(len(entries), strayLimit)] {
			if !e.IsDir() {
				out = append(out, filepath.Join(folder, e.Name()))
			}
		}
	}
	return out
}

// askGit asks for commit and cleanliness at once. A repository that merely
// encloses the folder does not count, nor do the variables of a git that may
// have started us; the index is not refreshed, which would look like a change.
func askGit(ctx context.Context, dir string) (commit string, dirty *bool) {
	if _, ok := stampOf(filepath.Join(dir, ".git")); !ok {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), gitLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", "-c", "core.fsmonitor=false", "status", "--porcelain=v2", "--branch")
	cmd.Dir = dir
	cmd.WaitDelay = gitLimit / 4
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") && !strings.HasPrefix(v, "GIT_CONFIG") }),
		"GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
	out, err := cmd.Output()
	if err != nil {
		return "", nil
	}
	changed := false
	for line := range bytes.Lines(out) {
		if oid, ok := bytes.CutPrefix(line, []byte("# branch.oid ")); ok {
			commit = strings.TrimSpace(string(oid))
		}
		changed = changed || !bytes.HasPrefix(line, []byte("# "))
	}
	return strings.TrimPrefix(commit, "(initial)"), &changed
}
