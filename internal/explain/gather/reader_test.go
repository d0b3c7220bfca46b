package gather

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// The answer has nothing that the user may not read; what could not be read in time is named,
// so that the answer is not taken for whole.
func TestATimeoutIsNoMissingPermission(t *testing.T) {
	client := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings"}})
	fail := func(resource string, err error) {
		client.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, err
		})
	}
	fail("secrets", apierrors.NewForbidden(corev1.Resource("secrets"), "", nil))
	fail("services", apierrors.NewTimeoutError("too slow", 1))
	r := &reader{client: client}
	got := readNamespaceContext(t.Context(), r, "shop")
	if got.ConfigMaps["settings"] == nil || got.Secrets != nil || got.Services != nil {
		t.Errorf("got ConfigMaps %v, Secrets %v, Services %v; want ConfigMaps only", got.ConfigMaps, got.Secrets,
			got.Services)
	}
	if want := []string{"services: Timeout: too slow"}; !slices.Equal(r.unread, want) {
		t.Errorf("got %q named as unread, want %q", r.unread, want)
	}
}
