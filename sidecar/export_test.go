package sidecar

// Manners is of how many runs it is kept how they were asked for.
func (s *Studio) Manners() int {
	s.manners.mu.Lock()
	defer s.manners.mu.Unlock()
	return len(s.manners.known)
}
