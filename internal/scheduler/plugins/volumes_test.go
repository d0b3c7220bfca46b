package plugins_test

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodevolumelimits"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumebinding"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumerestrictions"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumezone"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

func mounts(claims ...string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		for _, c := range claims {
			p.Spec.Volumes = append(p.Spec.Volumes,
				v1.Volume{Name: c,
					VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
						ClaimName: c}}})
		}
	}
}

func newClaim(name, class, size string, change ...func(*v1.PersistentVolumeClaim)) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns",
		UID: types.UID("claim-" + name)}}
	c.Spec.StorageClassName, c.Spec.AccessModes = &class, []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	c.Spec.Resources.Requests = quantities("storage=" + size)
	for _, f := range change {
		f(c)
	}
	return c
}

func boundTo(v string) func(*v1.PersistentVolumeClaim) {
	return func(c *v1.PersistentVolumeClaim) {
		c.Spec.VolumeName, c.Status.Phase = v, v1.ClaimBound
		c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	}
}

func newVolume(name, class, size string, change ...func(*v1.PersistentVolume)) *v1.PersistentVolume {
	v := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	v.Spec.StorageClassName, v.Spec.AccessModes = class, []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	v.Spec.Capacity, v.Status.Phase = quantities("storage="+size), v1.VolumeAvailable
	for _, f := range change {
		f(v)
	}
	return v
}

func only(key, value string) func(*v1.PersistentVolume) {
	return func(v *v1.PersistentVolume) {
		v.Spec.NodeAffinity = &v1.VolumeNodeAffinity{
			Required: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{
					{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: v1.NodeSelectorOpIn,
						Values: []string{value}}}}}}}
	}
}

func volumeLabel(key, value string) func(*v1.PersistentVolume) {
	return func(v *v1.PersistentVolume) { v.Labels[key] = value }
}

func csiVolume(driver string) func(*v1.PersistentVolume) {
	return func(v *v1.PersistentVolume) {
		v.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: v.Name}
	}
}

func newClass(name, provisioner string, mode storagev1.VolumeBindingMode, zones ...string) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner,
		VolumeBindingMode: &mode}
	if len(zones) > 0 {
		c.AllowedTopologies = []v1.TopologySelectorTerm{
			{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: "zone", Values: zones}}}}
	}
	return c
}

const (
	noProvisioner = "kubernetes.io/no-provisioner"
	later         = storagev1.VolumeBindingWaitForFirstConsumer
	now           = storagev1.VolumeBindingImmediate
)

func driverWithCapacity(name string) *storagev1.CSIDriver {
	yes := true
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.CSIDriverSpec{StorageCapacity: &yes}}
}

func capacity(class, zone, size string) *storagev1.CSIStorageCapacity {
	q := resource.MustParse(size)
	return &storagev1.CSIStorageCapacity{StorageClassName: class, Capacity: &q,
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": zone}}}
}

func limit(node, driver string, n int32) *storagev1.CSINode {
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: storagev1.CSINodeSpec{
			Drivers: []storagev1.CSINodeDriver{
				{Name: driver, NodeID: node, Allocatable: &storagev1.VolumeNodeResources{Count: &n}}}}}
}

