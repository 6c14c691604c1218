package observe

// Shed is how many requests of a source were turned away that its sender may send again, over all
// data planes that there are and were.
func (m *Metrics) Shed(source string) uint64 {
	all, _, _, _ := m.read()
	sums := all.sources[source]
	if sums == nil {
		return 0
	}
	n := uint64(0)
	for _, shed := range sums.sheds {
		n += shed
	}
	return n
}
