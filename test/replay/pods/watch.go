package pods

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// state is what the watches know at one time.
type state struct {
	pods      map[string]map[string]any // by name, as they are
	objects   map[string]map[string]any // by Kind/name
	events    map[string]float64        // highest count by reason
	order     []string                  // names of Pods by first appearance
	deletions map[string]int            // how often a Pod of that name has gone
}

// caseWatch records one namespace.
type caseWatch struct {
	run      *podRun
	begin    time.Time
	stop     func()
	finished sync.WaitGroup

	mu    sync.Mutex
	state state
	more  chan struct{} // closed at each change
	last  map[string]string

	history, events, objects []map[string]any
	rows                     []Row
}

func newWatch(l *podRun) *caseWatch {
	return &caseWatch{
		run: l, stop: func() {}, more: make(chan struct{}), last: map[string]string{},
		state: state{pods: map[string]map[string]any{}, objects: map[string]map[string]any{},
			events: map[string]float64{}, deletions: map[string]int{}},
	}
}

// watched are the kinds whose statuses are recorded beside Pods and Events.
var watched = []string{"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "PodDisruptionBudget",
	"EndpointSlice"}

// waitedFor are the kinds that steps wait for and that are not watched anyway.
func (c *Case) waitedFor() []string {
	var out []string
	for _, s := range c.Steps {
		if s.Wait == nil || s.Wait.Object == "" {
			continue
		}
		kind, _, _ := strings.Cut(s.Wait.Object, "/")
		if !slices.Contains(watched, kind) && !slices.Contains(out, kind) {
			out = append(out, kind)
		}
	}
	return out
}

// ago is the changing part of RESTARTS.
var ago = regexp.MustCompile(`\(\S+ ago\)`)

// table asks for printed rows with the objects inside.
const table = "application/json;as=Table;v=v1;g=meta.k8s.io"

// start opens every watch and returns when all are established.
func (w *caseWatch) start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	w.stop = sync.OnceFunc(func() { cancel(); w.finished.Wait() })
	w.begin = time.Now()
	open := func(path, accept string, see func(kind string, raw json.RawMessage)) error {
		body, err := w.open(ctx, path, accept)
		if err != nil {
			return err
		}
		w.finished.Add(1)
		go func() {
			defer w.finished.Done()
			w.follow(ctx, body, func() (io.ReadCloser, error) { return w.open(ctx, path, accept) }, see)
		}()
		return nil
	}
	if err := open("/api/v1/namespaces/"+w.run.c.Namespace+"/pods?watch=true&includeObject=Object", table,
		w.onPod); err != nil {
		return err
	}
	if err := open("/api/v1/namespaces/"+w.run.c.Namespace+"/events?watch=true", "application/json", w.onEvent); err !=
		nil {
		return err
	}
	for _, kind := range append(slices.Clone(watched), w.run.c.waitedFor()...) {
		at, err := w.run.object(kind, "", "")
		if err != nil {
			return err
		}
		if err := open(at+"?watch=true", "application/json",
			func(change string, raw json.RawMessage) { w.onObject(kind, change, raw) }); err != nil {
			return err
		}
	}
	w.begin = time.Now()
	return nil
}

func (w *caseWatch) open(ctx context.Context, path, accept string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.run.cluster.URL+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	res, err := w.run.cluster.Client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		return nil, fmt.Errorf("watch %s: %d %s", path, res.StatusCode, text)
	}
	return res.Body, nil
}

// follow reads a watch until ctx ends; one that is cut is opened again, and what it then repeats is
// dropped as unchanged.
func (w *caseWatch) follow(ctx context.Context, body io.ReadCloser, again func() (io.ReadCloser, error),
	see func(string, json.RawMessage)) {
	for {
		lines := json.NewDecoder(body)
		for {
			var e struct {
				Type   string
				Object json.RawMessage
			}
			if err := lines.Decode(&e); err != nil {
				break
			}
			if e.Type == "ADDED" || e.Type == "MODIFIED" || e.Type == "DELETED" {
				see(e.Type, e.Object)
			}
		}
		body.Close()
		for {
			if pause(ctx, 100*time.Millisecond) != nil {
				return
			}
			var err error
			if body, err = again(); err == nil {
				break
			}
			if errors.Is(err, context.Canceled) {
				return
			}
		}
	}
}

