package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// asTable requests what kubectl get prints.
const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io"

// watchOpen is how many seconds a watch lasts: only its status code is compared.
const watchOpen = "1"

// runSelectors sends field selectors for every kind: all scalar fields of its schema, all that any
// kind supports, and invalid ones; with list, watch and deletecollection.
func (m *mutator) runSelectors(ctx context.Context, found *findings) error {
	known := []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "name", "type", "reason", "source",
		"reportingComponent", "reportingController",
		"spec.nodeName", "spec.host", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
		"spec.hostNetwork", "spec.unschedulable", "spec.clusterIP",
		"spec.type", "spec.signerName", "spec.podName", "spec.driver", "spec.pool.name", "status.phase", "status.podIP",
		"status.podIPs", "status.nominatedNodeName",
		"status.replicas", "status.successful", "involvedObject.kind", "involvedObject.name", "involvedObject.uid",
		"involvedObject.fieldPath", "regarding.kind",
		"regarding.name", "involvedObject.namespace", "involvedObject.apiVersion", "involvedObject.resourceVersion",
		"regarding.uid", "regarding.fieldPath",
	}
	var jobs []request
	for _, kind := range slices.Sorted(maps.Keys(m.lists)) {
		if !m.only.MatchString(kind) {
			continue
		}
		l := m.lists[kind]
		names := append(slices.Clone(known), m.schemas.scalars(m.schemas.byKind[kind], "", 0)...)
		slices.Sort(names)
		for _, n := range slices.Compact(names) {
			for _, sel := range []string{n + "=x", n + "!=x"} {
				jobs = append(jobs,
					request{Method: http.MethodGet, Path: l.path + "?fieldSelector=" + url.QueryEscape(sel)})
			}
			jobs = append(jobs,
				request{Method: http.MethodDelete,
					Path: l.path + "?dryRun=All&fieldSelector=" + url.QueryEscape(n+"=none-has-it")},
				request{Method: http.MethodGet, Path: l.path + "?watch=true&resourceVersion=0&timeoutSeconds=" +
					watchOpen + "&fieldSelector=" + url.QueryEscape(n+"=none-has-it")})
		}
		for _, sel := range []string{"=", "x", "metadata.name", "metadata.name=a,metadata.name=b", "metadata.name=a=b",
			"metadata.name in (a)", "metadata.name=Bad_Name", "!a", "a>1", ",", `a\`} {
			jobs = append(jobs,
				request{Method: http.MethodGet, Path: l.path + "?fieldSelector=" + url.QueryEscape(sel)})
		}
	}
	return m.sendAll(ctx, "selector", jobs, found)
}

// scalars returns the dotted paths of the scalar fields of a type.
func (s *schemas) scalars(x *schema, at string, depth int) []string {
	const deepest = 3
	x = s.follow(x)
	if x == nil || depth > deepest {
		return nil
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(x.Properties)) {
		p := s.follow(x.Properties[k])
		path := strings.TrimPrefix(at+"."+k, ".")
		switch {
		case p == nil || p.Type == "array" || k == "template":
		case len(p.Properties) > 0:
			out = append(out, s.scalars(p, path, depth+1)...)
		case p.Additional == nil:
			out = append(out, path)
		}
	}
	return out
}

// runPuts writes objects that do not exist, by PUT and by patches, with and without resourceVersion
// and uid, and existing ones without resourceVersion.
func (m *mutator) runPuts(ctx context.Context, found *findings) error {
	var jobs []request
	err := m.eachSeed(func(raw string, obj map[string]any) error {
		l, name, ok := m.locate(obj)
		if !ok {
			return nil
		}
		jobs = append(jobs, request{Method: http.MethodPost, Path: l.path, Body: raw})
		for _, at := range []string{"", "/status", "/scale"} {
			for _, who := range []string{name, "absent"} {
				for _, meta := range []map[string]any{{}, {"uid": "11111111-1111-1111-1111-111111111111"},
					{"resourceVersion": "0"}, {"resourceVersion": "1"}, {"resourceVersion": "x"}, {"name": ""},
					{"name": "other"}, {"generateName": "g-", "name": ""}} {
					put := clone(obj).(map[string]any)
					md, _ := put["metadata"].(map[string]any)
					md["name"] = who
					maps.Copy(md, meta)
					body, err := json.Marshal(put)
					if err != nil {
						return err
					}
					jobs = append(jobs, request{Method: http.MethodPut, Path: l.path + "/" + who + at + "?dryRun=All",
						Body: string(body)})
				}
			}
			for _, form := range slices.Sorted(maps.Values(patchTypes)) {
				path := l.path + "/absent" + at + "?dryRun=All"
				if form == patchTypes["APPLY"] {
					path += "&fieldManager=x"
				}
				jobs = append(jobs, request{Method: http.MethodPatch, Path: path,
					Body:    strings.Replace(raw, `"name":"`+name+`"`, `"name":"absent"`, 1),
					Headers: map[string]string{"Content-Type": form}})
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return m.sendAll(ctx, "put", jobs, found)
}

// locate returns the path of a seed's objects and its name; false if its kind is not served or not
// selected.
func (m *mutator) locate(obj map[string]any) (list, string, bool) {
	kind, _ := obj["kind"].(string)
	version, _ := obj["apiVersion"].(string)
	meta, _ := obj["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	l, ok := m.lists[version+"/"+kind]
	return l, name, ok && m.only.MatchString(kind)
}

// sendAll sends requests to both servers, several at once, and compares the answers.
func (m *mutator) sendAll(ctx context.Context, what string, jobs []request, found *findings) error {
	work := make(chan request)
	done := make(chan struct{})
	for range m.parallel {
		go func() {
			defer func() { done <- struct{}{} }()
			for r := range work {
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				ours, theirs, err := m.pair.both(ctx, r)
				cancel()
				causes := []string{"no answer"}
				if err == nil {
					causes = differences(ours, theirs)
				}
				for i := range causes {
					causes[i] = what + " " + kindIn(r.Path) + ": " + causes[i]
				}
				found.add(causes, fmt.Sprintf("%s %s %s\n        ours   %s\n        theirs %s", r.Method, r.Path,
					first(r.Body, 200), first(string(ours.body), 400), first(string(theirs.body), 400)),
					recordOf(r, theirs, nil))
			}
		}()
	}
	for _, r := range jobs {
		select {
		case work <- r:
		case <-ctx.Done():
		}
	}
	close(work)
	for range m.parallel {
		<-done
	}
	return ctx.Err()
}

// kindIn returns the plural in a path.
func kindIn(path string) string {
	path, _, _ = strings.Cut(path, "?")
	parts := strings.Split(strings.Trim(path, "/"), "/")
	at := 2
	if parts[0] == "apis" {
		at = 3
	}
	if len(parts) > at+2 && parts[at] == "namespaces" {
		at += 2
	}
	if at >= len(parts) {
		return path
	}
	return parts[at]
}
