package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

//go:embed seeds.yaml
var seeds string

// mutants are changed objects of each kind.
type mutants struct {
	options
	pair    *pair
	schemas *schemas
	lists   map[string]list // by apiVersion/kind
}

// list is where objects of a kind are.
type list struct {
	path   string
	status bool
}

const namespace = "diff"

func newMutants(ctx context.Context, o options, p *pair) (*mutants, error) {
	m := &mutants{options: o, pair: p, lists: map[string]list{}}
	var err error
	if m.schemas, err = readSchemas(ctx, p.theirs); err != nil {
		return nil, err
	}
	if err := m.discover(ctx); err != nil {
		return nil, err
	}
	for _, r := range []request{
		{Method: "POST", Path: "/api/v1/namespaces", Body: `{"metadata":{"name":"` + namespace + `"}}`},
		{Method: "POST", Path: "/api/v1/namespaces/" + namespace + "/serviceaccounts", Body: `{"metadata":{"name":"default"}}`},
	} {
		if _, _, err := p.both(ctx, r); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// discover reads where each kind is from theirs.
func (m *mutants) discover(ctx context.Context) error {
	for _, root := range []string{"/api", "/apis"} {
		a, err := m.pair.theirs.send(ctx, request{Method: "GET", Path: root, Headers: map[string]string{"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}})
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
	change change
}

// run tries the changes of every seed.
func (m *mutants) run(ctx context.Context, what string, found *findings) error {
	rng := rand.New(rand.NewPCG(m.seed, 7))
	jobs := make(chan job)
	var wait sync.WaitGroup
	for range m.parallel {
		wait.Go(func() {
			for j := range jobs {
				causes, example, err := m.try(ctx, j)
				if err != nil {
					causes, example = []string{"no answer"}, err.Error()
				}
				found.add(causes, example)
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
				found.add([]string{"seed " + kind + " is not created"}, string(ours.body)+" "+string(theirs.body))
				return nil
			}
		}
		root := m.schemas.byKind[version+"/"+kind]
		all := m.schemas.changes(root, obj, change{})
		if what == "status" {
			all = m.schemas.changes(root.Properties["status"], nil, change{path: []any{"status"}})
		}
		rng.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
		for _, c := range all[:min(m.cases, len(all))] {
			select {
			case jobs <- job{s, name, what, l, c}:
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

func (m *mutants) eachSeed(do func(raw string, obj map[string]any) error) error {
	for line := range strings.Lines(seeds) {
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

// try sends one changed object to both and compares.
func (m *mutants) try(ctx context.Context, j job) (causes []string, example string, err error) {
	var ours, theirs answer
	if j.what == "create" {
		body, err := changed([]byte(j.seed), &j.change)
		if err != nil {
			return nil, "", err
		}
		ours, theirs, err = m.pair.both(ctx, request{Method: http.MethodPost, Path: j.list.path + "?dryRun=All&fieldValidation=Strict", Body: body})
		if err != nil {
			return nil, "", err
		}
	} else {
		if ours, err = m.put(ctx, m.pair.ours, j); err != nil {
			return nil, "", err
		}
		if theirs, err = m.put(ctx, m.pair.theirs, j); err != nil {
			return nil, "", err
		}
	}
	causes = differences(ours, theirs)
	if len(causes) > 0 {
		kind := j.list.path[strings.LastIndex(j.list.path, "/")+1:]
		for i := range causes {
			causes[i] = j.what + " " + kind + ": " + causes[i]
		}
		example = first(j.change.String(), 300)
		if theirs.code >= 300 || ours.code >= 300 {
			example += "\n        ours   " + first(says(decode(ours), ours), 700) + "\n        theirs " + first(says(decode(theirs), theirs), 700)
		}
	}
	return causes, example, nil
}

// put reads the stored object and sends it back changed.
func (m *mutants) put(ctx context.Context, s *server, j job) (answer, error) {
	at := j.list.path + "/" + j.name
	a, err := s.send(ctx, request{Method: http.MethodGet, Path: at})
	if err != nil {
		return a, err
	}
	body, err := changed(a.body, &j.change)
	if err != nil {
		return a, err
	}
	if j.what == "status" {
		at += "/status"
	}
	return s.send(ctx, request{Method: http.MethodPut, Path: at + "?dryRun=All&fieldValidation=Strict", Body: body})
}

func changed(raw []byte, c *change) (string, error) {
	var obj any
	if err := json.Unmarshal(raw, &obj); err != nil {
		return "", err
	}
	out, err := json.Marshal(c.apply(obj))
	return string(out), err
}
