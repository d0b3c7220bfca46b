package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-project/gantry/test/replay"
	"github.com/gantry-project/gantry/test/replay/pods"
)

// comparison lives lives on both nodes and collects where they differ.
type comparison struct {
	options  options
	pair     *pair
	intended []intended

	mu      sync.Mutex
	results []result
	count   int // of namespaces
}

// result is what came of one life.
type result struct {
	life   pods.Case
	err    error
	diffs  []replay.Difference // that are not intended
	known  map[string]int      // how many differences are intended, by reason
	unsure int                 // differences that one of both sides did not repeat
}

// all lives the lives: many at once, then those again that differ, then those that change
// the node.
func (r *comparison) all(ctx context.Context, lives []pods.Case) {
	var together, alone, again []pods.Case
	for _, c := range lives {
		if needsNode(c) {
			alone = append(alone, c)
		} else {
			together = append(together, c)
		}
	}
	pods.Concurrently(ctx, together, r.options.parallel, func(c pods.Case) {
		if !r.first(ctx, c) {
			r.mu.Lock()
			again = append(again, c)
			r.mu.Unlock()
		}
	})
	pods.Concurrently(ctx, again, max(1, r.options.parallel/2), func(c pods.Case) { r.second(ctx, c) })
	for _, c := range alone {
		if !r.first(ctx, c) {
			r.second(ctx, c)
		}
	}
}

// needsNode reports whether a life changes the node or asks for a share of it: it stops the
// kubelet, writes a static Pod, or taints the node.
func needsNode(c pods.Case) bool {
	return slices.ContainsFunc(c.Steps, func(s pods.Step) bool {
		return s.Kubelet != "" || s.ManifestFile != nil || share.Match(s.Create) ||
			s.Patch != nil && (s.Patch.Kind == "Node" || share.Match(s.Patch.Body))
	})
}

// first lives a life once on each node. It reports whether that settles it.
func (r *comparison) first(ctx context.Context, c pods.Case) bool {
	begin := time.Now()
	seen, err := r.live(ctx, c, upstreamNode, gantryNode)
	res := result{life: c, err: err}
	if err == nil {
		res.diffs, res.known = r.sort(c, differences(c, seen[0], seen[1]))
	}
	settled := err == nil && len(res.diffs) == 0
	r.report(res, begin, "first time")
	if settled {
		r.add(res)
	}
	return settled
}

// second lives a life that differed again: what differs each time on Gantry's node, and not on
// upstream's, counts.
func (r *comparison) second(ctx context.Context, c pods.Case) {
	begin := time.Now()
	res := result{life: c}
	var seen []pods.Recording
	if needsNode(c) { // each would touch what is the other's
		for range 2 {
			more, err := r.live(ctx, c, upstreamNode, gantryNode)
			seen, res.err = append(seen, more...), err
			if err != nil {
				break
			}
		}
	} else {
		seen, res.err = r.live(ctx, c, upstreamNode, gantryNode, upstreamNode, gantryNode)
	}
	if res.err == nil {
		// The smallest of what four comparisons have in common.
		var common []replay.Difference
		for i, pair := range [][2]int{{0, 1}, {2, 1}, {0, 3}, {2, 3}} {
			d := differences(c, seen[pair[0]], seen[pair[1]])
			if i == 0 {
				common = d
				continue
			}
			before := len(common)
			common = slices.DeleteFunc(common,
				func(x replay.Difference) bool { return !slices.ContainsFunc(d, same(x)) })
			res.unsure += before - len(common)
		}
		res.diffs, res.known = r.sort(c, common)
	}
	r.report(res, begin, "second time")
	r.add(res)
}

// same compares differences without the times of states.
func same(x replay.Difference) func(replay.Difference) bool {
	key := func(d replay.Difference) string {
		if strings.HasSuffix(d.Path, " time") {
			return d.Path
		}
		return d.Path + "\x00" + untimed(d.Want) + "\x00" + untimed(d.Got)
	}
	want := key(x)
	return func(d replay.Difference) bool { return key(d) == want }
}

