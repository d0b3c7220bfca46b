package batch

import (
	"fmt"
	"strconv"
	"strings"
)

// indexSpan is a run of indexes, both ends included.
type indexSpan struct{ first, last int32 }

// parseIndexes reads a list as "1,3-5,7": growing runs of indexes below completions.
func parseIndexes(list string, completions int32) ([]indexSpan, error) {
	if list == "" {
		return nil, nil
	}
	var out []indexSpan
	for _, part := range strings.Split(list, ",") {
		s, err := parseSpan(part, completions)
		if err != nil {
			return nil, err
		}
		if len(out) > 0 && out[len(out)-1].last >= s.first {
			return nil, fmt.Errorf("non-increasing order, previous: %d, current: %d", out[len(out)-1].last, s.first)
		}
		out = append(out, s)
	}
	return out, nil
}

func parseSpan(part string, completions int32) (indexSpan, error) {
	ends := strings.Split(part, "-")
	if len(ends) > 2 {
		return indexSpan{},
			fmt.Errorf("the fragment %q violates the requirement that an index interval can have at most two parts "+
				"separated by '-'", part)
	}
	first, err := parseIndex(ends[0], completions)
	if err != nil || len(ends) == 1 {
		return indexSpan{first, first}, err
	}
	last, err := parseIndex(ends[1], completions)
	if err != nil {
		return indexSpan{}, err
	}
	if first >= last {
		return indexSpan{}, fmt.Errorf("non-increasing order, previous: %d, current: %d", first, last)
	}
	return indexSpan{first, last}, nil
}

func parseIndex(text string, completions int32) (int32, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("cannot convert string to integer for index: %q", text)
	}
	if n >= int(completions) {
		return 0, fmt.Errorf("too large index: %q", text)
	}
	return int32(n), nil
}

func size(spans []indexSpan) int32 {
	n := int32(0)
	for _, s := range spans {
		n += s.last - s.first + 1
	}
	return n
}

// countOverlap is the first index in both lists; false when they have none in common.
func countOverlap(a, b []indexSpan) (int32, bool) {
	for len(a) > 0 && len(b) > 0 {
		if a[0].first <= b[0].last && b[0].first <= a[0].last {
			return max(a[0].first, b[0].first), true
		}
		if a[0].first <= b[0].first {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return 0, false
}
