//go:build !unix

package manifest

import (
	"io/fs"
	"os"
)

// stamp changes when a file does.
type stamp struct {
	size         int64
	mode         fs.FileMode
	mtime, ctime int64 // nanoseconds; ctime is not known here
	linked       bool  // of a folder or graph: it is reached by a link
}

// stampOf follows links; ok is false where there is nothing.
func stampOf(path string) (s stamp, ok bool) {
	st, err := os.Stat(path)
	if err != nil {
		return stamp{}, false
	}
	return stamp{size: st.Size(), mode: st.Mode(), mtime: st.ModTime().UnixNano()}, true
}

// stampsBelow is stampOf for many paths below dir. Call done at the end.
func stampsBelow(dir string) (stampOf func(path string) (stamp, bool), done func()) {
	return stampsEach(dir), func() {}
}

func (s stamp) regular() bool { return s.mode.IsRegular() }
