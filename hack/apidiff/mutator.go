package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

//go:embed seeds.yaml
var seeds string

// mutator changes objects of each kind.
type mutator struct {
	options
	pair    *pair
	schemas *schemas
	lists   map[string]list // by apiVersion/kind
}

// list is the path of a kind's objects.
type list struct {
	path   string
	status bool
}

const namespace = "diff"

func newMutator(ctx context.Context, o options, p *pair) (*mutator, error) {
	m := &mutator{options: o, pair: p, lists: map[string]list{}}
	var err error
	if m.schemas, err = readSchemas(ctx, p.reference); err != nil {
		return nil, err
	}
	if err := m.discover(ctx); err != nil {
		return nil, err
	}
	for _, r := range []request{
		{Method: "POST", Path: "/api/v1/namespaces", Body: `{"metadata":{"name":"` + namespace + `"}}`},
		{Method: "POST", Path: "/api/v1/namespaces/" + namespace + "/serviceaccounts",
			Body: `{"metadata":{"name":"default"}}`},
	} {
		if _, _, err := p.both(ctx, r); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// discover reads the paths of all kinds from the reference server.
func (m *mutator) discover(ctx context.Context) error {
	for _, root := range []string{"/api", "/apis"} {
		a, err := m.pair.reference.send(ctx,
			request{Method: "GET", Path: root,
				Headers: map[string]string{
					"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}})
		if err != nil {
			return err
		}
		var groups struct {
			Items []struct {
				Metadata struct{ Name string }
				Versions []struct {
					Version   string
					Resources []struct {
						Resource     string
						Scope        string
						ResponseKind struct{ Kind string }
						Subresources []struct{ Subresource string }
					}
				}
			}
		}
		if err := json.Unmarshal(a.body, &groups); err != nil {
			return err
		}
		for _, g := range groups.Items {
			for _, v := range g.Versions {
				at, version := "/apis/"+g.Metadata.Name+"/"+v.Version, g.Metadata.Name+"/"+v.Version
				if g.Metadata.Name == "" {
					at, version = "/api/"+v.Version, v.Version
				}
				for _, r := range v.Resources {
					l := list{path: at + "/" + r.Resource}
					if r.Scope == "Namespaced" {
						l.path = at + "/namespaces/" + namespace + "/" + r.Resource
					}
					for _, s := range r.Subresources {
						l.status = l.status || s.Subresource == "status"
					}
					m.lists[version+"/"+r.ResponseKind.Kind] = l
				}
			}
		}
	}
	return nil
}

// job is one changed object to send.
type job struct {
	seed   string
	name   string
	what   string // create, update, status
	list   list
	change []change
	table  bool // request a table
}

// run tries the changes of every seed.
func (m *mutator) run(ctx context.Context, what string, found *findings) error {
	rng := rand.New(rand.NewPCG(m.seed, 7))
	jobs := make(chan job)
	var wait sync.WaitGroup
	for range m.parallel {
		wait.Go(func() {
			for j := range jobs {
				causes, example, rec, err := m.try(ctx, j)
				if err != nil {
					causes, example = []string{"no answer"}, err.Error()
				}
				found.add(causes, example, rec)
			}
		})
	}
	err := m.eachSeed(func(s string, obj map[string]any) error {
		kind, _ := obj["kind"].(string)
		version, _ := obj["apiVersion"].(string)
		l, ok := m.lists[version+"/"+kind]
		if !ok || !m.only.MatchString(kind) || what == "status" && !l.status {
			return nil
		}
		meta, _ := obj["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		if what != "create" {
			ours, theirs, err := m.pair.both(ctx, request{Method: http.MethodPost, Path: l.path, Body: s})
			if err != nil {
				return err
			}
			if max(ours.code, theirs.code) >= 300 && ours.code != http.StatusConflict {
				found.add([]string{"seed " + kind + " is not created"}, string(ours.body)+" "+string(theirs.body), nil)
				return nil
			}
			if err := m.giveStatus(ctx, l, name, obj); err != nil {
				return err
			}
		}
		root := m.schemas.byKind[version+"/"+kind]
		var all []change
		if what != "status" {
			all = m.schemas.changes(root, obj, change{})
		} else {
			all = m.schemas.changes(root.Properties["status"], obj["status"], change{path: []any{"status"}})
		}
		for _, c := range m.draw(rng, all) {
			select {
			case jobs <- job{s, name, what, l, c, m.table}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	close(jobs)
	wait.Wait()
	return err
}

// giveStatus writes a seed's status, which creation drops.
func (m *mutator) giveStatus(ctx context.Context, l list, name string, obj map[string]any) error {
	if obj["status"] == nil || !l.status {
		return nil
	}
	body, err := json.Marshal(map[string]any{"status": obj["status"]})
	if err != nil {
		return err
	}
	r := request{Method: http.MethodPatch, Path: l.path + "/" + name + "/status", Body: string(body),
		Headers: map[string]string{"Content-Type": patchTypes["MERGE"]}}
	_, _, err = m.pair.both(ctx, r)
	return err
}

// draw picks cases from all changes: single ones, or several at once.
func (m *mutator) draw(rng *rand.Rand, all []change) [][]change {
	var out [][]change
	if m.faults < 2 {
		rng.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
		for _, c := range all[:min(m.cases, len(all))] {
			out = append(out, []change{c})
		}
		return out
	}
	for len(all) > 0 && len(out) < m.cases {
		var several []change
		for range 2 + rng.IntN(m.faults-1) {
			several = append(several, all[rng.IntN(len(all))])
		}
		slices.SortStableFunc(several, func(a, b change) int { return len(a.path) - len(b.path) })
		out = append(out, several)
	}
	return out
}

func (m *mutator) eachSeed(do func(raw string, obj map[string]any) error) error {
	more := ""
	if m.seeds != "" {
		raw, err := os.ReadFile(m.seeds)
		if err != nil {
			return err
		}
		more = string(raw)
	}
	for line := range strings.Lines(seeds + more) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		obj := map[string]any{}
		if err := yaml.Unmarshal([]byte(line), &obj); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
		raw, err := json.Marshal(obj)
		if err != nil {
			return err
		}
		if err := do(string(raw), obj); err != nil {
			return err
		}
	}
	return nil
}

// try sends one changed object to both servers and compares the answers.
func (m *mutator) try(ctx context.Context, j job) (causes []string, example string, rec *record, err error) {
	var ours, theirs answer
	var sent request
	var setup *recorded
	if j.what == "create" {
		body, err := changed([]byte(j.seed), j.change)
		if err != nil {
			return nil, "", nil, err
		}
		sent = request{Method: http.MethodPost, Path: j.list.path + "?dryRun=All&fieldValidation=Strict", Body: body,
			Headers: j.headers()}
		ours, theirs, err = m.pair.both(ctx, sent)
		if err != nil {
			return nil, "", nil, err
		}
	} else {
		if _, ours, err = m.put(ctx, m.pair.gantry, j); err != nil {
			return nil, "", nil, err
		}
		if sent, theirs, err = m.put(ctx, m.pair.reference, j); err != nil {
			return nil, "", nil, err
		}
		setup = &recorded{Method: http.MethodPost, Path: j.list.path, Body: json.RawMessage(j.seed)}
	}
	causes = differences(ours, theirs)
	if len(causes) > 0 {
		kind := j.list.path[strings.LastIndex(j.list.path, "/")+1:]
		for i := range causes {
			causes[i] = j.what + " " + kind + ": " + causes[i]
		}
		var texts []string
		for i := range j.change {
			texts = append(texts, first(j.change[i].String(), 300))
		}
		example = strings.Join(texts, "; ")
		rec = recordOf(sent, theirs, setup)
		if theirs.code >= 300 || ours.code >= 300 {
			example += "\n        ours   " + first(responseText(decode(ours), ours), 700) + "\n        theirs " +
				first(responseText(decode(theirs), theirs), 700)
		}
	}
	return causes, example, rec, nil
}

// put reads the stored object and sends it back changed.
func (m *mutator) put(ctx context.Context, s *server, j job) (request, answer, error) {
	at := j.list.path + "/" + j.name
	a, err := s.send(ctx, request{Method: http.MethodGet, Path: at})
	if err != nil {
		return request{}, a, err
	}
	body, err := changed(a.body, j.change)
	if err != nil {
		return request{}, a, err
	}
	if j.what == "status" {
		at += "/status"
	}
	r := request{Method: http.MethodPut, Path: at + "?dryRun=All&fieldValidation=Strict", Body: body,
		Headers: j.headers()}
	a, err = s.send(ctx, r)
	return r, a, err
}

func (j *job) headers() map[string]string {
	if j.table {
		return map[string]string{"Accept": asTable}
	}
	return nil
}

func changed(raw []byte, list []change) (string, error) {
	var obj any
	if err := json.Unmarshal(raw, &obj); err != nil {
		return "", err
	}
	for i := range list {
		obj = list[i].apply(obj)
	}
	out, err := json.Marshal(obj)
	return string(out), err
}
