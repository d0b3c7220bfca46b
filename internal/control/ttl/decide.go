package ttl

// boundary is how long kubelets may keep Secrets and ConfigMaps in clusters of a size. Sizes
// overlap, so that a cluster at a boundary does not go back and forth.
type boundary struct{ least, most, seconds int }

// boundaries are upstream's.
var boundaries = []boundary{
	{0, 100, 0}, {90, 500, 15}, {450, 1000, 30}, {900, 2000, 60}, {1800, 1 << 31, 300},
}

// Step is the boundary of a cluster with so many nodes that was at another one before.
func Step(before, nodes int) int {
	for before < len(boundaries)-1 && nodes > boundaries[before].most {
		before++
	}
	for before > 0 && nodes < boundaries[before].least {
		before--
	}
	return before
}

// Seconds is the time of a boundary.
func Seconds(step int) int { return boundaries[step].seconds }
