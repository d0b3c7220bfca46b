package columns

import (
	"math"
	"math/bits"
)

// NotFeasible is what a group adds whose rows are not in the running, and the best of no rows.
const NotFeasible int32 = math.MinInt32

// rowsPerSpan is how many rows share a summary: one word of a set of rows.
const rowsPerSpan = 64

// Ranks are rows in groups. A row's total is its own points and what its group adds, so that what
// is said of a whole group costs nothing per row; the best are found without looking at all rows.
// What groups add is given with each call: by number of the group, NotFeasible for those that are
// not in the running.
type Ranks struct {
	points   []int32
	group    []int32 // of each row; -1: none
	groups   []rankedGroup
	matching []int32 // scratch
}

// rankedGroup is a group's rows, and the best of each span.
type rankedGroup struct {
	rows    []uint64
	n       int
	best    []int32
	ties    []int32
	stale   []uint64 // spans whose best is to be found anew
	changed bool     // some are
	top     int32
	at      int // rows that have it
}

// Reset makes n rows in no group, and no groups.
func (r *Ranks) Reset(n int) {
	r.points, r.group, r.groups = make([]int32, n), make([]int32, n), nil
	for i := range r.group {
		r.group[i] = -1
	}
}

// Len is the number of rows.
func (r *Ranks) Len() int { return len(r.points) }

// Groups is the number of groups, those without rows included.
func (r *Ranks) Groups() int { return len(r.groups) }

// Bytes is what rows and groups take, roughly.
func (r *Ranks) Bytes() int {
	spans := (len(r.points) + rowsPerSpan - 1) / rowsPerSpan
	return 8*len(r.points) + len(r.groups)*16*spans
}

// AddGroup makes a group without rows and gives its number.
func (r *Ranks) AddGroup() int32 {
	spans := (len(r.points) + rowsPerSpan - 1) / rowsPerSpan
	numbers := make([]int32, 2*spans)
	sets := make([]uint64, spans+(spans+rowsPerSpan-1)/rowsPerSpan)
	g := rankedGroup{rows: sets[:spans:spans], stale: sets[spans:], best: numbers[:spans:spans], ties: numbers[spans:],
		top: NotFeasible}
	for k := range g.best {
		g.best[k] = NotFeasible
	}
	r.groups = append(r.groups, g)
	return int32(len(r.groups) - 1)
}

// Set places a row in a group, with its own points.
func (r *Ranks) Set(row, group, points int32) {
	if r.group[row] == group && r.points[row] == points {
		return
	}
	if r.group[row] != group {
		r.Remove(row)
		g := &r.groups[group]
		g.rows[row/rowsPerSpan] |= 1 << (row % rowsPerSpan)
		g.n++
		r.group[row] = group
	}
	r.points[row] = points
	r.groups[group].markStale(row)
}

// Remove takes a row out of its group.
func (r *Ranks) Remove(row int32) {
	if r.group[row] < 0 {
		return
	}
	g := &r.groups[r.group[row]]
	g.rows[row/rowsPerSpan] &^= 1 << (row % rowsPerSpan)
	g.n--
	g.markStale(row)
	r.group[row] = -1
}

// Group is that of a row; -1 for none.
func (r *Ranks) Group(row int32) int32 { return r.group[row] }

// Points are a row's own.
func (r *Ranks) Points(row int32) int32 { return r.points[row] }

// Size is how many rows a group has.
func (r *Ranks) Size(group int32) int { return r.groups[group].n }

// First is the first row of a group; -1 when it has none.
func (r *Ranks) First(group int32) int32 {
	for k, word := range r.groups[group].rows {
		if word != 0 {
			return int32(k*rowsPerSpan + bits.TrailingZeros64(word))
		}
	}
	return -1
}

func (g *rankedGroup) markStale(row int32) {
	k := row / rowsPerSpan
	g.stale[k/rowsPerSpan] |= 1 << (k % rowsPerSpan)
	g.changed = true
}

// refreshGroup finds the group's best again after rows moved.
func (r *Ranks) refreshGroup(g *rankedGroup) {
	if !g.changed {
		return
	}
	g.changed = false
	for w, word := range g.stale {
		for ; word != 0; word &= word - 1 {
			k := w*rowsPerSpan + bits.TrailingZeros64(word)
			g.best[k], g.ties[k] = r.bestOfSpan(k*rowsPerSpan, g.rows[k])
		}
		g.stale[w] = 0
	}
	g.top, g.at = NotFeasible, 0
	for k, best := range g.best {
		switch {
		case best > g.top:
			g.top, g.at = best, int(g.ties[k])
		case best == g.top:
			g.at += int(g.ties[k])
		}
	}
}

