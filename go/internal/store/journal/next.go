package journal

// NextGroup is the number that the next group will have. It holds as long as nobody else appends.
func (j *Journal) NextGroup() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.nextGroup
}
