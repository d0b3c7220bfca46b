package csi_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/gantry-project/gantry/internal/kubelet/volume/csi"
)

// A CSINode does not claim that drivers serve volumes of in-tree plugins, which are not translated
// for them; what another kubelet claimed goes, the rest stays.
func TestNoMigrationIsClaimed(t *testing.T) {
	const migrated = "storage.alpha.kubernetes.io/migrated-plugins"
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}}
	for name, found := range map[string]*storagev1.CSINode{
		"none is there": nil,
		"of another kubelet": {ObjectMeta: metav1.ObjectMeta{Name: "n",
			Annotations: map[string]string{migrated: "kubernetes.io/aws-ebs", "example.com/mine": "yes"}}},
	} {
		client := fake.NewClientset(node)
		if found != nil {
			client = fake.NewClientset(node, found)
		}
		(&csi.NodeInfoManager{Client: client, NodeName: "n"}).Initialize(t.Context())
		got, err := client.StorageV1().CSINodes().Get(t.Context(), "n", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if claim, ok := got.Annotations[migrated]; ok || found != nil && got.Annotations["example.com/mine"] != "yes" {
			t.Errorf("%s: got migrated plugins %q in %v, want none claimed and other annotations kept", name, claim,
				got.Annotations)
		}
	}
}
