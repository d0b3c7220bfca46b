package why

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// ErrFixture says that a fixture's own set-up did not come about, so nothing was scored.
var ErrFixture = errors.New("the set-up did not come about")

// errSetupFailed says that playing it again would not help.
var errSetupFailed = errors.New("is not played here")

// Run performs steps in order.
func (w *Cluster) Run(ctx context.Context, steps []Step) error {
	for i, s := range steps {
		if err := w.step(ctx, s); err != nil {
			return fmt.Errorf("step %d (%s): %w", i+1, s.Do, err)
		}
	}
	return nil
}

func (w *Cluster) step(ctx context.Context, s Step) error {
	switch s.Do {
	case "apply":
		return w.apply(ctx, s.Objects)
	case "create":
		return w.create(ctx, s.Manifest)
	case "wait":
		return w.wait(ctx, s.For, s.Until, s.Within)
	case "sleep":
		d, err := time.ParseDuration(s.For)
		if err != nil {
			return err
		}
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	case "patch":
		return w.patch(ctx, s)
	case "delete":
		return w.remove(ctx, s)
	case "recreate":
		return w.recreate(ctx, s)
	case "uncordon":
		return w.kubectl(ctx, "uncordon", first(s.Node, s.Object))
	case "taint":
		return w.taint(ctx, strings.TrimPrefix(first(s.Node, s.Object), "node/"), s.taints()...)
	case "fake-node":
		w.mu.Lock()
		defer w.mu.Unlock()
		if s.Heartbeat != "" {
			w.unresponsive[s.Node] = s.Heartbeat == "stop"
		}
		if s.EndsPods != "" {
			w.slowNodes[s.Node] = s.EndsPods == "after-grace"
		}
		return nil
	case "fake-pod":
		return w.fakePod(ctx, s)
	case "evict":
		return w.evict(ctx, s)
	case "bind":
		return w.bind(ctx, s)
	case "component":
		if s.State == "stopped" {
			return w.End(s.Component)
		}
		return w.StartRole(s.Component)
	case "configure":
		return w.configure(s)
	case "registry":
		if w.registries != nil {
			return w.registries.step(s)
		}
	case "port-forward":
		return w.portForward(ctx, s.Object, s.Port, fmt.Sprint(s.Expect))
	}
	return fmt.Errorf("%w: step %q %w", ErrFixture, s.Do, errSetupFailed)
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// taint adds and removes taints of a node.
func (w *Cluster) taint(ctx context.Context, node string, taints ...string) error {
	return w.kubectl(ctx, append([]string{"taint", "node", node}, taints...)...)
}

// taints are a step's taints as kubectl takes them.
func (s Step) taints() (out []string) {
	if s.Add != "" {
		out = append(out, s.Add)
	}
	if s.Remove != "" {
		out = append(out, strings.TrimSuffix(s.Remove, "-")+"-")
	}
	return out
}

// bind binds a Pod to a node as a scheduler does.
func (w *Cluster) bind(ctx context.Context, s Step) error {
	words := split(s.Object)
	name, namespace := strings.TrimPrefix(words[0], "pod/"), words[len(words)-1]
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Binding", "metadata": map[string]any{"name": name},
		"target": map[string]any{"apiVersion": "v1", "kind": "Node", "name": strings.TrimPrefix(s.Node, "node/")},
	})
	if err != nil {
		return err
	}
	out, errs, code := w.kubectlStdin(ctx, string(body), "create", "--raw",
		"/api/v1/namespaces/"+namespace+"/pods/"+name+"/binding", "-f", "-")
	if code != 0 {
		return fmt.Errorf("%s%s", out, errs)
	}
	return nil
}

func (w *Cluster) configure(s Step) error {
	if s.Component != "scheduler" {
		return fmt.Errorf("component %q cannot be configured here", s.Component)
	}
	c := s.Config
	if p, ok := s.Patch.(map[string]any); ok && c == nil {
		c = merge(w.f.Config.Scheduler, p)
	}
	if err := w.End("scheduler"); err != nil {
		return err
	}
	if err := w.writeScheduler(c); err != nil {
		return err
	}
	return w.StartRole("scheduler")
}

