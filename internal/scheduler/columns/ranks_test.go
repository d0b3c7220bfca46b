package columns_test

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/scheduler/columns"
)

// TestRanksFindWhatASearchFinds: after any changes, best, ties and order are those of a plain search.
func TestRanksFindWhatASearchFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "rows")
		var r columns.Ranks
		r.Reset(n)
		plain := make([]int32, n)
		for i := range plain {
			plain[i] = columns.Out
		}
		for range rapid.IntRange(0, 60).Draw(t, "changes") {
			row, total := rapid.IntRange(0, n-1).Draw(t, "row"), rapid.Int32Range(-1, 4).Draw(t, "total")
			if total < 0 {
				total = columns.Out
			}
			r.Set(int32(row), total)
			plain[row] = total
			if total, ties := r.Best(); ties > 0 {
				if want := slices.Max(plain); total != want {
					t.Fatalf("best %d, want %d", total, want)
				}
			}
		}
		var order []int32
		for i, v := range plain {
			if v != columns.Out {
				order = append(order, int32(i))
			}
		}
		slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(plain[b], plain[a]) })
		total, ties := r.Best()
		for i := range ties {
			if got := r.Nth(total, i); got != order[i] {
				t.Fatalf("%d. of the best is %d, want %d", i, got, order[i])
			}
		}
		k := rapid.IntRange(0, 25).Draw(t, "k")
		if got := r.Top(k, -1); !slices.Equal(got, order[:min(k, len(order))]) {
			t.Fatalf("top %v, want %v", got, order)
		}
		if len(order) > 0 {
			if got := r.Top(k, order[0]); !slices.Equal(got, order[1:min(k+1, len(order))]) {
				t.Fatalf("top without the first %v, want %v", got, order[1:])
			}
		}
	})
}
