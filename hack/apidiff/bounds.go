package main

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// probe is values of a path in an order in which an answer changes at a bound.
type probe struct {
	of     change
	values []any
	coarse []any // of them, what is asked first: without a difference there is no bound
}

// mostFindings is of how many findings an answer is still kept: long lists of elements that are all
// wrong tell no more than short ones.
const mostFindings = 6

// bounds returns, for each path that was not asked yet, the neighbours among ordered values that
// are answered otherwise than each other.
func (w *wide) bounds(ctx context.Context, b *base, all []change) ([][]change, error) {
	var probes []probe
	for i := range all {
		key := "bounds " + b.at + " " + index.ReplaceAllString(pathText(all[i].path), "[]")
		if !w.seen[key] {
			w.seen[key] = true
			probes = append(probes, probesOf(all[i:])...)
		}
	}
	var out [][]change
	for _, fine := range []bool{false, true} {
		got, group, err := w.probe(ctx, b, probes, fine)
		if err != nil {
			return nil, err
		}
		differ, keep := map[int]bool{}, map[int]bool{}
		for i := 1; i < len(got); i++ {
			if group[i] == group[i-1] && !slices.Equal(tells(&got[i].Want), tells(&got[i-1].Want)) {
				differ[group[i]], keep[i-1], keep[i] = true, true, true
			}
		}
		if !fine {
			var left []probe
			for _, i := range slices.Sorted(maps.Keys(differ)) {
				left = append(left, probes[i])
			}
			probes = left
			continue
		}
		for _, i := range slices.Sorted(maps.Keys(keep)) {
			if len(got[i].Want.Findings) <= mostFindings {
				out = append(out, got[i].changes)
			}
		}
	}
	return out, nil
}

// probe asks the values of probes; beside each answer, which probe it is of.
func (w *wide) probe(ctx context.Context, b *base, probes []probe, fine bool) (got []asking, group []int, err error) {
	var ask [][]change
	for i := range probes {
		values := probes[i].coarse
		if fine {
			values = probes[i].values
		}
		for _, v := range values {
			ask = append(ask, []change{{probes[i].of.path, v, probes[i].of.make}})
			group = append(group, i)
		}
	}
	got, err = w.answers(ctx, b, ask)
	return got, group, err
}

// probesOf returns what to ask about the path of the first of some changes.
func probesOf(of []change) (out []probe) {
	var sample any
	for i := range of {
		if !reflect.DeepEqual(of[i].path, of[0].path) {
			break
		}
		if _, gone := of[i].value.(absent); !gone && sample == nil {
			sample = of[i].value
		}
		if l, ok := of[i].value.([]any); ok && len(l) == 1 {
			sample = l
		}
	}
	add := func(values []any, coarse ...any) { out = append(out, probe{of[0], values, coarse}) }
	switch x := sample.(type) {
	case int:
		var values []any
		for _, n := range []int{-1001, -1000, -999, -1, 0, 1, 2, 3, 9, 10, 11, 15, 16, 29, 30, 31, 59, 60, 61, 63,
			64, 65,
			99, 100, 101, 127, 128, 255, 256, 299, 300, 301, 511, 512, 599, 600, 601, 999, 1000, 1001, 1023, 1024, 3599,
			3600, 3601, 10000, 10001, 32767, 32768, 65535, 65536, 86400, 86401, 100000, 100001, 1000000000, 1000000001,
			1<<31 - 1, 1 << 31, 1 << 32, 1<<32 + 1} {
			values = append(values, n)
		}
		add(values, -1001, -1, 0, 1, 70000, 1<<31-1)
	case string:
		var plain, dotted, named []any
		for _, n := range []int{0, 1, 14, 15, 16, 20, 21, 32, 33, 36, 37, 52, 53, 57, 58, 62, 63, 64, 100, 101, 128,
			129, 253,
			254, 256, 257, 512, 513, 1024, 1025, 2048, 2049, 4096, 4097} {
			text := strings.Repeat("x", n)
			plain, named = append(plain, text), append(named, "a.b/"+text)
			if n > 200 {
				dotted = append(dotted, (strings.Repeat("x.", n/2+1))[:n-1]+"x")
			}
		}
		add(plain, plain[1], plain[16], plain[len(plain)-1])
		add(named, named[1], named[16], named[len(named)-1])
		add(dotted, dotted[0], dotted[len(dotted)-1])
	case []any:
		if len(x) != 1 {
			return nil
		}
		var values []any
		for _, n := range []int{1, 2, 3, 4, 7, 8, 9, 10, 11, 15, 16, 17, 20, 21, 31, 32, 33, 63, 64, 65, 99, 100,
			101, 128,
			129, 256, 257} {
			list := []any{}
			for i := range n {
				list = append(list, numbered(x[0], i))
			}
			values = append(values, list)
		}
		add(values, values[0], values[11], values[len(values)-1])
	}
	return out
}

// numbered returns a value that differs from the others in its text or its first texts.
func numbered(v any, i int) any {
	switch x := clone(v).(type) {
	case string:
		return fmt.Sprint(x, i)
	case map[string]any:
		for _, k := range []string{"name", "key", "path", "type", "driver"} {
			if text, ok := x[k].(string); ok {
				x[k] = fmt.Sprint(text, i)
				break
			}
		}
		return x
	}
	return v
}
