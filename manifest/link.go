package manifest

import (
	"io/fs"
	"os"
)

// folderStamp also tells a folder from a link to it, which may lead out of the
// manifest's folder.
func folderStamp(path string) (s stamp, ok bool) {
	s, ok = stampOf(path)
	s.linked = isLink(path)
	return s, ok
}

// graphStamp also tells whether a graph's file, or a folder on the way to it
// below dir, is a link.
func graphStamp(dir, path string) (s stamp, there bool) {
	s, there = stampOf(dir + "/" + path)
	s.linked = hasLinks(dir, path)
	return s, there
}

func hasLinks(dir, path string) bool {
	for i, c := range path {
		if c == '/' && isLink(dir+"/"+path[:i]) {
			return true
		}
	}
	return isLink(dir + "/" + path)
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}