// now is the time since the first step, to 0.1 s.
func (w *caseWatch) now() float64 { return math.Round(time.Since(w.begin).Seconds()*10) / 10 }

// changed reports whether an object's line differs from the last one of that key.
func (w *caseWatch) changed(key string, line map[string]any) bool {
	raw, err := json.Marshal(line)
	if err != nil || w.last[key] == string(raw) {
		return false
	}
	w.last[key] = string(raw)
	return true
}

func (w *caseWatch) notify() {
	close(w.more)
	w.more = make(chan struct{})
}

func (w *caseWatch) onPod(change string, raw json.RawMessage) {
	var t struct {
		Rows []struct {
			Cells  []any
			Object map[string]any
		}
	}
	if json.Unmarshal([]byte(w.run.normalizePaths(string(raw))), &t) != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, row := range t.Rows {
		name, _ := dig(row.Object, "metadata", "name").(string)
		if change == "DELETED" {
			delete(w.state.pods, name)
			w.state.deletions[name]++
		} else {
			w.state.pods[name] = row.Object
		}
		if !slices.Contains(w.state.order, name) {
			w.state.order = append(w.state.order, name)
		}
		line := shapePod(row.Object)
		line["change"] = change
		if w.changed("pod/"+name, line) {
			line["t"] = w.now()
			w.history = append(w.history, line)
		}
		cells := make([]string, 0, len(row.Cells))
		for i, c := range row.Cells {
			if i != 4 { // AGE
				cells = append(cells, ago.ReplaceAllString(fmt.Sprint(c), "(<age> ago)"))
			}
		}
		if w.changed("row/"+name, map[string]any{"cells": cells}) {
			w.rows = append(w.rows, Row{w.now(), cells})
		}
	}
	w.notify()
}

func (w *caseWatch) onEvent(change string, raw json.RawMessage) {
	var e map[string]any
	if change == "DELETED" || json.Unmarshal([]byte(w.run.normalizePaths(string(raw))), &e) != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	line := shapeEvent(e)
	line["change"] = change
	uid, _ := dig(e, "metadata", "uid").(string)
	if w.changed("event/"+uid, line) {
		line["t"] = w.now()
		w.events = append(w.events, line)
	}
	reason, _ := e["reason"].(string)
	count, _ := e["count"].(float64)
	w.state.events[reason] = max(w.state.events[reason], count, 1)
	w.notify()
}

func (w *caseWatch) onObject(kind, change string, raw json.RawMessage) {
	var o map[string]any
	if json.Unmarshal([]byte(w.run.normalizePaths(string(raw))), &o) != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	name, _ := dig(o, "metadata", "name").(string)
	key := kind + "/" + name
	if change == "DELETED" {
		delete(w.state.objects, key)
	} else {
		w.state.objects[key] = o
	}
	if slices.Contains(watched, kind) { // others are waited for and not recorded
		line := shapeObject(kind, o)
		line["change"] = change
		if w.changed(key, line) {
			line["t"] = w.now()
			w.objects = append(w.objects, line)
		}
	}
	w.notify()
}

// until waits until ok is true or the time is over, and reports which.
func (w *caseWatch) until(ctx context.Context, within time.Duration, ok func(*state) bool) bool {
	over := time.NewTimer(within)
	defer over.Stop()
	for {
		w.mu.Lock()
		yes, more := ok(&w.state), w.more
		w.mu.Unlock()
		if yes {
			return true
		}
		select {
		case <-more:
		case <-over.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// names are the Pods that are there, by first appearance.
func (w *caseWatch) names() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, n := range w.state.order {
		if w.state.pods[n] != nil {
			out = append(out, n)
		}
	}
	return out
}

// deletedCount is how often Pods of each name have gone by now.
func (w *caseWatch) deletedCount() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.state.deletions)
}

// resolve turns "j-*" into the first Pod with that prefix.
func (w *caseWatch) resolve(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state.resolve(name)
}

func (s *state) resolve(name string) string {
	prefix, ok := strings.CutSuffix(name, "*")
	if !ok {
		return name
	}
	for _, n := range s.order {
		if strings.HasPrefix(n, prefix) && s.pods[n] != nil {
			return n
		}
	}
	return name
}

func (w *caseWatch) uid(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	uid, _ := dig(w.state.pods[name], "metadata", "uid").(string)
	return uid
}
