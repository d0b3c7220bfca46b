package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gantry-project/gantry/test/replay/kinds"
)

// subresources are updated with an object of the kind itself; beside each, what it is about.
var subresources = map[string]map[string][]string{
	"Pod": {
		"resize": {"spec.containers[].resources", "spec.containers[].resizePolicy", "spec.initContainers[].resources",
			"spec.initContainers[].resizePolicy", "spec.resources", "spec.containers[].name", "spec.containers[].image",
			"spec.initContainers[].name", "spec.nodeName", "metadata.labels", "metadata.annotations"},
		"ephemeralcontainers": {"spec.ephemeralContainers", "spec.nodeName", "metadata.labels"},
	},
	"Namespace":                 {"finalize": {"spec", "metadata"}},
	"CertificateSigningRequest": {"approval": {"status", "spec", "metadata"}},
}

// wide records what other recordings do not show.
type wide struct {
	recorder
	seen  map[string]bool // what answers tell, and paths whose bounds were asked for
	asked map[string]bool // requests, by kind, verb, path and value
	rng   *rand.Rand
}

// mostPairs is how many pairs of neighbours are tried of a seed.
const mostPairs = 400

// recordWide writes GROUP-wide.jsonl.gz beside each recording of a directory.
func (m *mutator) recordWide(ctx context.Context, dir string) error {
	w := wide{recorder{mutator: m, now: time.Now()}, map[string]bool{}, map[string]bool{},
		rand.New(rand.NewPCG(m.seed, 11))}
	if err := w.readKnown(dir); err != nil {
		return err
	}
	files := map[string][]kinds.Recording{}
	err := m.eachSeed(func(seed string, obj map[string]any) error {
		kind, _ := obj["kind"].(string)
		version, _ := obj["apiVersion"].(string)
		meta, _ := obj["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		l, ok := m.lists[version+"/"+kind]
		if !ok || !m.only.MatchString(kind) || strings.Contains(version, "apiextensions") ||
			strings.Contains(version, "apiregistration") {
			return nil
		}
		whats := []string{"create", "update"}
		if l.status {
			whats = append(whats, "status")
		}
		for _, what := range append(whats, slices.Sorted(maps.Keys(subresources[kind]))...) {
			one, err := w.section(ctx, job{seed: seed, name: name, what: what, list: l}, obj)
			if err != nil {
				return fmt.Errorf("%s %s %s: %w", what, kind, name, err)
			}
			if one == nil || len(one.Cases) == 0 {
				continue
			}
			fmt.Println(what, kind, name, len(one.Cases))
			group := groupOf(version, kind)
			files[group] = append(files[group], *one)
		}
		return nil
	})
	for _, g := range slices.Sorted(maps.Keys(files)) {
		if err := kinds.Write(filepath.Join(dir, g+"-wide.jsonl.gz"), files[g]); err != nil {
			return err
		}
	}
	return err
}

// readKnown learns what the recordings of a directory show.
func (w *wide) readKnown(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl.gz"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if strings.HasSuffix(f, "-wide.jsonl.gz") {
			continue
		}
		all, err := kinds.Read(f)
		if err != nil {
			return err
		}
		for i := range all {
			at := all[i].Path[strings.LastIndex(all[i].Path, "/")+1:] + " " + all[i].What
			for k := range all[i].Cases {
				c := &all[i].Cases[k]
				w.news(at, &c.Want)
				if last := c.Set[len(c.Set)-1]; len(c.Set) == 1 {
					w.asked[at+" "+pathText(last.Path)+" "+string(last.Value)] = true
				}
			}
		}
	}
	return nil
}

// news reports whether an answer tells what no other did.
func (w *wide) news(at string, a *kinds.Answer) bool {
	out := false
	for _, s := range tells(a) {
		if s = at + " " + s; !w.seen[s] {
			w.seen[s], out = true, true
		}
	}
	return out
}

// tells is what an answer tells, without the values.
func tells(a *kinds.Answer) []string {
	out := []string{pattern(fmt.Sprint(a.Code, " ", a.Message))}
	for _, f := range a.Findings {
		out = append(out, "finding "+pattern(f))
	}
	for _, x := range a.Warnings {
		out = append(out, "warning "+pattern(x))
	}
	for _, d := range a.Delta {
		path, _, set := strings.Cut(d, "=")
		out = append(out, fmt.Sprint("object ", index.ReplaceAllString(path, "[]"), set))
	}
	return out
}

