package auth_test

import (
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/apiserver/auth"
)

// A node reads, changes and deletes the ResourceSlices that name it, and no others.
func TestNodesOwnTheirResourceSlices(t *testing.T) {
	t.Parallel()
	s := serve(t, auth.Options{})
	ctx := t.Context()
	admin := s.clientAs(t, master()).ResourceV1().ResourceSlices()
	agent := s.over(t, s.files.Node).ResourceV1().ResourceSlices() // system:node:n1
	for _, node := range []string{"n1", "n2"} {
		if _, err := admin.Create(ctx, &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "of-" + node},
			Spec: resourcev1.ResourceSliceSpec{Driver: "gpu.example.com", NodeName: &node,
				Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1}}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var own *resourcev1.ResourceSlice
	eventually(t, func() (err error) {
		own, err = agent.Get(ctx, "of-n1", metav1.GetOptions{})
		return err
	})
	own.Labels = map[string]string{"changed": "yes"}
	if _, err := agent.Update(ctx, own, metav1.UpdateOptions{}); err != nil {
		t.Errorf("update of the own slice: got %v, want no error", err)
	}
	_, err := agent.Get(ctx, "of-n2", metav1.GetOptions{})
	if want := "no relationship found between node 'n1' and this object"; !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("get of another node's slice: got %v, want %q", err, want)
	}
	if err := agent.Delete(ctx, "of-n1", metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete of the own slice: got %v, want no error", err)
	}
}
