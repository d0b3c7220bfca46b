package ttl

import "testing"

// The times of upstream's controller, and that a cluster at a boundary stays where it was.
func TestTTLGrowsWithTheNumberOfNodes(t *testing.T) {
	for _, c := range []struct{ before, nodes, want int }{
		{0, 0, 0}, {0, 100, 0}, {0, 101, 15}, {1, 90, 15}, {1, 89, 0}, {1, 500, 15}, {1, 501, 30}, {2, 450, 30},
		{2, 449, 15}, {0, 5000, 300}, {4, 1800, 300}, {4, 1799, 60}, {4, 1, 0},
	} {
		if got := Seconds(Step(c.before, c.nodes)); got != c.want {
			t.Errorf("%d nodes after step %d: %d s, want %d s", c.nodes, c.before, got, c.want)
		}
	}
}
