package breaker

import "testing"

// leastInventedPercent of the points of inventedKinds has to be reached.
const leastInventedPercent = 95

// As TestTheBreakIsNamed, with what operators report of their clusters.
func TestTheInventedBreakIsNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("plays dozens of breaks")
	}
	seed, seeds := number("GANTRY_SEED", 1), number("GANTRY_SEEDS", 1)
	b, r := start(t), newTotals()
	for s := seed; s < seed+seeds; s++ {
		b.playAll(t.Context(), r, s, inventedKinds)
	}
	r.report(t, leastInventedPercent)
}
