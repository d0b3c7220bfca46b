package endpoints

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// row: CTL-14
// Endpoints that are there at the start and those that go are looked at, so that those of a Service
// that went while nobody watched go too, and those that somebody deletes are made again.
func TestEndpointsThatComeOrGoAreLookedAt(t *testing.T) {
	e := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	for _, c := range []struct {
		name     string
		old, cur runtime.Object
		want     []string
	}{
		{"there at the start", nil, e, []string{"shop/web"}},
		{"deleted", e, nil, []string{"shop/web"}},
		{"changed", e, e, nil},
	} {
		if got := keysOfEndpoints(c.old, c.cur); !slices.Equal(got, c.want) {
			t.Errorf("%s: got the keys %v, want %v", c.name, got, c.want)
		}
	}
}
