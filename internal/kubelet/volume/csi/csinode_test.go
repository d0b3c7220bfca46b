package csi_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/gantry-project/gantry/internal/kubelet/volume/csi"
)

// row: CSI-01
// A CSINode names the in-tree plugins whose volumes are CSI drivers' on the node, in place of those
// that another kubelet named; other annotations stay.
func TestMigratedPluginsAreNamed(t *testing.T) {
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
		const want = "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder," +
			"kubernetes.io/gce-pd,kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume"
		if got.Annotations[migrated] != want || found != nil && got.Annotations["example.com/mine"] != "yes" {
			t.Errorf("%s: got %v, want the migrated plugins %s and other annotations kept", name, got.Annotations, want)
		}
	}
}