// bestOfSpan is the highest points among rows of a span, and how many have them.
func (r *Ranks) bestOfSpan(from int, rows uint64) (best, ties int32) {
	best = NotFeasible
	for ; rows != 0; rows &= rows - 1 {
		switch points := r.points[from+bits.TrailingZeros64(rows)]; {
		case points > best:
			best, ties = points, 1
		case points == best:
			ties++
		}
	}
	return best, ties
}

// Best gives the highest total and how many rows have it; no rows when none is in the running.
func (r *Ranks) Best(adds []int32) (total int32, ties int) {
	total = NotFeasible
	for i, add := range adds {
		g := &r.groups[i]
		if add == NotFeasible || g.n == 0 {
			continue
		}
		r.refreshGroup(g)
		switch {
		case g.top+add > total:
			total, ties = g.top+add, g.at
		case g.top+add == total:
			ties += g.at
		}
	}
	return total, ties
}

// Nth gives the nth row, from 0, of those that have the total Best gave; -1 when there are not so
// many.
func (r *Ranks) Nth(adds []int32, total int32, nth int) int32 {
	those := r.matching[:0] // groups that have such rows
	for i, add := range adds {
		if g := &r.groups[i]; add != NotFeasible && g.n > 0 && g.top+add == total {
			those = append(those, int32(i))
		}
	}
	r.matching = those
	for k := range (len(r.points) + rowsPerSpan - 1) / rowsPerSpan {
		ties := 0
		for _, i := range those {
			if g := &r.groups[i]; g.best[k] == g.top {
				ties += int(g.ties[k])
			}
		}
		if nth >= ties {
			nth -= ties
			continue
		}
		return r.nthInSpan(k, those, nth)
	}
	return -1
}

// nthInSpan gives the nth row of a span among the groups' best.
func (r *Ranks) nthInSpan(k int, groups []int32, nth int) int32 {
	var rows uint64
	for _, i := range groups {
		g := &r.groups[i]
		for left := g.rows[k]; left != 0; left &= left - 1 {
			if at := bits.TrailingZeros64(left); r.points[k*rowsPerSpan+at] == g.top {
				rows |= 1 << at
			}
		}
	}
	for ; nth > 0; nth-- {
		rows &= rows - 1
	}
	return int32(k*rowsPerSpan + bits.TrailingZeros64(rows))
}

// Top appends up to n rows, the highest total first and of equals the first row first, leaving out
// one row (-1: none).
func (r *Ranks) Top(to, adds []int32, n int, except int32) []int32 {
	if n <= 0 {
		return to
	}
	t := topRows{Ranks: r, adds: adds, rows: to, from: len(to), n: n, except: except}
	for i, add := range adds {
		if g := &r.groups[i]; add != NotFeasible && g.n > 0 {
			r.refreshGroup(g)
			t.addGroup(g, add)
		}
	}
	return t.rows
}

// topRows is the best rows found so far.
type topRows struct {
	*Ranks
	adds    []int32
	rows    []int32
	from, n int // those from that place on are the best, not more than n
	except  int32
	lowest  int32 // total of the last, once there are n
}

func (t *topRows) full() bool { return len(t.rows)-t.from == t.n }

// isWorse tells whether rows from a place on can no longer be among the best when their total is at
// most this.
func (t *topRows) isWorse(total int32, row int32) bool {
	return t.full() && (total < t.lowest || total == t.lowest && row > t.rows[len(t.rows)-1])
}

// addGroup takes what is among the best of a group.
func (t *topRows) addGroup(g *rankedGroup, add int32) {
	if t.isWorse(g.top+add, 0) {
		return
	}
	for k, best := range g.best {
		if best == NotFeasible || t.isWorse(best+add, int32(k*rowsPerSpan)) {
			continue
		}
		for left := g.rows[k]; left != 0; left &= left - 1 {
			row := int32(k*rowsPerSpan + bits.TrailingZeros64(left))
			if total := t.points[row] + add; row != t.except && !t.isWorse(total, row) {
				t.insert(row, total)
			}
		}
	}
}

func (t *topRows) insert(row, total int32) {
	if t.full() {
		t.rows = t.rows[:len(t.rows)-1]
	}
	at := len(t.rows)
	t.rows = append(t.rows, row)
	for ; at > t.from; at-- {
		before := t.rows[at-1]
		if of := t.points[before] + t.adds[t.group[before]]; of > total || of == total && before < row {
			break
		}
		t.rows[at] = before
	}
	t.rows[at] = row
	last := t.rows[len(t.rows)-1]
	t.lowest = t.points[last] + t.adds[t.group[last]]
}
