package columns

import "math"

// Out is the total of a row that is not in the running.
const Out int32 = math.MinInt32

// span is how many rows share a summary.
const span = 64

// Ranks are totals by row, of which the best is found without looking at all.
type Ranks struct {
	totals []int32
	best   []int32 // per span
	ties   []int32 // rows of the span that have its best
	stale  []bool
}

// Reset makes n rows, all Out.
func (r *Ranks) Reset(n int) {
	spans := (n + span - 1) / span
	r.totals, r.best, r.ties, r.stale = make([]int32, n), make([]int32, spans), make([]int32, spans), make([]bool, spans)
	for i := range r.totals {
		r.totals[i] = Out
	}
	for k := range r.best {
		r.best[k] = Out
	}
}

// Set gives a row its total.
func (r *Ranks) Set(row int32, total int32) {
	if r.totals[row] != total {
		r.totals[row] = total
		r.stale[row/span] = true
	}
}

// At gives a row's total.
func (r *Ranks) At(row int32) int32 { return r.totals[row] }

// Len is the number of rows.
func (r *Ranks) Len() int { return len(r.totals) }

func (r *Ranks) settle(k int) {
	if !r.stale[k] {
		return
	}
	r.stale[k] = false
	best, ties := Out, int32(0)
	for _, t := range r.totals[k*span : min((k+1)*span, len(r.totals))] {
		switch {
		case t > best:
			best, ties = t, 1
		case t == best && t != Out:
			ties++
		}
	}
	r.best[k], r.ties[k] = best, ties
}

// Best gives the highest total and how many rows have it; no rows when all are Out.
func (r *Ranks) Best() (total int32, ties int) {
	total = Out
	for k := range r.best {
		r.settle(k)
		switch {
		case r.best[k] > total:
			total, ties = r.best[k], int(r.ties[k])
		case r.best[k] == total && total != Out:
			ties += int(r.ties[k])
		}
	}
	return total, ties
}

// Nth gives the nth row, from 0, of those that have the total Best gave; -1 when there are not so many.
func (r *Ranks) Nth(total int32, nth int) int32 {
	for k := range r.best {
		if r.best[k] != total {
			continue
		}
		if nth >= int(r.ties[k]) {
			nth -= int(r.ties[k])
			continue
		}
		for row := k * span; row < len(r.totals); row++ {
			if r.totals[row] != total {
				continue
			}
			if nth == 0 {
				return int32(row)
			}
			nth--
		}
	}
	return -1
}

// Top gives up to n rows, the highest total first and of equals the first row first, leaving out one row (-1: none).
func (r *Ranks) Top(n int, except int32) []int32 {
	out := make([]int32, 0, n)
	taken := make([]int32, 0, n+1)
	hide := func(row int32) {
		taken = append(taken, r.totals[row])
		r.Set(row, Out)
	}
	if except >= 0 {
		hide(except)
	}
	for len(out) < n {
		total, ties := r.Best()
		if ties == 0 {
			break
		}
		row := r.Nth(total, 0)
		hide(row)
		out = append(out, row)
	}
	for i, row := range out {
		if except >= 0 {
			i++
		}
		r.Set(row, taken[i])
	}
	if except >= 0 {
		r.Set(except, taken[0])
	}
	return out
}
