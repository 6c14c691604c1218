package deliver

// Limit is how many attempts a destination may have in flight now; 0: there is no such destination.
func (s *Service) Limit(id uint32) int {
	s.mu.Lock()
	r := s.runners[id]
	s.mu.Unlock()
	if r == nil {
		return 0
	}
	return r.status().Limit
}