// live lives a life on these nodes at the same time, each in a namespace of its own.
func (r *comparison) live(ctx context.Context, c pods.Case, nodes ...string) ([]pods.Recording, error) {
	out, errs := make([]pods.Recording, len(nodes)), make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, node := range nodes {
		r.mu.Lock()
		r.count++
		// as long on both nodes, and with the node's name, which is made the common one
		namespace := fmt.Sprintf("life-%04d-%s", r.count, node)
		r.mu.Unlock()
		wg.Go(func() {
			own, err := on(c, node, namespace, r.pair.allocatable[node])
			if err == nil {
				cluster := *r.pair.clusters[node]
				cluster.Names = append([]pods.Folder{{Real: namespace, Normalized: "life-space"}}, cluster.Names...)
				out[i], err = pods.Run(ctx, &cluster, &own)
				if needsNode(c) {
					err = errors.Join(err, untaint(ctx, &cluster, node))
				}
			}
			errs[i] = err
			pods.Save(filepath.Join(r.options.out, "seen", c.Area+"-"+c.Name, fmt.Sprintf("%d-%s", i, node)), out[i])
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return out, fmt.Errorf("on %s: %w", nodes[i], err)
		}
	}
	return out, nil
}

// differences compares what was seen of a life on upstream's node and on Gantry's. What is printed
// of a Pod follows from it.
func differences(c pods.Case, want, got pods.Recording) []replay.Difference {
	c.Recorded = masked(want)
	c.Stability = pods.Stability{History: "same", Events: "same"}
	c.Recorded.Rows, got.Rows, c.Recorded.Describe, got.Describe = nil, nil, nil, nil
	c.Recorded.Objects, got.Objects = nil, nil
	diffs, _ := pods.Compare(&c, got)
	return diffs
}

func (r *comparison) add(res result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, res)
}

func (r *comparison) report(res result, begin time.Time, when string) {
	said := "same"
	switch {
	case res.err != nil:
		said = "not lived: " + res.err.Error()
	case len(res.diffs) > 0:
		said = fmt.Sprintf("%d differences", len(res.diffs))
	case len(res.known) > 0:
		said = "same but for what is intended"
	}
	if res.unsure > 0 {
		said += fmt.Sprintf(" (%d not repeated)", res.unsure)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(os.Stderr, "%-48s %5.1f s  %s: %s\n", res.life.Area+"/"+res.life.Name,
		time.Since(begin).Seconds(), when, said)
	for _, d := range res.diffs {
		fmt.Fprintf(os.Stderr, "    %s\n", d)
	}
}

// show prints the results and returns how many lives differ, or could not be lived.
func (r *comparison) show(w io.Writer) int {
	slices.SortFunc(r.results, func(a, b result) int {
		return strings.Compare(a.life.Area+"/"+a.life.Name, b.life.Area+"/"+b.life.Name)
	})
	equal, known, differ := 0, map[string][]string{}, 0
	for _, res := range r.results {
		name := res.life.Area + "/" + res.life.Name
		for why := range res.known {
			known[why] = append(known[why], name)
		}
		if res.err == nil && len(res.diffs) == 0 {
			if len(res.known) == 0 {
				equal++
			}
			continue
		}
		differ++
		fmt.Fprintln(w, name)
		if res.err != nil {
			fmt.Fprintf(w, "    not lived: %v\n", res.err)
		}
		for _, d := range res.diffs {
			fmt.Fprintf(w, "    %s\n", d)
		}
	}
	fmt.Fprintf(w, "\n%d lives: %d the same, %d the same but for what is intended, %d differ\n", len(r.results), equal,
		len(r.results)-equal-differ, differ)
	for _, why := range slices.Sorted(maps.Keys(known)) {
		fmt.Fprintf(w, "  intended: %s: %d\n", why, len(known[why]))
		if r.options.verbose {
			fmt.Fprintf(w, "    %s\n", strings.Join(known[why], " "))
		}
	}
	return differ
}

// untaint takes all taints off a node.
func untaint(ctx context.Context, cluster *pods.Cluster, node string) error {
	return cluster.Send(ctx, http.MethodPatch, "/api/v1/nodes/"+node, "application/merge-patch+json",
		`{"spec":{"taints":null}}`)
}
