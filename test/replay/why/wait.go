package why

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gantry-project/gantry/test/replay/instance"
)

// wait waits until an object shows a state, and for as long as the words "for 60s" at their end want; see holds for the words.
func (w *World) wait(ctx context.Context, object, until, within string) error {
	d := 30 * time.Second
	var stay time.Duration
	var err error
	if within != "" {
		if d, err = time.ParseDuration(within); err != nil {
			return err
		}
	}
	if words, long, ok := strings.Cut(until, " for "); ok {
		if stay, err = time.ParseDuration(long); err != nil {
			return err
		}
		until = words
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var last error // what was seen before the time ran out
	var since time.Time
	err = instance.Poll(ctx, 50*time.Millisecond, func() error {
		err := w.shows(ctx, object, until)
		if err != nil {
			since = time.Time{}
			if ctx.Err() == nil {
				last = err
			}
			return err
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) < stay {
			last = fmt.Errorf("%s shows %q for less than %s", object, until, stay)
			return last
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w within %s: %w", ErrVoid, d, errors.Join(last, context.Cause(ctx), errors.New(tail(w.Output("scheduler")+w.Output("up")))))
	}
	return nil
}

// shows is nil when the words are true now.
func (w *World) shows(ctx context.Context, object, until string) error {
	words := strings.Fields(until)
	switch {
	case until == "evict answers 201":
		return w.evicted(ctx, object)
	case len(words) == 4 && words[0] == "port-forward" && words[2] == "answers":
		port, err := strconv.Atoi(words[1])
		if err != nil {
			return err
		}
		return w.portForward(ctx, object, port, words[3])
	case strings.HasPrefix(object, "pods "):
		return w.several(ctx, object, until)
	case later.MatchString(until):
		m := later.FindStringSubmatch(until)
		return w.showsAfter(ctx, object, m)
	}
	o, err := w.get(ctx, object)
	switch {
	case until == "deleted" && apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	if ok, why := holds(o, until); !ok {
		return fmt.Errorf("%s does not show %q: %s", object, until, why)
	}
	return nil
}

// later are words like "status.phase=Running 30 s after pod/urgent was created".
var later = regexp.MustCompile(`^(.*) (\d+) ?s after (\S+) was created$`)

// showsAfter is nil when the words are true and so much time has passed since another object was made.
func (w *World) showsAfter(ctx context.Context, object string, m []string) error {
	other, err := w.get(ctx, m[3])
	if err != nil {
		return err
	}
	meta, _ := other["metadata"].(map[string]any)
	made, err := time.Parse(time.RFC3339, fmt.Sprint(meta["creationTimestamp"]))
	if err != nil {
		return err
	}
	d, err := time.ParseDuration(m[2] + "s")
	if err != nil {
		return err
	}
	if left := d - time.Since(made); left > 0 {
		return fmt.Errorf("%s is younger than %s", m[3], d)
	}
	return w.shows(ctx, object, m[1])
}

// several counts Pods: "at least 4 have phase Failed".
func (w *World) several(ctx context.Context, object, until string) error {
	var least int
	var phase string
	if n, err := fmt.Sscanf(until, "at least %d have phase %s", &least, &phase); n != 2 {
		return fmt.Errorf("%q is not understood here: %w", until, err)
	}
	words := split(strings.TrimPrefix(object, "pods "))
	list, err := w.dynamic.Resource(resources["pod"]).Namespace(words[len(words)-1]).List(ctx, metav1.ListOptions{LabelSelector: words[0]})
	if err != nil {
		return err
	}
	have := 0
	for _, p := range list.Items {
		if field(p.Object, "status.phase") == phase {
			have++
		}
	}
	if have < least {
		return fmt.Errorf("%d Pods have phase %s, wanted at least %d", have, phase, least)
	}
	return nil
}

// get reads an object named as kubectl would have it: "pod/web", "deployment/web -n team-a".
func (w *World) get(ctx context.Context, object string) (map[string]any, error) {
	words := split(object)
	kind, name, _ := strings.Cut(words[0], "/")
	resource, ok := resources[kind]
	if !ok {
		return nil, fmt.Errorf("kind %q: add it to resources", kind)
	}
	var target dynamic.ResourceInterface = w.dynamic.Resource(resource)
	if kind != "node" && kind != "pv" && kind != "namespace" && kind != "priorityclass" {
		target = w.dynamic.Resource(resource).Namespace(words[len(words)-1])
	}
	o, err := target.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return o.Object, nil
}

func gvr(group, version, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
}

// resources are the kinds that fixtures wait for.
var resources = map[string]schema.GroupVersionResource{
	"pod": gvr("", "v1", "pods"), "node": gvr("", "v1", "nodes"), "service": gvr("", "v1", "services"),
	"pvc": gvr("", "v1", "persistentvolumeclaims"), "persistentvolumeclaim": gvr("", "v1", "persistentvolumeclaims"), "pv": gvr("", "v1", "persistentvolumes"),
	"deployment": gvr("apps", "v1", "deployments"), "replicaset": gvr("apps", "v1", "replicasets"), "statefulset": gvr("apps", "v1", "statefulsets"),
	"daemonset": gvr("apps", "v1", "daemonsets"), "job": gvr("batch", "v1", "jobs"), "cronjob": gvr("batch", "v1", "cronjobs"),
	"pdb": gvr("policy", "v1", "poddisruptionbudgets"), "poddisruptionbudget": gvr("policy", "v1", "poddisruptionbudgets"),
	"podgroup": gvr("scheduling.x-k8s.io", "v1alpha1", "podgroups"), "priorityclass": gvr("scheduling.k8s.io", "v1", "priorityclasses"),
	"resourcequota": gvr("", "v1", "resourcequotas"), "namespace": gvr("", "v1", "namespaces"),
}

// tail is the end of what a process printed.
func tail(s string) string {
	const most = 1500
	if len(s) > most {
		s = "…" + s[len(s)-most:]
	}
	return s
}