func TestVolumeBindingStatuses(t *testing.T) {
	nodes := []*v1.Node{newNode("a", label("zone", "1")), newNode("b", label("zone", "2"))}
	elsewhere := "UnschedulableAndUnresolvable: node(s) didn't match PersistentVolume's node affinity | claim " +
		"ns/data is bound to volume pv, which exists only where zone=1 | make room on a node with zone=1, or add one " +
		"there"
	nothing := "UnschedulableAndUnresolvable: node(s) didn't find available persistent volumes to bind | claim " +
		"ns/data (1Gi of class local) finds no free volume that this node reaches, and none can be provisioned for " +
		"it | add a volume of class local with at least 1Gi, or use a class that provisions"
	waits, data := newClass("local", noProvisioner, later), newClaim("data", "local", "1Gi")
	for name, c := range map[string]struct {
		p       *v1.Pod
		objects []runtime.Object
		a, b    string
	}{
		"no volumes": {p: newPod("p"), a: "fits", b: "fits"},
		"claim missing": {p: newPod("p", mounts("data")),
			a: `0/2 nodes are available: persistentvolumeclaim "data" not found.`},
		"claim lost": {p: newPod("p", mounts("data")),
			objects: []runtime.Object{newClaim("data", "local", "1Gi", boundTo("pv"),
				func(c *v1.PersistentVolumeClaim) { c.Status.Phase = v1.ClaimLost })},
			a: `0/2 nodes are available: persistentvolumeclaim "data" bound to non-existent persistentvolume "pv".`},
		"claim on its way out": {p: newPod("p", mounts("data")),
			objects: []runtime.Object{newClaim("data", "local", "1Gi",
				func(c *v1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} })},
			a: `0/2 nodes are available: persistentvolumeclaim "data" is being deleted.`},
		"ephemeral claim not yet made": {p: newPod("p", func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{
				{Name: "s", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}}
		}), a: `0/2 nodes are available: waiting for ephemeral volume controller to create the persistentvolumeclaim ` +
			`"p-s".`},
		"immediate and unbound": {p: newPod("p", mounts("data")),
			objects: []runtime.Object{newClass("local", noProvisioner, now), data},
			a:       "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."},
		"class missing is immediate": {p: newPod("p", mounts("data")), objects: []runtime.Object{data},
			a: "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."},
		"pre-bound is immediate": {p: newPod("p", mounts("data")),
			objects: []runtime.Object{waits,
				newClaim("data", "local", "1Gi", func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" })},
			a: "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."},
		"bound, in one zone": {p: newPod("p", mounts("data")),
			objects: []runtime.Object{waits, newClaim("data", "local", "1Gi", boundTo("pv")),
				newVolume("pv", "local", "1Gi", only("zone", "1"))}, a: "fits", b: elsewhere},
		"bound, volume gone": {p: newPod("p", mounts("data")),
			objects: []runtime.Object{waits, newClaim("data", "local", "1Gi", boundTo("pv"))},
			a: "UnschedulableAndUnresolvable: node(s) unavailable due to one or more pvc(s) bound to non-existent " +
				"pv(s) | claim ns/data is bound to volume pv, which is not there any more | restore the volume, or " +
				"make the claim anew",
			b: "UnschedulableAndUnresolvable: node(s) unavailable due to one or more pvc(s) bound to non-existent " +
				"pv(s) | claim ns/data is bound to volume pv, which is not there any more | restore the volume, or " +
				"make the claim anew"},
		"a free volume in one zone": {p: newPod("p", mounts("data")),
			objects: []runtime.Object{waits, data, newVolume("pv", "local", "2Gi", only("zone", "1"))}, a: "fits",
			b: strings.Replace(nothing, "for it |", "for it; volume pv exists only where zone=1 |", 1)},
		"too small": {p: newPod("p", mounts("data")),
			objects: []runtime.Object{waits, data, newVolume("pv", "local", "500Mi")}, a: nothing, b: nothing},
		"of another class": {p: newPod("p", mounts("data")),
			objects: []runtime.Object{waits, data, newVolume("pv", "fast", "2Gi")}, a: nothing, b: nothing},
		"another's": {p: newPod("p", mounts("data")),
			objects: []runtime.Object{waits, data,
				newVolume("pv", "local", "2Gi",
					func(v *v1.PersistentVolume) {
						v.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: "x"}
					})}, a: nothing, b: nothing},
		"two claims, one volume": {p: newPod("p", mounts("small", "data")),
			objects: []runtime.Object{waits, data, newClaim("small", "local", "500Mi"),
				newVolume("pv", "local", "2Gi")}, a: nothing, b: nothing},
		"two claims, two volumes": {p: newPod("p", mounts("data", "small")),
			objects: []runtime.Object{waits, data, newClaim("small", "local", "500Mi"), newVolume("v1", "local", "1Gi"),
				newVolume("v2", "local", "500Mi")}, a: "fits", b: "fits"},
		"provisioned anywhere": {p: newPod("p", mounts("data")),
			objects: []runtime.Object{newClass("local", "csi.example", later), data}, a: "fits", b: "fits"},
		"provisioned in one zone": {p: newPod("p", mounts("data")),
			objects: []runtime.Object{newClass("local", "csi.example", later, "1"), data}, a: "fits", b: nothing},
		"provisioned where there is room": {p: newPod("p", mounts("data")),
			objects: []runtime.Object{newClass("local", "csi.example", later), driverWithCapacity("csi.example"),
				capacity("local", "1", "5Gi"), capacity("local", "2", "500Mi"), data},
			a: "fits", b: "UnschedulableAndUnresolvable: node(s) did not have enough free storage | no storage of " +
				"class local that this node reaches has 1Gi left for claim ns/data | request less storage, or add " +
				"some"},
		"being provisioned for a": {p: newPod("p", mounts("data")),
			objects: []runtime.Object{newClass("local", "csi.example", later),
				newClaim("data", "local", "1Gi", func(c *v1.PersistentVolumeClaim) {
					c.Annotations = map[string]string{"volume.kubernetes.io/selected-node": "a"}
				})},
			a: "fits", b: "UnschedulableAndUnresolvable: node(s) didn't find available persistent volumes to bind | " +
				"claim ns/data is being provisioned for node a | wait for the provisioner, or make the claim anew"},
	} {
		r := schedulePod(c.p, volumebinding.New(nil, volumelisters.Of(c.objects...), nil), snapshot.Of(nodes, nil))
		if c.b == "" {
			c.b = c.a
		}
		for node, want := range map[string]string{"a": c.a, "b": c.b} {
			if got := statusText(r, node); got != want {
				t.Errorf("%s: %s:\n got %s\nwant %s", name, node, got, want)
			}
		}
	}
}

