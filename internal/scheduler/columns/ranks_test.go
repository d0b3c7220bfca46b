package columns_test

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
)

// TestRanksFindWhatASearchFinds: after any changes and whatever groups add, best, ties and order
// are those of a plain search.
func TestRanksFindWhatASearchFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "rows")
		var r columns.Ranks
		r.Reset(n)
		groups := rapid.IntRange(1, 5).Draw(t, "groups")
		for range groups {
			r.AddGroup()
		}
		adds := make([]int32, groups)
		points, group := make([]int32, n), make([]int32, n)
		for i := range group {
			group[i] = -1
		}
		total := func(row int32) int32 {
			if group[row] < 0 || adds[group[row]] == columns.NotFeasible {
				return columns.NotFeasible
			}
			return points[row] + adds[group[row]]
		}
		for range rapid.IntRange(0, 60).Draw(t, "changes") {
			row := rapid.Int32Range(0, int32(n)-1).Draw(t, "row")
			if group[row] = rapid.Int32Range(-1, int32(groups)-1).Draw(t, "group"); group[row] < 0 {
				r.Remove(row)
			} else {
				points[row] = rapid.Int32Range(-2, 2).Draw(t, "points")
				r.Set(row, group[row], points[row])
			}
			adds[rapid.IntRange(0, groups-1).Draw(t, "adds")] = rapid.SampledFrom([]int32{columns.NotFeasible, -1, 0, 1,
				2}).Draw(t, "add")
			best := columns.NotFeasible
			for i := range n {
				best = max(best, total(int32(i)))
			}
			if got, _ := r.Best(adds); got != best {
				t.Fatalf("best %d, want %d", got, best)
			}
		}
		sizes := make([]int, groups)
		var order []int32
		for i := range int32(n) {
			if group[i] >= 0 {
				sizes[group[i]]++
			}
			if total(i) != columns.NotFeasible {
				order = append(order, i)
			}
		}
		for g, want := range sizes {
			if got := r.Size(int32(g)); got != want {
				t.Fatalf("group %d has %d rows, want %d", g, got, want)
			}
			if got := r.First(int32(g)); got != int32(slices.Index(group, int32(g))) {
				t.Fatalf("first of group %d: got %d, want %d", g, got, int32(slices.Index(group, int32(g))))
			}
		}
		slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(total(b), total(a)) })
		best, ties := r.Best(adds)
		for i := range ties {
			if got := r.Nth(adds, best, i); got != order[i] {
				t.Fatalf("%d. of the best is %d, want %d", i, got, order[i])
			}
		}
		if ties < len(order) && total(order[ties]) == best {
			t.Fatalf("%d ties, but %d has %d as well", ties, order[ties], best)
		}
		k := rapid.IntRange(0, 25).Draw(t, "k")
		if got := r.Top(nil, adds, k, -1); !slices.Equal(got, order[:min(k, len(order))]) {
			t.Fatalf("top %v, want %v", got, order)
		}
		if len(order) > 0 {
			if got := r.Top(nil, adds, k, order[0]); !slices.Equal(got, order[1:min(k+1, len(order))]) {
				t.Fatalf("top without the first %v, want %v", got, order[1:])
			}
		}
	})
}