// section asks about one verb of a seed and keeps what is new.
func (w *wide) section(ctx context.Context, j job, obj map[string]any) (*kinds.Recording, error) {
	kind, _ := obj["kind"].(string)
	out, stored, err := w.open(ctx, j, obj)
	if err != nil || j.what != "create" && out.Base.Code >= 400 {
		return nil, err
	}
	b := &base{j, j.list.path[strings.LastIndex(j.list.path, "/")+1:] + " " + j.what, stored, out}
	all := slices.DeleteFunc(w.changesOf(j.what, obj), func(c change) bool {
		about := subresources[kind][j.what]
		switch {
		case about != nil:
			return !concerns(about, c.path)
		case kind != "ConfigMap" && c.path[0] == "metadata": // it is alike for all kinds
			return true
		case c.make != nil && (kind == "Pod" || c.make.make != nil): // other objects of the kind have it
			return true
		}
		return inTemplate(c.path)
	})
	kept, err := w.singles(ctx, b, append(all, sampled(all)...))
	if err != nil {
		return nil, err
	}
	more, err := w.bounds(ctx, b, all)
	if err != nil {
		return nil, err
	}
	if kept = append(kept, more...); j.what == "create" {
		two, err := w.answers(ctx, b, w.pairs(all))
		if err != nil {
			return nil, err
		}
		for i := range two {
			if w.news(b.at, &two[i].Want) {
				kept = append(kept, two[i].changes)
			}
		}
	}
	out.Cases = make([]kinds.Case, len(kept))
	return out, w.cases(ctx, j, kept, stored, out)
}

// inTemplate reports whether a path lies in the spec of a Pod template, which is checked as a
// Pod's,
// but for restartPolicy, which kinds restrict.
func inTemplate(path []any) bool {
	i := slices.Index(path, any("template"))
	return i >= 0 && len(path) > i+2 && path[i+1] == "spec" && path[i+2] != "restartPolicy"
}

func concerns(about []string, path []any) bool {
	text := index.ReplaceAllString(pathText(path), "[]")
	return slices.ContainsFunc(about, func(a string) bool {
		return strings.HasPrefix(text, a) || strings.HasPrefix(a, text+".") || strings.HasPrefix(a, text+"[")
	})
}

// base is what one verb's requests change.
type base struct {
	job
	at     string // kind and verb
	stored []byte
	of     *kinds.Recording
}

// asking is a request with its answer.
type asking struct {
	kinds.Case
	changes []change
}

// answers sends requests, without asking for tables.
func (w *wide) answers(ctx context.Context, b *base, all [][]change) ([]asking, error) {
	rec := w.recorder
	rec.plain = true
	to := kinds.Recording{Base: b.of.Base, Cases: make([]kinds.Case, len(all))}
	if err := rec.cases(ctx, b.job, all, b.stored, &to); err != nil {
		return nil, err
	}
	out := make([]asking, len(all))
	for i := range all {
		out[i] = asking{to.Cases[i], all[i]}
	}
	return out, nil
}

// singles returns the changes whose answers tell something new. A change of what the seed does not
// have is asked for once a kind.
func (w *wide) singles(ctx context.Context, b *base, all []change) ([][]change, error) {
	var ask [][]change
	for i := range all {
		raw, _ := json.Marshal(all[i].value)
		if _, gone := all[i].value.(absent); gone {
			raw = nil
		}
		key := b.at + " " + pathText(all[i].path) + " " + string(raw)
		if all[i].make != nil && w.asked[key] {
			continue
		}
		w.asked[key] = true
		ask = append(ask, []change{all[i]})
	}
	got, err := w.answers(ctx, b, ask)
	var out [][]change
	for i := range got {
		if w.news(b.at, &got[i].Want) {
			out = append(out, got[i].changes)
		}
	}
	return out, err
}

// pairs returns changes of two fields beside each other, at random.
func (w *wide) pairs(all []change) [][]change {
	siblings, order := map[string][]change{}, []string{}
	taken := map[string]bool{}
	for _, c := range all {
		raw, _ := json.Marshal(c.value)
		text := pathText(c.path)
		if _, gone := c.value.(absent); gone || taken[text] || slices.Contains([]string{"{}", "[]", `""`, "0"},
			string(raw)) {
			continue
		}
		taken[text] = true
		parent := pathText(c.path[:len(c.path)-1])
		if siblings[parent] == nil {
			order = append(order, parent)
		}
		siblings[parent] = append(siblings[parent], c)
	}
	var out [][]change
	for _, p := range order {
		for i, a := range siblings[p] {
			for _, b := range siblings[p][i+1:] {
				b.make = nil
				out = append(out, []change{a, b})
			}
		}
	}
	w.rng.Shuffle(len(out), func(i, k int) { out[i], out[k] = out[k], out[i] })
	return out[:min(len(out), mostPairs)]
}

// pathText is a path as text.
func pathText(path []any) string {
	if len(path) == 0 {
		return ""
	}
	c := change{}
	for _, p := range path {
		if n, ok := p.(float64); ok { // read from JSON
			p = int(n)
		}
		c.path = append(c.path, p)
	}
	return strings.TrimSuffix(c.String(), " = null")
}
