package explain

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// A Pod that waits for a CSI driver is told which one, for which call, for how long, and how to
// look at it; one whose driver is quick, or whose containers run, is not.
func TestADriverThatDoesNotAnswerIsNamed(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com"}
	objects := &finding.Cluster{Now: now, Namespace: "shop"}
	objects.Add("PersistentVolumeClaim", claim)
	objects.Add("PersistentVolume", volume)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "db",
		CreationTimestamp: metav1.NewTime(now.Add(-time.Minute))}}
	p.Spec.NodeName, p.Spec.Containers = "n1", []corev1.Container{{Name: "a"}}
	p.Spec.Volumes = []corev1.Volume{{Name: "v"}}
	p.Spec.Volumes[0].PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}
	plugin := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "disk-node-x", UID: "x"}}
	plugin.Spec.NodeName, plugin.Spec.Volumes = "n1", []corev1.Volume{{Name: "d"}}
	plugin.Spec.Volumes[0].HostPath = &corev1.HostPathVolumeSource{Path: "/var/lib/kubelet/plugins/disk.example.com/"}
	for _, c := range []struct {
		name    string
		drivers *Drivers
		want    string // of the cause; empty: another cause
	}{
		{"silent", &Drivers{Registered: []string{"disk.example.com"}, Calls: []DriverCall{{"disk.example.com",
			"NodePublishVolume", now.Add(-95 * time.Second)}}},
			"CSI driver disk.example.com has not answered NodePublishVolume on node n1 for 1m35s."},
		{"another one", &Drivers{Registered: []string{"disk.example.com"}, Calls: []DriverCall{{"other.example.com",
			"NodePublishVolume", now.Add(-95 * time.Second)}}}, ""},
		{"quick", &Drivers{Registered: []string{"disk.example.com"}, Calls: []DriverCall{{"disk.example.com",
			"NodePublishVolume", now.Add(-time.Second)}}}, ""},
		{"not registered", &Drivers{Registered: []string{"dsik.example.com"}}, "is not registered with the kubelet " +
			"of node n1: its node plugin does not run there, or its registrar does not. There is dsik.example.com"},
		{"not known", nil, ""},
	} {
		a := Why(In{Now: now, Ref: journal.Ref{Namespace: "shop", Name: "db"}, Pod: p, Objects: objects,
			Drivers:        c.drivers,
			Node:           &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
			ClusterContext: &ClusterContext{Pods: []*corev1.Pod{p, plugin}}})
		if (c.want == "") != (a.Code != "driver") || !strings.Contains(a.Cause, c.want) {
			t.Errorf("%s: got %s: %s, want %q", c.name, a.Code, a.Cause, c.want)
		}
		var commands []string
		for _, f := range a.Fixes {
			commands = append(commands, f.Run...)
		}
		if c.want != "" && !slices.Contains(commands, "kubectl -n kube-system delete pod disk-node-x") {
			t.Errorf("%s: got %+v, want commands about the driver's Pod", c.name, a.Fixes)
		}
	}
}
