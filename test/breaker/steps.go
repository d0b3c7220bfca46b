package breaker

import (
	"context"
	"fmt"
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
)

// stepOf does what a line of changes says beyond patches and deletions, and tells whether it was
// such a line: an object in flow style is created; "pod/web evict" asks for an eviction, which may
// be refused; "pod/web until spec.nodeName=node-1" waits, patience at most, for a field.
func (b *breaker) stepOf(ctx context.Context, namespace, line string) (bool, error) {
	line = strings.TrimSpace(line)
	target, rest, _ := strings.Cut(line, " ")
	kind, name, _ := strings.Cut(target, "/")
	switch {
	case strings.HasPrefix(line, "{"):
		return true, b.apply(ctx, namespace, line)
	case rest == "evict":
		err := b.client.PolicyV1().Evictions(namespace).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace}})
		if apierrors.IsTooManyRequests(err) {
			err = nil
		}
		return true, err
	case strings.HasPrefix(rest, "until "):
		path, want, _ := strings.Cut(strings.TrimPrefix(rest, "until "), "=")
		return true, b.untilField(ctx, namespace, kind+"/"+name, path, want)
	}
	return false, nil
}

func (b *breaker) untilField(ctx context.Context, namespace, target, path, want string) error {
	kind, name, _ := strings.Cut(target, "/")
	r, err := b.resourceOf(kind, namespace)
	if err != nil {
		return err
	}
	got := ""
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(ctx context.Context) (bool,
		error) {
		u, err := r.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, client404(err)
		}
		v, _, err := unstructured.NestedFieldNoCopy(u.Object, strings.Split(path, ".")...)
		got = fmt.Sprint(v)
		return got == want, err
	})
	if err != nil {
		return fmt.Errorf("%s of %s is %s, want %s: %w", path, target, got, want, err)
	}
	return nil
}

// client404 is no error for what is not there yet.
func client404(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// room gives node-1 devices of the namespace's own resource, which no other kind asks for.
func room(n string) string {
	list := `{"example.com/$NS":"` + n + `"}`
	return `node/node-1/status {"status":{"capacity":` + list + `,"allocatable":` + list + "}}\n"
}

// later is a Pod that is created by a line of changes.
func later(name, spec string) string {
	return `{apiVersion: v1, kind: Pod, metadata: {name: ` + name + `}, spec: ` + spec + "}\n"
}

// needs is a Pod spec with so many of the namespace's own resource, and more fields.
func needs(n, more string) string {
	return `{` + more + `containers: [{name: app, image: app, resources: {limits: {example.com/$NS: "` + n + `"}}}]}`
}

// priority is a priority class with a value, $NS- and a name.
func priority(name, value, more string) string {
	return object("scheduling.k8s.io/v1", "PriorityClass", "$NS-"+name, `value: `+value+more)
}
