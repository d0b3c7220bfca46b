package pods

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/describe"
	"sigs.k8s.io/yaml"
)

// step performs one step. What the API refuses is recorded, not an error.
func (l *podRun) step(ctx context.Context, i int, s Step) error {
	switch {
	case len(s.Create) > 0:
		return l.create(ctx, i, s.Create)
	case s.Wait != nil:
		l.wait(ctx, *s.Wait)
		// A program that just started needs some time to set its signal handlers; the recorded
		// steps were never faster.
		return pause(ctx, 400*time.Millisecond)
	case s.Sleep > 0:
		return l.sleep(ctx, i, time.Duration(s.Sleep*float64(time.Second)))
	case s.Delete != nil:
		return l.delete(ctx, i, *s.Delete)
	case s.Patch != nil:
		return l.patch(ctx, i, *s.Patch)
	case s.Evict != nil:
		name := l.watch.resolve(s.Evict.Pod)
		body := fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":%q}}`, name,
			l.c.Namespace)
		return l.sendStep(ctx, i, request{Method: http.MethodPost, Path: l.pod(name, "eviction"), Body: []byte(body)},
			true)
	case s.Get != nil:
		at, err := l.object(s.Get.Kind, s.Get.Name, "")
		if err != nil {
			return err
		}
		return l.sendStep(ctx, i, request{Method: http.MethodGet, Path: at}, true)
	case s.Describe != nil:
		return l.describe(l.watch.resolve(s.Describe.Pod))
	case s.ManifestFile != nil:
		return l.manifest(*s.ManifestFile)
	case s.Kubelet != "":
		if l.cluster.Kubelet == nil {
			return errors.New("the kubelet of this cluster cannot be stopped alone")
		}
		return l.cluster.Kubelet(ctx, s.Kubelet)
	case s.TaskKill != nil:
		return l.cluster.Kill(ctx, l.watch.uid(l.watch.resolve(s.TaskKill.Pod)), s.TaskKill.Container)
	}
	return l.command(ctx, i, s)
}

// command runs the steps that are kubectl's.
func (l *podRun) command(ctx context.Context, i int, s Step) error {
	var args []string
	switch {
	case s.Exec != nil:
		args = append([]string{"exec", l.watch.resolve(s.Exec.Pod), "-c", s.Exec.Container, "--"}, s.Exec.Command...)
	case s.Logs != nil:
		args = []string{"logs", l.watch.resolve(s.Logs.Pod), "-c", s.Logs.Container}
		if s.Logs.Previous {
			args = append(args, "--previous")
		}
	case len(s.Kubectl) > 0:
		args = s.Kubectl
	default:
		return errors.New("a step of a kind that this replay does not know")
	}
	p := l.cluster.Kubectl(ctx, append([]string{"-n", l.c.Namespace}, mapEach(args, l.realName)...)...)
	body := p.Out
	if p.Err != "" {
		body = strings.TrimRight(body, "\n") + "\n[stderr]\n" + p.Err
	}
	c := Command{Step: i, Line: "kubectl " + strings.Join(args, " "), Exit: fmt.Sprint(p.Exit)}
	if body = strings.Trim(l.normalizePaths(body), "\n"); body != "" {
		c.Body = strings.Split(body, "\n")
	}
	l.out.Output = append(l.out.Output, c)
	return nil
}

func (l *podRun) create(ctx context.Context, i int, raw json.RawMessage) error {
	objects := []json.RawMessage{raw}
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) {
		objects = nil
		if err := json.Unmarshal(raw, &objects); err != nil {
			return err
		}
	}
	for _, o := range objects {
		var head struct {
			APIVersion, Kind string
			Metadata         struct{ Name string }
		}
		if err := json.Unmarshal(o, &head); err != nil {
			return err
		}
		at, err := l.kinds.path(head.APIVersion, head.Kind, l.c.Namespace)
		if err != nil {
			return err
		}
		refused := len(l.out.Replies)
		if err := l.sendStep(ctx, i, request{Method: http.MethodPost, Path: at, Body: o}, false); err != nil {
			return err
		}
		// else a wait for its end might come before the watch delivers it
		if head.Kind == "Pod" && refused == len(l.out.Replies) {
			l.watch.until(ctx, 5*time.Second,
				func(s *state) bool { return slices.Contains(s.order, head.Metadata.Name) })
		}
	}
	return nil
}

