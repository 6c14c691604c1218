package config

// suggest finds the known word nearest to a mistyped one, if one is near enough to be meant.
func suggest(word string, known []string) (string, bool) {
	best, bestDistance := "", max(1, len(word)/3)+1
	for _, candidate := range known {
		if d := distance(word, candidate); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best, best != ""
}

// distance counts the single-letter changes (insert, drop, replace, swap of neighbours) from a to
// b.
func distance(a, b string) int {
	if len(a) > nameMax || len(b) > nameMax {
		return nameMax
	}
	before := make([]int, len(b)+1)
	previous := make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current := make([]int, len(b)+1)
		current[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			current[j] = min(previous[j]+1, current[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous = previous, current
	}
	return previous[len(b)]
}