// merge lays a patch over a map, deeply; null removes.
func merge(base, patch map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range base {
		out[k] = v
	}
	for k, v := range patch {
		switch x := v.(type) {
		case nil:
			delete(out, k)
		case map[string]any:
			old, _ := out[k].(map[string]any)
			out[k] = merge(old, x)
		default:
			out[k] = v
		}
	}
	return out
}

func (w *Cluster) apply(ctx context.Context, objects any) error {
	want := func(id string) bool { return true }
	if l, ok := objects.([]any); ok && len(l) == 1 { // a list of one selection
		objects = l[0]
	}
	if m, ok := objects.(map[string]any); ok {
		in := func(key string) func(string) bool {
			list := map[string]bool{}
			switch v := m[key].(type) {
			case string:
				list[v] = true
			case []any:
				for _, x := range v {
					list[fmt.Sprint(x)] = true
				}
			}
			return func(id string) bool { return list[id] }
		}
		if m["only"] != nil {
			want = in("only")
		} else if m["except"] != nil {
			but := in("except")
			want = func(id string) bool { return !but(id) }
		}
	}
	var together []any // what a person would give to one kubectl apply; nodes and volumes stand before
	for _, o := range w.f.Manifests {
		if !want(idOf(o)) {
			continue
		}
		if _, status := o["status"]; !status {
			together = append(together, o)
			continue
		}
		if err := w.create(ctx, o); err != nil {
			return err
		}
	}
	// a quota counts from the time its controller has seen it; what comes after it has to find it
	// so
	for i, o := range together {
		if q, _ := o.(map[string]any); q["kind"] == "ResourceQuota" {
			if err := w.createAll(ctx, together[:i+1]); err != nil {
				return err
			}
			meta, _ := q["metadata"].(map[string]any)
			if err := w.wait(ctx, fmt.Sprintf("resourcequota/%v -n %s", meta["name"], namespaceOf(q)), "counts",
				"30s"); err != nil {
				return err
			}
			together = together[i+1:]
			break
		}
	}
	return w.createAll(ctx, together)
}

// createAll gives objects to one kubectl create.
func (w *Cluster) createAll(ctx context.Context, together []any) error {
	if len(together) == 0 {
		return nil
	}
	raw, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": together})
	if err != nil {
		return err
	}
	if out, errs, code := w.kubectlStdin(ctx, string(raw), "create", "--save-config=false", "-f", "-"); code != 0 {
		return fmt.Errorf("%s%s", out, errs)
	}
	return nil
}

func idOf(o map[string]any) string {
	meta, _ := o["metadata"].(map[string]any)
	return strings.ToLower(fmt.Sprint(o["kind"])) + "/" + fmt.Sprint(meta["name"])
}

func namespaceOf(o map[string]any) string {
	meta, _ := o["metadata"].(map[string]any)
	if ns, ok := meta["namespace"].(string); ok {
		return ns
	}
	return "default"
}

// create makes an object; nodes and claims get the status of their manifest, and a Pod's phase is
// played.
func (w *Cluster) create(ctx context.Context, o map[string]any) error {
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	kind, _ := o["kind"].(string)
	status, hasStatus := o["status"].(map[string]any)
	if kind == "Pod" && hasStatus {
		w.mu.Lock()
		if phase, ok := status["phase"].(string); ok {
			w.podPhases[namespaceOf(o)+"/"+strings.TrimPrefix(idOf(o), "pod/")] = corev1.PodPhase(phase)
		}
		w.mu.Unlock()
	}
	out, errs, code := w.kubectlStdin(ctx, string(raw), "create", "--save-config=false", "-n", namespaceOf(o), "-f",
		"-")
	if code != 0 {
		return fmt.Errorf("%s%s", out, errs)
	}
	if hasStatus && kind != "Pod" {
		patch, err := json.Marshal(map[string]any{"status": status})
		if err != nil {
			return err
		}
		return w.kubectl(ctx, "-n", namespaceOf(o), "patch", idOf(o), "--subresource=status", "--type=merge", "-p",
			string(patch))
	}
	return nil
}

// split takes "pod/db -n team-a" apart.
func split(object string) []string {
	fields := strings.Fields(object)
	if len(fields) == 1 {
		return []string{fields[0], "-n", "default"}
	}
	return fields
}

