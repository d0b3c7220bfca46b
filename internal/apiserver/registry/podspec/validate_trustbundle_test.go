package podspec

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A projection of ClusterTrustBundles is kept and validated: one by its name, or a signer's.
func TestTrustBundleProjections(t *testing.T) {
	for name, c := range map[string]struct {
		b    v1.ClusterTrustBundleProjection
		want string
	}{
		"by name":          {v1.ClusterTrustBundleProjection{Name: new("mine"), Path: "ca.crt"}, ""},
		"by a signed name": {v1.ClusterTrustBundleProjection{Name: new("example.com:x:mine"), Path: "ca.crt"}, ""},
		"by signer": {v1.ClusterTrustBundleProjection{SignerName: new("example.com/x"),
			LabelSelector: &metav1.LabelSelector{}, Path: "ca.crt"}, ""},
		"by both": {v1.ClusterTrustBundleProjection{Name: new("mine"), SignerName: new("example.com/x"),
			Path: "a"}, "only one of name and signerName may be used"},
		"by neither": {v1.ClusterTrustBundleProjection{Path: "a"},
			"Required value: either name or signerName must be specified"},
		"bad name": {v1.ClusterTrustBundleProjection{Name: new("A_"), Path: "a"},
			`name: Invalid value: "A_": not a valid clustertrustbundlename: a lowercase RFC 1123 subdomain`},
		"name with selector": {v1.ClusterTrustBundleProjection{Name: new("mine"),
			LabelSelector: &metav1.LabelSelector{}, Path: "a"}, "labelSelector must be unset if name is specified"},
		"bad signer": {v1.ClusterTrustBundleProjection{SignerName: new("x"), Path: "a"},
			"must be a fully qualified domain and path of the form 'example.com/signer-name'"},
		"no path": {v1.ClusterTrustBundleProjection{Name: new("mine")},
			"clusterTrustBundle.path: Required value"},
		"path that climbs": {v1.ClusterTrustBundleProjection{Name: new("mine"), Path: "../a"}, "must not contain '..'"},
	} {
		s := with(v1.VolumeSource{
			Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{ClusterTrustBundle: &c.b}}}})
		DropDisabled(s, nil)
		if s.Volumes[0].Projected.Sources[0].ClusterTrustBundle == nil {
			t.Fatalf("%s: it was dropped", name)
		}
		got := errorText(ValidatePodSpec(s, "", field.NewPath("spec")))
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