func (l *podRun) delete(ctx context.Context, i int, d Delete) error {
	kind, name := d.Kind, d.Name
	if kind == "" || kind == "Pod" {
		kind, name = "Pod", l.watch.resolve(name)
	}
	options := map[string]any{}
	if d.Grace != nil {
		options["gracePeriodSeconds"] = *d.Grace
	}
	if len(d.Preconditions) > 0 {
		options["preconditions"] = d.Preconditions
	}
	body, err := json.Marshal(options)
	if err != nil {
		return err
	}
	at, err := l.object(kind, name, "")
	if err != nil {
		return err
	}
	return l.sendStep(ctx, i, request{Method: http.MethodDelete, Path: at, Body: body}, false)
}

// patchTypes are the media types of patches by the names that cases use.
var patchTypes = map[string]string{
	"": "application/strategic-merge-patch+json", "strategic": "application/strategic-merge-patch+json",
	"merge": "application/merge-patch+json", "json": "application/json-patch+json",
	"apply": "application/apply-patch+yaml",
}

func (l *podRun) patch(ctx context.Context, i int, p Patch) error {
	kind, name := p.Kind, p.Name
	if kind == "" || kind == "Pod" {
		kind, name = "Pod", l.watch.resolve(name)
	}
	at, err := l.object(kind, name, p.Subresource)
	if err != nil {
		return err
	}
	return l.sendStep(ctx, i, request{Method: http.MethodPatch, Path: at, Type: patchTypes[p.Type], Body: p.Body},
		false)
}

// sendStep sends a request and records its answer when it is not 2xx, carries a warning, or was
// asked for.
func (l *podRun) sendStep(ctx context.Context, step int, r request, wanted bool) error {
	a, err := l.send(ctx, r)
	if err != nil {
		return err
	}
	headers := map[string]any{}
	for _, h := range []string{"Warning", "Retry-After"} {
		if v := a.headers.Get(h); v != "" {
			headers[h] = v
		}
	}
	refused := a.code < 200 || a.code > 299
	if !refused && !wanted && len(headers) == 0 {
		return nil
	}
	line := map[string]any{"step": float64(step), "verb": r.Method, "path": l.normalizePaths(r.Path),
		"code": float64(a.code), "headers": headers}
	if refused || wanted {
		var body any
		if json.Unmarshal([]byte(l.normalizePaths(string(a.body))), &body) == nil {
			dropVolatile(body)
			line["body"] = body
		}
	}
	l.out.Replies = append(l.out.Replies, line)
	return nil
}

// describe prints what `kubectl describe pod` does, by the same library: starting a program takes
// so long that the Pod may have gone on.
func (l *podRun) describe(pod string) error {
	client, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: l.cluster.URL}, l.cluster.Client)
	if err != nil {
		return err
	}
	text, err := (&describe.PodDescriber{Interface: client}).Describe(l.c.Namespace, l.realName(pod),
		describe.DescriberSettings{ShowEvents: true, ChunkSize: 500})
	if err == nil { // else there is nothing to describe
		l.out.Describe = append(l.out.Describe, newText(l.normalizePaths(text)))
	}
	return nil
}

func (l *podRun) manifest(m ManifestFile) error {
	path := filepath.Join(l.cluster.Manifests, m.Name)
	if m.Remove {
		return os.Remove(path)
	}
	text, err := yaml.JSONToYAML(m.Content)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
