package provisioner

import (
	"context"
	"fmt"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
)

// reporter is a driver that says of its only volume what it is told to.
type reporter struct {
	csipb.ControllerClient
	says []*csipb.VolumeHealth_VolumeHealthEntry
	err  error
}

func (r *reporter) ControllerGetVolumeHealth(_ context.Context, q *csipb.ControllerGetVolumeHealthRequest,
	_ ...grpc.CallOption) (*csipb.ControllerGetVolumeHealthResponse, error) {
	return &csipb.ControllerGetVolumeHealthResponse{VolumeHealth: &csipb.VolumeHealth{VolumeId: q.GetVolumeId(),
		HealthStatuses: r.says}}, r.err
}

// A claim's status says what the driver reports of its volume, is written when that changes, and
// stays when the driver does not answer, or answers what the API would refuse. Volumes of other
// nodes and drivers are not asked about.
func TestClaimsSayHowTheirVolumesAre(t *testing.T) {
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "c"}}
	volume := func(name, driver, node string) *v1.PersistentVolume {
		on := []v1.NodeSelectorRequirement{{Key: here.TopologyKey, Values: []string{node}}}
		return &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "v"},
			Spec: v1.PersistentVolumeSpec{ClaimRef: &v1.ObjectReference{Namespace: "ns", Name: "data", UID: "c"},
				PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver,
					VolumeHandle: "h"}},
				NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{
					NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: on}}}}},
			Status: v1.PersistentVolumeStatus{Phase: v1.VolumeBound}}
	}
	gone := csipb.VolumeHealthErrorType_INACCESSIBLE
	entry := func(t csipb.VolumeHealthErrorType, reason, text string) *csipb.VolumeHealth_VolumeHealthEntry {
		return &csipb.VolumeHealth_VolumeHealthEntry{Status: t, Reason: reason, Message: text}
	}
	r := &reporter{}
	client := fake.NewClientset(claim, volume("pv", here.Driver, here.NodeName))
	o := here
	o.Client = client
	m := newHealthMonitor(&Provisioner{o: o, driver: r})
	for _, step := range []struct {
		name   string
		says   []*csipb.VolumeHealth_VolumeHealthEntry
		err    error
		want   string
		writes int
	}{
		{"well from the start", nil, nil, "none", 0},
		{"an image that is gone", []*csipb.VolumeHealth_VolumeHealthEntry{entry(gone, "ImageMissing", "a")}, nil,
			"Inaccessible ImageMissing a;", 1},
		{"the same in other words", []*csipb.VolumeHealth_VolumeHealthEntry{entry(gone, "ImageMissing", "b")}, nil,
			"Inaccessible ImageMissing a;", 1},
		{"no answer", nil, status.Error(codes.Unavailable, "no"), "Inaccessible ImageMissing a;", 1},
		{"no reason", []*csipb.VolumeHealth_VolumeHealthEntry{entry(gone, "", "")}, nil,
			"Inaccessible ImageMissing a;", 1},
		{"a kind of later versions", []*csipb.VolumeHealth_VolumeHealthEntry{entry(gone, "ImageMissing", "a"),
			entry(99, "New", "")}, nil, "Inaccessible ImageMissing a;", 1},
		{"well again", nil, nil, "", 2},
		{"not there", nil, status.Error(codes.NotFound, "no"),
			"Inaccessible VolumeNotFound d.example.com does not have the volume h;", 3},
	} {
		r.says, r.err = step.says, step.err
		if err := m.round(t.Context()); err != nil {
			t.Fatalf("%s: got %v, want no error", step.name, err)
		}
		if got := said(t, client); got != step.want {
			t.Errorf("%s: the claim says %q, want %q", step.name, got, step.want)
		}
		if got := updates(client); got != step.writes {
			t.Errorf("%s: got %d writes, want %d", step.name, got, step.writes)
		}
	}
	m.written = map[types.UID][]v1.VolumeHealthCondition{} // as after a restart
	if err := m.round(t.Context()); err != nil || updates(client) != 3 {
		t.Errorf("after a restart: got %d writes and %v, want none more", updates(client)-3, err)
	}
	for _, v := range []*v1.PersistentVolume{volume("pv", here.Driver, "n2"), volume("pv", "e.example.com", "n1")} {
		other := fake.NewClientset(claim, v)
		o.Client = other
		err := newHealthMonitor(&Provisioner{o: o, driver: r}).round(t.Context())
		if err != nil || updates(other) != 0 {
			t.Errorf("of %s on %v: got %d writes and %v, want none", v.Spec.CSI.Driver, v.Spec.NodeAffinity,
				updates(other), err)
		}
	}
}

// said are the conditions in the claim's status; none without an entry.
func said(t *testing.T, client *fake.Clientset) string {
	t.Helper()
	c, err := client.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), "data", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Status.HealthStatus == nil {
		return "none"
	}
	out := ""
	for _, x := range c.Status.HealthStatus.HealthConditions {
		out += fmt.Sprintf("%s %s %s;", x.Status, x.Reason, x.Message)
	}
	return out
}

// updates counts writes of statuses.
func updates(client *fake.Clientset) (n int) {
	for _, a := range client.Actions() {
		if a.Matches("update", "persistentvolumeclaims") && a.GetSubresource() == "status" {
			n++
		}
	}
	return n
}
