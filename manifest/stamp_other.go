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
	return stampFrom(os.Stat(path))
}

// stampHere is stampOf but for a link, or a junction, which it says is one.
func stampHere(path string) (s stamp, ok bool) {
	return stampFrom(os.Lstat(path))
}

func stampFrom(st os.FileInfo, err error) (s stamp, ok bool) {
	if err != nil {
		return stamp{}, false
	}
	return stamp{size: st.Size(), mode: st.Mode(), mtime: st.ModTime().UnixNano(), linked: st.Mode()&(fs.ModeSymlink|fs.ModeIrregular) != 0}, true
}

// stampsBelow is stampOf for many paths below dir. Call done at the end.
func stampsBelow(dir string) (stampOf func(path string) (stamp, bool), done func()) {
	return stampsEach(dir), func() {}
}

func (s stamp) regular() bool { return s.mode.IsRegular() }