func TestVolumeZoneStatuses(t *testing.T) {
	nodes := []*v1.Node{newNode("a", label(v1.LabelTopologyZone, "1")), newNode("b", label(v1.LabelTopologyZone, "2")),
		newNode("bare"), newNode("old", label(v1.LabelFailureDomainBetaZone, "1"))}
	bound := newClaim("data", "zonal", "1Gi", boundTo("pv"))
	for name, c := range map[string]struct {
		v    *v1.PersistentVolume
		want string
	}{
		"no label":      {newVolume("pv", "zonal", "1Gi"), "a b bare old"},
		"today's label": {newVolume("pv", "zonal", "1Gi", volumeLabel(v1.LabelTopologyZone, "1")), "a bare"},
		"of another age": {newVolume("pv", "zonal", "1Gi", volumeLabel(v1.LabelFailureDomainBetaZone, "1")),
			"a bare old"},
		"several zones": {newVolume("pv", "zonal", "1Gi", volumeLabel(v1.LabelTopologyZone, "1__2")),
			"a b bare"},
		"cannot be read": {newVolume("pv", "zonal", "1Gi", volumeLabel(v1.LabelTopologyZone, "1__")),
			"a b bare old"},
		"region none of them": {newVolume("pv", "zonal", "1Gi", volumeLabel(v1.LabelTopologyRegion, "r")), "bare"},
		"zone and region, one": {newVolume("pv", "zonal", "1Gi", volumeLabel(v1.LabelTopologyZone, "1"),
			volumeLabel(v1.LabelTopologyRegion, "r")), "bare"},
	} {
		r := schedulePod(newPod("p", mounts("data")), volumezone.New(volumelisters.Of(bound, c.v)),
			snapshot.Of(nodes, nil))
		var fits []string
		for _, n := range nodes {
			if statusText(r, n.Name) == "fits" {
				fits = append(fits, n.Name)
			}
		}
		if got := strings.Join(fits, " "); got != c.want {
			t.Errorf("%s: fits on %s, want %s", name, got, c.want)
		}
	}
	r := schedulePod(newPod("p", mounts("data")),
		volumezone.New(volumelisters.Of(bound,
			newVolume("pv", "zonal", "1Gi", volumeLabel(v1.LabelTopologyZone, "1")))), snapshot.Of(nodes, nil))
	want := "UnschedulableAndUnresolvable: node(s) had no available volume zone | claim ns/data is bound to volume " +
		"pv in topology.kubernetes.io/zone=1, the node has 2 | make room on a node with " +
		"topology.kubernetes.io/zone=1, or add one there"
	if got := statusText(r, "b"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestVolumeRestrictionsStatuses(t *testing.T) {
	nodes := []*v1.Node{newNode("a"), newNode("b")}
	disk := func(source v1.VolumeSource) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "disk", VolumeSource: source})
		}
	}
	gce := func(readOnly bool) func(*v1.Pod) {
		return disk(v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "d",
			ReadOnly: readOnly}})
	}
	ebs := disk(v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "v",
		ReadOnly: true}})
	rbd := func(monitors ...string) func(*v1.Pod) {
		return disk(v1.VolumeSource{RBD: &v1.RBDVolumeSource{CephMonitors: monitors, RBDPool: "p", RBDImage: "i"}})
	}
	iscsi := func(readOnly bool) func(*v1.Pod) {
		return disk(v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{IQN: "q", ReadOnly: readOnly}})
	}
	alone := newClaim("data", "x", "1Gi", func(c *v1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	})
	for name, c := range map[string]struct {
		p, other *v1.Pod
		want     string
	}{
		"GCE, one writes":           {newPod("p", gce(true)), newPod("q", onNode("a"), gce(false)), "b"},
		"GCE, both read":            {newPod("p", gce(true)), newPod("q", onNode("a"), gce(true)), "a b"},
		"EBS, both read":            {newPod("p", ebs), newPod("q", onNode("a"), ebs), "b"},
		"RBD, a monitor in common":  {newPod("p", rbd("1", "2")), newPod("q", onNode("a"), rbd("2", "3")), "b"},
		"RBD, no monitor in common": {newPod("p", rbd("1")), newPod("q", onNode("a"), rbd("2")), "a b"},
		"iSCSI, one writes":         {newPod("p", iscsi(false)), newPod("q", onNode("a"), iscsi(true)), "b"},
		"iSCSI, both read":          {newPod("p", iscsi(true)), newPod("q", onNode("a"), iscsi(true)), "a b"},
		"one Pod at a time":         {newPod("p", mounts("data")), newPod("q", onNode("a"), mounts("data")), ""},
		"one Pod at a time, free":   {newPod("p", mounts("data")), newPod("q", onNode("a")), "a b"},
		"same name, other namespace": {newPod("p", mounts("data")),
			newPod("q", onNode("a"), mounts("data"), inNamespace("ns2")), "a b"},
		"nothing of the kind to mind": {newPod("p"), newPod("q", onNode("a"), mounts("data")), "a b"},
	} {
		r := schedulePod(c.p, volumerestrictions.New(volumelisters.Of(alone)), snapshot.Of(nodes, []*v1.Pod{c.other}))
		var fits []string
		for _, n := range nodes {
			if statusText(r, n.Name) == "fits" {
				fits = append(fits, n.Name)
			}
		}
		if got := strings.Join(fits, " "); got != c.want {
			t.Errorf("%s: fits on %q, want %q", name, got, c.want)
		}
	}
	r := schedulePod(newPod("p", mounts("data")), volumerestrictions.New(volumelisters.Of(alone)),
		snapshot.Of(nodes, []*v1.Pod{newPod("q", onNode("a"), mounts("data"))}))
	want := "Unschedulable: node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access " +
		"mode | claim ns/data is for one Pod at a time (ReadWriteOncePod), and Pod ns/q on a has it | remove Pod " +
		"ns/q, or use a claim of its own"
	if got := statusText(r, "b"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Removing the one Pod that has the claim in thought lets the other in.
func TestVolumeRestrictionsFollowPreemption(t *testing.T) {
	alone := newClaim("data", "x", "1Gi", func(c *v1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	})
	pl, p, q := volumerestrictions.New(volumelisters.Of(alone)), newPod("p", mounts("data")),
		newPod("q", onNode("a"), mounts("data"))
	w, state := snapshot.Of([]*v1.Node{newNode("a")}, []*v1.Pod{q}), schedule.NewCycleState()
	pl.PreFilter(t.Context(), state, p, w.All())
	info, _ := snapshot.NewPodInfo(q)
	thought := state.Clone()
	pl.RemovePod(t.Context(), thought, p, info, w.Node("a"))
	if s := pl.Filter(t.Context(), thought, p, w.Node("a")); s != nil {
		t.Errorf("with the other removed: %v, want nil", s)
	}
	if s := pl.Filter(t.Context(), state, p, w.Node("a")); s.Code() != framework.Unschedulable {
		t.Errorf("in truth: %v", s)
	}
	pl.AddPod(t.Context(), thought, p, info, w.Node("a"))
	if s := pl.Filter(t.Context(), thought, p, w.Node("a")); s.Code() != framework.Unschedulable {
		t.Errorf("added again: %v", s)
	}
}

func TestNodeVolumeLimitsStatuses(t *testing.T) {
	n := newNode("a")
	objects := func(more ...runtime.Object) []runtime.Object {
		all := []runtime.Object{newClass("c", "csi.example", later), newClass("other", "csi.other", later),
			newClaim("unbound", "c", "1Gi"), newClaim("foreign", "other", "1Gi")}
		for _, name := range []string{"1", "2", "3"} {
			all = append(all, newClaim("d"+name, "c", "1Gi", boundTo("v"+name)),
				newVolume("v"+name, "c", "1Gi", csiVolume("csi.example")))
		}
		return append(all, more...)
	}
	v3 := "v3"
	attached := &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{NodeName: "a", Attacher: "csi.example",
		Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &v3}}}
	over := "Unschedulable: node(s) exceed max volume count"
	missing := "Unschedulable: csi.example CSI driver is not installed on the node"
	yes, no := true, false
	required := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "csi.example"},
		Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: &yes}}
	optional := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "csi.example"},
		Spec: storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: &no}}
	for name, c := range map[string]struct {
		p       *v1.Pod
		pods    []*v1.Pod
		objects []runtime.Object
		want    string
	}{
		"no limit known": {p: newPod("p", mounts("d1", "d2", "d3")), objects: objects(), want: "fits"},
		"as many as fit": {p: newPod("p", mounts("d1", "d2")),
			objects: objects(limit("a", "csi.example", 2)), want: "fits"},
		"one too many": {p: newPod("p", mounts("d1", "d2", "d3")),
			objects: objects(limit("a", "csi.example", 2)),
			want: over + " | driver csi.example attaches at most 2 volumes here, 0 are there and the Pod needs 3 " +
				"more"},
		"with what others have": {p: newPod("p", mounts("d1", "d2")),
			pods: []*v1.Pod{newPod("q", onNode("a"), mounts("d3"))}, objects: objects(limit("a", "csi.example", 2)),
			want: over + " | driver csi.example attaches at most 2 volumes here, 1 are there and the Pod needs 2 more"},
		"shared with another Pod": {p: newPod("p", mounts("d1", "d2")),
			pods: []*v1.Pod{newPod("q", onNode("a"), mounts("d1"))}, objects: objects(limit("a", "csi.example", 2)),
			want: "fits"},
		"still attached, nobody uses it": {p: newPod("p", mounts("d1", "d2")),
			objects: objects(limit("a", "csi.example", 2), attached), want: over},
		"unbound counts by its class": {p: newPod("p", mounts("d1", "unbound")),
			objects: objects(limit("a", "csi.example", 1)), want: over},
		"of another driver": {p: newPod("p", mounts("d1", "foreign")),
			objects: objects(limit("a", "csi.example", 1)), want: "fits"},
		"no volumes on a full node": {p: newPod("p"),
			pods:    []*v1.Pod{newPod("q", onNode("a"), mounts("d1", "d2"))},
			objects: objects(limit("a", "csi.example", 1)), want: "fits"},
		"limit of zero, nothing attached": {p: newPod("p", mounts("d1")),
			objects: objects(limit("a", "csi.example", 0)), want: over},
		"without its driver, which has to be there": {p: newPod("p", mounts("d1")), objects: objects(required),
			want: missing},
		"beside another driver": {p: newPod("p", mounts("d1")), objects: objects(required, limit("a", "csi.other", 9)),
			want: missing + " | driver csi.example is not registered here"},
		"yet to be made, without its driver": {p: newPod("p", mounts("unbound")), objects: objects(required),
			want: missing},
		"with its driver": {p: newPod("p", mounts("d1")), objects: objects(required, limit("a", "csi.example", 1)),
			want: "fits"},
		"with its driver, too many": {p: newPod("p", mounts("d1", "d2")),
			objects: objects(required, limit("a", "csi.example", 1)), want: over},
		"without another's driver": {p: newPod("p", mounts("foreign")), objects: objects(required), want: "fits"},
		"without a driver that need not be there": {p: newPod("p", mounts("d1")), objects: objects(optional),
			want: "fits"},
	} {
		r := schedulePod(c.p, nodevolumelimits.New(volumelisters.Of(c.objects...)), snapshot.Of([]*v1.Node{n}, c.pods))
		if got := statusText(r, "a"); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestVolumeHints(t *testing.T) {
	hint := func(pl framework.EnqueueExtensions, r framework.EventResource) framework.QueueingHintFn {
		all, err := pl.EventsToRegister(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			if e.Event.Resource == r {
				return e.QueueingHintFn
			}
		}
		t.Fatalf("%T does not wake for %s", pl, r)
		return nil
	}
	yes := true
	binding, zone, restrict, limits := volumebinding.New(nil, nil, nil), volumezone.New(nil),
		volumerestrictions.New(nil), nodevolumelimits.New(volumelisters.Of(&storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: "required"},
			Spec:       storagev1.CSIDriverSpec{PreventPodSchedulingIfMissing: &yes}}))
	p := newPod("p", mounts("data"))
	topologies := newClass("c", "x", later, "1")
	for name, c := range map[string]struct {
		fn            framework.QueueingHintFn
		before, after any
		want          framework.QueueingHint
	}{
		"own claim comes": {hint(binding, framework.PersistentVolumeClaim), nil, newClaim("data", "c", "1Gi"),
			framework.Queue},
		"own claim changes": {hint(binding, framework.PersistentVolumeClaim), newClaim("data", "c", "1Gi"),
			newClaim("data", "c", "1Gi", boundTo("v")), framework.Queue},
		"another's claim": {hint(binding, framework.PersistentVolumeClaim), nil, newClaim("x", "c", "1Gi"),
			framework.QueueSkip},
		"class comes": {hint(binding, framework.StorageClass), nil, topologies, framework.Queue},
		"class as before": {hint(binding, framework.StorageClass), topologies, topologies.DeepCopy(),
			framework.QueueSkip},
		"class wider": {hint(binding, framework.StorageClass), topologies,
			newClass("c", "x", later, "1", "2"), framework.Queue},
		"capacity grows": {hint(binding, framework.CSIStorageCapacity), capacity("c", "1", "1Gi"),
			capacity("c", "1", "2Gi"), framework.Queue},
		"capacity shrinks": {hint(binding, framework.CSIStorageCapacity), capacity("c", "1", "2Gi"),
			capacity("c", "1", "1Gi"), framework.QueueSkip},
		"driver stops counting": {hint(binding, framework.CSIDriver), driverWithCapacity("d"), &storagev1.CSIDriver{},
			framework.Queue},
		"driver as before": {hint(binding, framework.CSIDriver), driverWithCapacity("d"),
			driverWithCapacity("d"), framework.QueueSkip},
		"class that waits": {hint(zone, framework.StorageClass), nil, newClass("c", "x", later),
			framework.Queue},
		"class that does not": {hint(zone, framework.StorageClass), nil, newClass("c", "x", now),
			framework.QueueSkip},
		"volume moved": {hint(zone, framework.PersistentVolume),
			newVolume("v", "c", "1Gi", volumeLabel(v1.LabelTopologyZone, "1")),
			newVolume("v", "c", "1Gi", volumeLabel(v1.LabelTopologyZone, "2")), framework.Queue},
		"volume as before": {hint(zone, framework.PersistentVolume),
			newVolume("v", "c", "1Gi", volumeLabel(v1.LabelTopologyZone, "1")),
			newVolume("v", "c", "2Gi", volumeLabel(v1.LabelTopologyZone, "1")), framework.QueueSkip},
		"user of the claim goes": {hint(restrict, framework.AssignedPod), newPod("q", mounts("data")), nil,
			framework.Queue},
		"another Pod goes": {hint(restrict, framework.AssignedPod), newPod("q", mounts("x")), nil,
			framework.QueueSkip},
		"Pod with volumes goes": {hint(limits, framework.AssignedPod), newPod("q", mounts("x")), nil,
			framework.Queue},
		"Pod without goes": {hint(limits, framework.AssignedPod), newPod("q"), nil, framework.QueueSkip},
		"limit rises": {hint(limits, framework.CSINode), limit("a", "d", 1), limit("a", "d", 2),
			framework.Queue},
		"limit falls": {hint(limits, framework.CSINode), limit("a", "d", 2), limit("a", "d", 1),
			framework.QueueSkip},
		"driver that has to be there comes": {hint(limits, framework.CSINode), limit("a", "d", 1),
			limit("a", "required", 1), framework.Queue},
		"another driver comes": {hint(limits, framework.CSINode), &storagev1.CSINode{}, limit("a", "d", 1),
			framework.QueueSkip},
		"CSINode comes": {hint(limits, framework.CSINode), nil, limit("a", "d", 1), framework.Queue},
		"limit of a driver gone": {hint(limits, framework.CSINode), limit("a", "d", 1), &storagev1.CSINode{},
			framework.Queue},
		"plugin taken over by it": {hint(binding, framework.CSINode), &storagev1.CSINode{},
			&storagev1.CSINode{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1.MigratedPluginsAnnotationKey: "x"}}},
			framework.Queue},
	} {
		got, err := c.fn(logr.Discard(), p, c.before, c.after)
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
	}
}
