package manifest

// linkStamp also tells what it stamps from a link to it, which may lead out of
// the manifest's folder.
func linkStamp(path string) (s stamp, ok bool) {
	if s, ok = stampHere(path); s.linked {
		s, ok = stampOf(path)
		s.linked = true
	}
	return s, ok
}

// graphStamp also tells whether a graph's file, or a folder on the way to it
// below dir, is a link.
func graphStamp(dir, path string) (s stamp, there bool) {
	s, there = linkStamp(dir + "/" + path)
	for i, c := range path {
		if c == '/' && !s.linked {
			way, _ := stampHere(dir + "/" + path[:i])
			s.linked = way.linked
		}
	}
	return s, there
}
