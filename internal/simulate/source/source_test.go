package source

import (
	"bytes"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func clientWithout(resource string) *fake.Clientset {
	c := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1"}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "p", UID: "2"}})
	c.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource(resource), "", nil)
	})
	return c
}

// Who may not list nodes or Pods is told; what else may not be read is left out and named.
func TestForbiddenKindsAreNamed(t *testing.T) {
	for _, resource := range []string{"nodes", "pods"} {
		_, err := FromCluster(t.Context(), clientWithout(resource))
		if err == nil || !strings.Contains(err.Error(), "a copy needs the right to list "+resource) {
			t.Errorf("without %s: %v", resource, err)
		}
	}
	c, err := FromCluster(t.Context(), clientWithout("poddisruptionbudgets"))
	if err != nil || c.Note() != "not read, so not copied: poddisruptionbudgets" || len(c.Objects) != 2 {
		t.Errorf("%v, %q, %d objects", err, c.Note(), len(c.Objects))
	}
}

// A snapshot is read back as it was, with its time.
func TestSnapshot(t *testing.T) {
	c, err := FromCluster(t.Context(), clientWithout("nothing"))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var b bytes.Buffer
	if err := WriteSnapshot(&b, c, at); err != nil {
		t.Fatal(err)
	}
	again, taken, err := FromFiles([]string{"-"}, &b)
	if err != nil || !taken.Equal(at) || len(again.Objects) != 2 {
		t.Fatalf("%v, %v, %d objects", err, taken, len(again.Objects))
	}
	if p, ok := again.Objects[1].(*corev1.Pod); !ok || p.UID != "2" || p.Namespace != "d" {
		t.Errorf("got %+v", again.Objects[1])
	}
}

// Kinds that nobody knows are named and left out.
func TestUnknownKinds(t *testing.T) {
	c, _, err := FromFiles([]string{"-"}, strings.NewReader(
		"apiVersion: x.y/v1\nkind: Z\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: ns}\n"))
	if err != nil || len(c.Objects) != 1 || c.Note() != "not read, so not copied: x.y/v1 Z" {
		t.Errorf("%v, %d objects, %q", err, len(c.Objects), c.Note())
	}
}
