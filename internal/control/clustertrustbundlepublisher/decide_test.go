package clustertrustbundlepublisher

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func bundle(name, signer, anchors string) *certificatesv1.ClusterTrustBundle {
	return &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: anchors}}
}

func TestDecide(t *testing.T) {
	name := Name(Signer, "A")
	if want := "kubernetes.io:kube-apiserver-serving:559aead08264d5795d390971"; name != want {
		t.Errorf("name %s, want %s", name, want)
	}
	right := bundle(name, Signer, "A")
	for _, c := range []struct {
		what    string
		anchors string
		have    []*certificatesv1.ClusterTrustBundle
		want    Plan
	}{
		{"none yet", "A", nil, Plan{Create: right}},
		{"as it should be", "A", []*certificatesv1.ClusterTrustBundle{right, bundle("mine", "", "B"),
			bundle("example.com:x:y", "example.com/x", "B")}, Plan{}},
		{"changed by somebody", "A", []*certificatesv1.ClusterTrustBundle{bundle(name, Signer, "B")},
			Plan{Update: right}},
		{"of an older authority",
			"A", []*certificatesv1.ClusterTrustBundle{bundle("kubernetes.io:kube-apiserver-serving:old", Signer, "B")},
			Plan{Create: right, Delete: []string{"kubernetes.io:kube-apiserver-serving:old"}}},
		{"no authority is known", " \n", []*certificatesv1.ClusterTrustBundle{right}, Plan{}},
	} {
		if diff := cmp.Diff(c.want, Decide(Signer, c.anchors, c.have)); diff != "" {
			t.Errorf("%s: the two differ (-want +got):\n%s", c.what, diff)
		}
	}
}
