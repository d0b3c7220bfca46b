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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gantry-project/gantry/test/instance"
)

// wait waits until an object shows a state, and for as long as the words "for 60s" at their end
// want; see holds for the words.
func (w *Cluster) wait(ctx context.Context, object, until, within string) error {
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
		err := w.showsCondition(ctx, object, until)
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
		return fmt.Errorf("%w within %s: %w", ErrFixture, d,
			errors.Join(last, context.Cause(ctx), errors.New(lastLines(w.Output("scheduler")+w.Output("up")))))
	}
	return nil
}

// showsCondition is nil when the words are true now.
func (w *Cluster) showsCondition(ctx context.Context, object, until string) error {
	words := strings.Fields(until)
	all, isGroup, err := groupOf(object)
	if err != nil {
		return err
	}
	switch {
	case until == "evict answers 201":
		return w.evicted(ctx, object)
	case len(words) == 4 && words[0] == "port-forward" && words[2] == "answers":
		port, err := strconv.Atoi(words[1])
		if err != nil {
			return err
		}
		return w.portForward(ctx, object, port, words[3])
	case afterPattern.MatchString(until):
		m := afterPattern.FindStringSubmatch(until)
		return w.showsAfter(ctx, object, m)
	case isGroup:
		return w.waitGroup(ctx, all, until)
	}
	o, err := w.get(ctx, object)
	switch {
	case until == "deleted" && apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	if ok, why := conditionMet(o, until); !ok {
		return fmt.Errorf("%s does not show %q: %s", object, until, why)
	}
	return nil
}

// afterPattern are words like "status.phase=Running 30 s after pod/urgent was created".
var afterPattern = regexp.MustCompile(`^(.*) (\d+) ?s after (\S+) was created$`)

// showsAfter is nil when the words are true and so much time has passed since another object was
// made.
func (w *Cluster) showsAfter(ctx context.Context, object string, m []string) error {
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
	return w.showsCondition(ctx, object, m[1])
}

// get reads an object named as kubectl would have it: "pod/web", "deployment/web -n team-a".
func (w *Cluster) get(ctx context.Context, object string) (map[string]any, error) {
	words := split(object)
	kind, name, _ := strings.Cut(words[0], "/")
	resource, namespaced, err := w.resource(kind)
	if err != nil {
		return nil, err
	}
	var target dynamic.ResourceInterface = w.dynamic.Resource(resource)
	if namespaced {
		target = w.dynamic.Resource(resource).Namespace(words[len(words)-1])
	}
	o, err := target.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return o.Object, nil
}

// resource finds a kind by any of the names that kubectl takes: singular, plural, short, with a
// group. The server says which there are.
func (w *Cluster) resource(kind string) (r schema.GroupVersionResource, namespaced bool, err error) {
	if r, err = w.mapper.ResourceFor(schema.ParseGroupResource(kind).WithVersion("")); err != nil {
		return r, false, err
	}
	gvk, err := w.mapper.KindFor(r)
	if err != nil {
		return r, false, err
	}
	m, err := w.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return r, false, err
	}
	return r, m.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// lastLines is the end of what a process printed.
func lastLines(s string) string {
	const most = 1500
	if len(s) > most {
		s = "…" + s[len(s)-most:]
	}
	return s
}
