package provisioner

import (
	"errors"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// A claim whose data somebody else puts there, or whose source lies in another namespace, is left
// alone: an empty volume would be taken for the data.
func TestClaimsWithForeignSourcesAreLeftAlone(t *testing.T) {
	hello := v1.TypedLocalObjectReference{APIGroup: ptr.To("hello.example.com"), Kind: "Hello", Name: "h"}
	for name, spec := range map[string]v1.PersistentVolumeClaimSpec{
		"of a populator": {DataSource: &hello, DataSourceRef: &v1.TypedObjectReference{APIGroup: hello.APIGroup,
			Kind: hello.Kind, Name: hello.Name}},
		"of another namespace": {DataSourceRef: &v1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "c",
			Namespace: ptr.To("other")}},
	} {
		r := &csipb.CreateVolumeRequest{}
		err := (&Provisioner{o: here}).addSource(t.Context(), &v1.PersistentVolumeClaim{Spec: spec}, r)
		if ignored := (&controller.IgnoredError{}); !errors.As(err, &ignored) {
			t.Errorf("%s: got %v, want that the claim is left alone", name, err)
		}
	}
}
