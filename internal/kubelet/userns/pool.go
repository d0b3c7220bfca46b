package userns

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Unit is what every range is a multiple of, in ids.
const Unit = 65536

// Range is a run of ids of the host; inside the Pod it begins at 0.
type Range struct {
	First  uint32 // id of the host that is 0 inside
	Length uint32 // in ids
}

// end is the first id after the range.
func (r Range) end() uint64 { return uint64(r.First) + uint64(r.Length) }

func (r Range) overlaps(o Range) bool {
	return uint64(r.First) < o.end() && uint64(o.First) < r.end()
}

// Pool is the run of ids that a node gives to its Pods.
type Pool struct {
	First  uint32
	Length uint64 // in ids
	PerPod uint32 // in ids
}

// Config is what the KubeletConfiguration says of users.
type Config struct {
	IDsPerPod *int64 // userNamespaces.idsPerPod; nil is 65536
	MaxPods   int32
}

// Default is the Pool of a node whose subordinate ids nobody configured: it begins right above the
// ids of ordinary users.
func Default(w Config) (Pool, error) {
	per, err := w.perPod()
	if err != nil {
		return Pool{}, err
	}
	p := Pool{First: per, Length: uint64(per) * uint64(w.MaxPods), PerPod: per}
	if uint64(p.First)+p.Length > math.MaxUint32+1 {
		return Pool{},
			fmt.Errorf("userNamespaces.idsPerPod: Invalid value: %d: %d Pods (maxPods) of so many ids each do not "+
				"fit into 32 bits: lower one of the two", per, w.MaxPods)
	}
	return p, nil
}

func (w Config) perPod() (uint32, error) {
	if w.IDsPerPod == nil {
		return Unit, nil
	}
	n := *w.IDsPerPod
	if n <= 0 || n%Unit != 0 || n > math.MaxUint32 {
		return 0, fmt.Errorf("userNamespaces.idsPerPod: Invalid value: %d: must be a multiple of %d, greater than 0 "+
			"and less than 1<<32", n, Unit)
	}
	return uint32(n), nil
}

// Subordinate is the Pool of a node that has subordinate ids for the user "kubelet": what
// `getsubids kubelet` and `getsubids -g kubelet` printed.
func Subordinate(w Config, uids, gids string) (Pool, error) {
	per, err := w.perPod()
	if err != nil {
		return Pool{}, err
	}
	if uids != gids {
		return Pool{},
			errors.New("mismatched subuids and subgids for user \"kubelet\": give it the same range in /etc/subuid " +
				"and /etc/subgid")
	}
	first, length, err := parseLine(uids)
	if err != nil {
		return Pool{}, err
	}
	switch {
	case first%Unit != 0:
		return Pool{},
			fmt.Errorf("kubelet user assigned ID %d is not a multiple of %d: correct its line in /etc/subuid and "+
				"/etc/subgid", first, Unit)
	case first < Unit:
		return Pool{},
			fmt.Errorf("kubelet user assigned ID %d must be greater or equal to %d: correct its line in /etc/subuid "+
				"and /etc/subgid", first, Unit)
	case length%Unit != 0:
		return Pool{},
			fmt.Errorf("kubelet user assigned IDs length %d is not a multiple of %d: correct its line in /etc/subuid "+
				"and /etc/subgid", length, Unit)
	case uint64(length) < uint64(per)*uint64(w.MaxPods):
		return Pool{},
			fmt.Errorf("kubelet user assigned IDs are not enough to support %d pods: %d ids are needed, %d are "+
				"assigned: lower maxPods, or raise the count in /etc/subuid and /etc/subgid",
				w.MaxPods, uint64(per)*uint64(w.MaxPods), length)
	case uint64(first)+uint64(length) > math.MaxUint32+1:
		return Pool{}, fmt.Errorf("kubelet user assigned IDs %d to %d do not fit into 32 bits", first,
			uint64(first)+uint64(length))
	}
	return Pool{First: first, Length: uint64(length), PerPod: per}, nil
}

// parseLine reads "0: kubelet 65536 7208960", the form of getsubids.
func parseLine(out string) (first, length uint32, err error) {
	lines := strings.Split(strings.Trim(out, "\n"), "\n")
	if len(lines) != 1 {
		return 0, 0,
			fmt.Errorf("error parsing line %q: it must contain only one line: give the user \"kubelet\" one range in "+
				"/etc/subuid and /etc/subgid", out)
	}
	parts := strings.Fields(lines[0])
	if len(parts) != 4 {
		return 0, 0, fmt.Errorf("invalid line %q: getsubids prints number, name, first id and count", out)
	}
	var n [2]uint64
	for i, text := range parts[2:] {
		if n[i], err = strconv.ParseUint(text, 10, 32); err != nil {
			return 0, 0, fmt.Errorf("invalid line %q: %w", out, err)
		}
	}
	return uint32(n[0]), uint32(n[1]), nil
}

// Pick returns the first range of the pool after last that meets none of the taken ones, so that
// the ids of a Pod that ended are not at once another's; after the pool's end, and with no last
// one, it looks from the pool's beginning.
func (p Pool) Pick(last Range, taken []Range) (Range, error) {
	sorted := slices.SortedFunc(slices.Values(taken),
		func(a, b Range) int { return int(int64(a.First) - int64(b.First)) })
	begin, end := uint64(p.First), uint64(p.First)+p.Length
	from := begin
	if uint64(last.First) >= begin && last.end() <= end {
		from = begin + (last.end()-begin+uint64(p.PerPod)-1)/uint64(p.PerPod)*uint64(p.PerPod)
	}
	for _, part := range [][2]uint64{{from, end}, {begin, from}} {
		if r, ok := p.firstFree(part[0], part[1], sorted); ok {
			return r, nil
		}
	}
	return Range{}, fmt.Errorf("could not find an empty slot to allocate a user namespace: %d ranges are taken of %d",
		len(taken), p.Length/uint64(p.PerPod))
}

// firstFree is the lowest range of the pool's steps from from to end that meets none of the sorted
// ones.
func (p Pool) firstFree(from, end uint64, sorted []Range) (Range, bool) {
	for at := from; at+uint64(p.PerPod) <= end; {
		r := Range{uint32(at), p.PerPod}
		i := slices.IndexFunc(sorted, r.overlaps)
		if i < 0 {
			return r, true
		}
		at += uint64(p.PerPod)
		for at < sorted[i].end() { // stay on the pool's own steps
			at += uint64(p.PerPod)
		}
	}
	return Range{}, false
}
