//go:build unix

package manifest

import "golang.org/x/sys/unix"

// stamp changes when a file does. The change time, which nobody can set, also
// shows edits that keep the modification time.
type stamp struct {
	inode        uint64
	size         int64
	mode         uint32
	mtime, ctime int64 // nanoseconds
	linked       bool  // of a folder or graph: it is reached by a link
}

// stampOf follows links; ok is false where there is nothing.
func stampOf(path string) (s stamp, ok bool) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return stamp{}, false
	}
	return stamp{
		inode: uint64(st.Ino),
		size:  st.Size,
		mode:  uint32(st.Mode),
		mtime: st.Mtim.Nano(),
		ctime: st.Ctim.Nano(),
	}, true
}

func (s stamp) regular() bool { return s.mode&unix.S_IFMT == unix.S_IFREG }
