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
	return stampFrom(&st), true
}

// stampHere is stampOf but for a link, which it says is one.
func stampHere(path string) (s stamp, ok bool) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return stamp{}, false
	}
	return stampFrom(&st), true
}

func stampFrom(st *unix.Stat_t) stamp {
	return stamp{
		inode:  uint64(st.Ino),
		size:   st.Size,
		mode:   uint32(st.Mode),
		mtime:  st.Mtim.Nano(),
		ctime:  st.Ctim.Nano(),
		linked: st.Mode&unix.S_IFMT == unix.S_IFLNK,
	}
}

// stampsBelow is stampOf for many paths below dir. The way to dir is gone once,
// which is half of the time. Call done at the end.
func stampsBelow(dir string) (stampOf func(path string) (stamp, bool), done func()) {
	folder, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil { // it is not to be read, or too many files are open
		return stampsEach(dir), func() {}
	}
	return func(path string) (stamp, bool) {
		var st unix.Stat_t
		if err := unix.Fstatat(folder, path, &st, 0); err != nil {
			return stamp{}, false
		}
		return stampFrom(&st), true
	}, func() { _ = unix.Close(folder) }
}

func (s stamp) regular() bool { return s.mode&unix.S_IFMT == unix.S_IFREG }
