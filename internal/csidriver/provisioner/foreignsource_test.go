package provisioner

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// A claim whose data somebody else puts there is left alone: an empty volume would be taken for the
// data.
func TestClaimsWithForeignSourcesAreLeftAlone(t *testing.T) {
	hello := v1.TypedLocalObjectReference{APIGroup: ptr.To("hello.example.com"), Kind: "Hello", Name: "h"}
	for name, spec := range map[string]v1.PersistentVolumeClaimSpec{
		"of a populator": {DataSource: &hello, DataSourceRef: &v1.TypedObjectReference{APIGroup: hello.APIGroup,
			Kind: hello.Kind, Name: hello.Name}},
		"of a populator, in another namespace": {DataSourceRef: &v1.TypedObjectReference{APIGroup: hello.APIGroup,
			Kind: hello.Kind, Name: hello.Name, Namespace: ptr.To("other")}},
	} {
		r := &csipb.CreateVolumeRequest{}
		err := (&Provisioner{o: here}).addSource(t.Context(), &v1.PersistentVolumeClaim{Spec: spec}, r)
		if ignored := (&controller.IgnoredError{}); !errors.As(err, &ignored) {
			t.Errorf("%s: got %v, want that the claim is left alone", name, err)
		}
	}
}

// A source in another namespace is taken if a ReferenceGrant there gives it to claims of this one,
// and refused in the words of the external-provisioner otherwise.
func TestSourcesInOtherNamespacesAreGranted(t *testing.T) {
	grant := func(from, to string) string { return `{"spec":{"from":[` + from + `],"to":[` + to + `]}}` }
	const mine, claims = `{"group":"","kind":"PersistentVolumeClaim","namespace":"ns"}`,
		`{"group":"","kind":"PersistentVolumeClaim"}`
	const snapshots = `{"group":"snapshot.storage.k8s.io","kind":"VolumeSnapshot"}`
	named := func(name string) string { return strings.Replace(claims, "}", `,"name":"`+name+`"}`, 1) }
	for name, c := range map[string]struct {
		grants   string // empty: there is no such kind
		snapshot bool
		granted  bool
	}{
		"no grants at all": {grants: ""},
		"no grant":         {grants: "[]"},
		"of all claims":    {grants: "[" + grant(mine, claims) + "]", granted: true},
		"of this claim":    {grants: "[" + grant(mine, named("data")) + "]", granted: true},
		"of another claim": {grants: "[" + grant(mine, named("x")) + "]"},
		"of snapshots":     {grants: "[" + grant(mine, snapshots) + "]"},
		"to others":        {grants: "[" + grant(strings.Replace(mine, `"ns"`, `"x"`, 1), claims) + "]"},
		"to Pods": {grants: "[" + grant(strings.Replace(mine, "PersistentVolumeClaim", "Pod", 1), claims) +
			"]"},
		"by the second":      {grants: "[" + grant(mine, snapshots) + "," + grant(mine, claims) + "]", granted: true},
		"a snapshot":         {snapshot: true, grants: "[" + grant(mine, snapshots) + "]", granted: true},
		"a snapshot, of all": {snapshot: true, grants: "[" + grant(mine, claims) + "]"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text := map[string]string{
				"/apis/" + gatewayGroup + "/v1beta1/namespaces/other/referencegrants": `{"items":` + c.grants + `}`,
				"/api/v1/namespaces/other/persistentvolumeclaims/data": `{"kind":"PersistentVolumeClaim",` +
					`"apiVersion":"v1","spec":{"volumeName":"pv"}}`,
				"/api/v1/persistentvolumes/pv": `{"kind":"PersistentVolume","apiVersion":"v1","spec":{"csi":` +
					`{"driver":"d.example.com","volumeHandle":"h1"}}}`,
				"/apis/snapshot.storage.k8s.io/v1/namespaces/other/volumesnapshots/data": readySnapshot,
				"/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents/c1":             itsContent,
			}[r.URL.Path]
			w.Header().Set("Content-Type", "application/json")
			if text == "" || text == `{"items":}` {
				w.WriteHeader(http.StatusNotFound)
				text = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
			}
			fmt.Fprint(w, text)
		}))
		o := here
		o.Client = kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL})
		ref := &v1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "data", Namespace: ptr.To("other")}
		if c.snapshot {
			ref.APIGroup, ref.Kind = ptr.To(snapshotGroup), "VolumeSnapshot"
		}
		claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "copy"},
			Spec: v1.PersistentVolumeClaimSpec{DataSourceRef: ref, Resources: v1.VolumeResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("32Mi")}}}}
		r := &csipb.CreateVolumeRequest{}
		err := (&Provisioner{o: o}).addSource(t.Context(), claim, r)
		server.Close()
		source := r.GetVolumeContentSource()
		id := source.GetVolume().GetVolumeId() + source.GetSnapshot().GetSnapshotId()
		if c.granted && (err != nil || id != "h1") {
			t.Errorf("%s: got %v and the source %q, want h1", name, err, id)
		}
		want := "accessing other/data of " + ref.Kind + " dataSource from ns/copy isn't allowed"
		if !c.granted && (err == nil || err.Error() != want || id != "") {
			t.Errorf("%s: got %v and the source %q, want %s", name, err, id, want)
		}
	}
}
