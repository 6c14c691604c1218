package journal

// Headroom is how many bytes may be written before Full.
func (s Space) Headroom(livingDeliveries int64) int64 {
	return max(0, min(s.Free-s.Floor(livingDeliveries), s.Total/10*9-s.Used))
}