func (w *Cluster) patch(ctx context.Context, s Step) error {
	raw, err := json.Marshal(s.Patch)
	if err != nil {
		return err
	}
	args := append([]string{"patch"}, split(s.Object)...)
	args = append(args, "--type="+s.Type, "-p", string(raw))
	if s.Subresource != "" {
		args = append(args, "--subresource="+s.Subresource)
	}
	return w.kubectl(ctx, args...)
}

func (w *Cluster) remove(ctx context.Context, s Step) error {
	args := append([]string{"delete"}, split(s.Object)...)
	if s.Grace != nil {
		args = append(args, fmt.Sprintf("--grace-period=%d", *s.Grace))
	}
	if s.Force {
		args = append(args, "--force")
	}
	if s.Wait != nil && !*s.Wait {
		args = append(args, "--wait=false")
	}
	return w.kubectl(ctx, args...)
}

// manifest finds the fixture's own manifest of an object.
func (w *Cluster) manifest(object string) (map[string]any, error) {
	id := strings.Fields(object)[0]
	for _, m := range w.f.Manifests {
		if idOf(m) == id {
			return m, nil
		}
	}
	return nil, fmt.Errorf("%s is not among the manifests", object)
}

func (w *Cluster) recreate(ctx context.Context, s Step) error {
	m, err := w.manifest(s.Object)
	if err != nil {
		return err
	}
	o, err := w.edited(ctx, m, s)
	if err != nil {
		return err
	}
	if err := w.kubectl(ctx, append(append([]string{"delete"}, split(s.Object)...), "--ignore-not-found")...); err !=
		nil {
		return err
	}
	return w.create(ctx, o)
}

// edited is a manifest changed by a step's patch.
func (w *Cluster) edited(ctx context.Context, m map[string]any, s Step) (map[string]any, error) {
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	patch, err := json.Marshal(s.Patch)
	if err != nil {
		return nil, err
	}
	edited, errs, code := w.kubectlStdin(ctx, string(raw), "patch", "--local", "--type="+s.Type, "-p", string(patch),
		"-f", "-", "-o", "json")
	if code != 0 {
		return nil, fmt.Errorf("%s%s", edited, errs)
	}
	var o map[string]any
	return o, json.Unmarshal([]byte(edited), &o)
}

func (w *Cluster) fakePod(ctx context.Context, s Step) error {
	w.mu.Lock()
	w.unreadyNodes["default/"+s.Pod] = s.Ready != nil && !*s.Ready
	w.mu.Unlock()
	// wakes the fake of the nodes
	return w.kubectl(ctx, "label", "pod", s.Pod, fmt.Sprintf("fixture/turn=%d", time.Now().UnixNano()))
}

func (w *Cluster) evict(ctx context.Context, s Step) error {
	want := fmt.Sprint(s.Expect)
	refused := w.evicted(ctx, s.Object)
	reason, known := map[string]string{"201": "", "429": "TooManyRequests", "403": "Forbidden",
		"500": "InternalError"}[want]
	switch {
	case !known:
		return fmt.Errorf("`expect: %s` of an eviction is no answer that this runner knows: want 201, 403, 429 or 500",
			want)
	case reason == "" && refused == nil, reason != "" && refused != nil && strings.Contains(refused.Error(), reason):
		return nil
	case want == "500" && refused != nil && strings.Contains(refused.Error(), "Error from server: "):
		return nil // of two budgets: a status without a reason
	}
	return fmt.Errorf("the eviction answered otherwise than %s: %w", want, refused)
}

// evicted asks for an eviction; nil when it was granted.
func (w *Cluster) evicted(ctx context.Context, object string) error {
	words := split(object)
	name, namespace := strings.TrimPrefix(words[0], "pod/"), words[len(words)-1]
	body := fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":%q}}`, name,
		namespace)
	out, errs, code := w.kubectlStdin(ctx, body, "create", "--raw",
		"/api/v1/namespaces/"+namespace+"/pods/"+name+"/eviction", "-f", "-")
	if code != 0 {
		return fmt.Errorf("%s%s", out, errs)
	}
	return nil
}
