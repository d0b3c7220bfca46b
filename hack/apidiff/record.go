package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/test/replay/kinds"
)

// recorder writes the reference's answers to changed objects of all kinds, a file a group.
type recorder struct {
	*mutator
	now   time.Time
	plain bool // ask for no tables
}

// ownFile are the kinds of the core group that are written to a file of their own.
var ownFile = map[string]string{"Pod": "pods", "Service": "services", "Node": "nodes"}

// quota is how many requests of a seed are recorded, by verb: single changes and several at once.
type quota struct{ single, several int }

func quotaOf(kind, what string) quota {
	switch {
	case strings.Contains(kind, "AdmissionPolicy") || kind == "Endpoints": // expressions take long to compile
		return quota{250, 60}
	case kind == "Pod" && what == "create":
		return quota{2400, 300}
	case kind == "Pod" && what == "update":
		return quota{700, 150}
	case what == "create":
		return quota{600, 120}
	case what == "update":
		return quota{400, 60}
	}
	return quota{400, 60}
}

// record sends the requests and writes the files of a directory.
func (m *mutator) record(ctx context.Context, dir string) error {
	r, files := recorder{mutator: m, now: time.Now()}, map[string][]kinds.Recording{}
	n := uint64(0)
	err := m.eachSeed(func(seed string, obj map[string]any) error {
		kind, _ := obj["kind"].(string)
		version, _ := obj["apiVersion"].(string)
		meta, _ := obj["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		l, ok := m.lists[version+"/"+kind]
		if n++; !ok || !m.only.MatchString(kind) || strings.Contains(version, "apiextensions") ||
			strings.Contains(version, "apiregistration") {
			return nil
		}
		group := groupOf(version, kind)
		for _, what := range []string{"create", "update", "status"} {
			if what == "status" && !l.status {
				continue
			}
			rng := rand.New(rand.NewPCG(m.seed, n*3+uint64(len(what))))
			one, err := r.section(ctx, job{seed: seed, name: name, what: what, list: l}, obj, rng)
			if err != nil {
				return fmt.Errorf("%s %s %s: %w", what, kind, name, err)
			}
			files[group] = append(files[group], *one)
		}
		return nil
	})
	for _, g := range slices.Sorted(maps.Keys(files)) {
		cases := 0
		for i := range files[g] {
			cases += len(files[g][i].Cases)
		}
		fmt.Println(g, len(files[g]), cases)
		if err := kinds.Write(filepath.Join(dir, g+".jsonl.gz"), files[g]); err != nil {
			return err
		}
	}
	return err
}

// groupOf is the file of a kind.
func groupOf(version, kind string) string {
	if file := ownFile[kind]; file != "" {
		return file
	}
	group, _, sub := strings.Cut(version, "/")
	if !sub {
		return "core"
	}
	group, _, _ = strings.Cut(group, ".")
	return group
}

// section records one verb of a seed: changes drawn from all.
func (r *recorder) section(ctx context.Context, j job, obj map[string]any, rng *rand.Rand) (*kinds.Recording, error) {
	kind, _ := obj["kind"].(string)
	out, stored, err := r.open(ctx, j, obj)
	if err != nil {
		return nil, err
	}
	all := r.changesOf(j.what, obj)
	q := quotaOf(kind, j.what)
	single, several := *r.mutator, *r.mutator
	single.cases, single.faults = q.single, 1
	several.cases, several.faults = q.several, 3
	drawn := append(single.draw(rng, slices.Clone(all)), several.draw(rng, all)...)
	out.Cases = make([]kinds.Case, len(drawn))
	return out, r.cases(ctx, j, drawn, stored, out)
}

// changesOf returns what an object may be changed to by a verb.
func (m *mutator) changesOf(what string, obj map[string]any) []change {
	kind, _ := obj["kind"].(string)
	version, _ := obj["apiVersion"].(string)
	root := m.schemas.byKind[version+"/"+kind]
	var all []change
	if what == "status" {
		all = m.schemas.changes(root.Properties["status"], obj["status"], change{path: []any{"status"}})
	} else {
		all = m.schemas.changes(root, obj, change{})
	}
	return slices.DeleteFunc(all, func(c change) bool { return byHandlers(&c) })
}

// open returns the base of a recording and the object that is changed. What update and status
// change is created first.
func (r *recorder) open(ctx context.Context, j job, obj map[string]any) (*kinds.Recording, []byte, error) {
	out := &kinds.Recording{Seed: json.RawMessage(j.seed), Path: j.list.path, What: j.what}
	at := j.list.path + "/" + j.name
	var stored []byte
	base := answer{}
	var err error
	if j.what == "create" {
		base, err = r.pair.reference.send(ctx, request{Method: http.MethodPost, Path: j.list.path + strictDryRun,
			Body: j.seed})
		stored = []byte(j.seed)
	} else {
		_, err = r.pair.reference.send(ctx, request{Method: http.MethodPost, Path: j.list.path, Body: j.seed})
		if err == nil {
			err = r.giveStatus(ctx, j.list, j.name, obj)
		}
		if err == nil {
			base, err = r.pair.reference.send(ctx, request{Method: http.MethodGet, Path: at})
		}
		stored = base.body
	}
	if err != nil {
		return nil, nil, err
	}
	out.Base, err = r.answer(base, kinds.NewMask(stored, r.now), nil)
	return out, stored, err
}

// byHandlers reports whether a change is answered before the registry is asked: owners that are
// named twice, and the link that no object has.
func byHandlers(c *change) bool {
	if len(c.path) < 2 || c.path[0] != "metadata" {
		return false
	}
	list, ok := c.value.([]any)
	return c.path[1] == "selfLink" || c.path[1] == "ownerReferences" && ok && len(list) > 1
}

const strictDryRun = "?dryRun=All&fieldValidation=Strict"

// cases sends the requests, several at once.
func (r *recorder) cases(ctx context.Context, j job, drawn [][]change, stored []byte, out *kinds.Recording) error {
	var wait sync.WaitGroup
	var mu sync.Mutex
	var first error
	next := make(chan int)
	for range r.parallel {
		wait.Go(func() {
			for i := range next {
				c, err := r.one(ctx, j, drawn[i], stored, out)
				mu.Lock()
				out.Cases[i] = c
				if first == nil {
					first = err
				}
				mu.Unlock()
			}
		})
	}
	for i := range drawn {
		next <- i
	}
	close(next)
	wait.Wait()
	return first
}

// one sends a request, and again for its table where it is accepted.
func (r *recorder) one(ctx context.Context, j job, list []change, stored []byte, of *kinds.Recording) (kinds.Case,
	error) {
	c := kinds.Case{}
	for i := range list {
		c.Set = append(c.Set, setsOf(&list[i])...)
	}
	raw, err := json.Marshal(c.Set) // paths as they are read again
	if err == nil {
		err = json.Unmarshal(raw, &c.Set)
	}
	if err != nil {
		return c, err
	}
	body, err := kinds.Apply(stored, c.Set)
	if err != nil {
		return c, err
	}
	q := request{Method: http.MethodPost, Path: j.list.path + strictDryRun, Body: string(body)}
	if j.what != "create" {
		q.Method, q.Path = http.MethodPut, j.list.path+"/"+j.name
		if j.what != "update" {
			q.Path += "/" + j.what
		}
		q.Path += strictDryRun
	}
	got, err := r.pair.reference.send(ctx, q)
	if err != nil {
		return c, err
	}
	mask := kinds.NewMask(body, r.now)
	base := of.Base.Object
	if base == nil {
		base = json.RawMessage(`{}`)
	}
	if c.Want, err = r.answer(got, mask, base); err != nil || c.Want.Code >= http.StatusBadRequest ||
		j.what != "create" && j.what != "status" || r.plain {
		return c, err
	}
	q.Headers = map[string]string{"Accept": asTable}
	if got, err = r.pair.reference.send(ctx, q); err != nil {
		return c, err
	}
	var table metav1.Table
	if err := json.Unmarshal(got.body, &table); err != nil {
		return c, err
	}
	c.Want.Cells = mask.Cells(&table)
	return c, nil
}

// answer is a response as it is kept; beside a base, only what differs from it.
func (r *recorder) answer(a answer, m kinds.Mask, base json.RawMessage) (out kinds.Answer, err error) {
	if a.code >= http.StatusBadRequest {
		var s metav1.Status
		if err := json.Unmarshal(a.body, &s); err != nil {
			return out, fmt.Errorf("%s: %w", a.body, err)
		}
		out = kinds.Refusal(&s, m)
	} else {
		out.Code = a.code
		content, err := m.Content(a.body)
		switch {
		case err != nil:
			return out, err
		case base == nil:
			out.Object = content
		default:
			if out.Delta, err = kinds.Delta(base, content); err != nil {
				return out, err
			}
		}
	}
	for _, w := range a.headers.Values("Warning") {
		_, quoted, _ := strings.Cut(w, " - ")
		text := ""
		if json.Unmarshal([]byte(quoted), &text) == nil {
			out.Warnings = append(out.Warnings, m.Text(text))
		}
	}
	return out, nil
}

// setsOf is a change with what is made before it.
func setsOf(c *change) []kinds.Set {
	var out []kinds.Set
	if c.make != nil {
		out = setsOf(c.make)
	}
	s := kinds.Set{Path: c.path}
	if _, gone := c.value.(absent); !gone {
		s.Value, _ = json.Marshal(c.value)
	}
	return append(out, s)
}
