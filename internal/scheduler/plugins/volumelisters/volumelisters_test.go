package volumelisters_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/test/wrappers"
)

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func claim(name, class, volume string, change ...func(*v1.PersistentVolumeClaim)) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &class, VolumeName: volume}}
	for _, f := range change {
		f(c)
	}
	return c
}

func csi(name, driver string) *v1.PersistentVolume {
	return &v1.PersistentVolume{ObjectMeta: named(name), Spec: v1.PersistentVolumeSpec{
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver,
			VolumeHandle: "handle-" + name}}}}
}

// ebs is a volume of an in-tree plugin.
func ebs(name, zone string) *v1.PersistentVolume {
	v := &v1.PersistentVolume{ObjectMeta: named(name), Spec: v1.PersistentVolumeSpec{
		PersistentVolumeSource: v1.PersistentVolumeSource{
			AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-" + name}}}}
	if zone != "" {
		v.Labels = map[string]string{v1.LabelTopologyZone: zone}
	}
	return v
}

func class(name, provisioner string) *storagev1.StorageClass {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	return &storagev1.StorageClass{ObjectMeta: named(name), Provisioner: provisioner, VolumeBindingMode: &mode}
}

// csiNode is a node whose drivers took plugins over, and has limits "driver=n".
func csiNode(name, plugins string, limits ...string) *storagev1.CSINode {
	n := &storagev1.CSINode{ObjectMeta: named(name)}
	n.Annotations = map[string]string{v1.MigratedPluginsAnnotationKey: plugins}
	for _, l := range limits {
		driver, count, ok := strings.Cut(l, "=")
		d := storagev1.CSINodeDriver{Name: driver}
		if ok {
			d.Allocatable = &storagev1.VolumeNodeResources{}
		}
		var k int32
		if _, err := fmt.Sscan(count, &k); err == nil {
			d.Allocatable.Count = &k
		}
		n.Spec.Drivers = append(n.Spec.Drivers, d)
	}
	return n
}

// pod mounts claims by name, "+name" made for it, and "ebs:id" in-line.
func pod(names ...string) *v1.Pod {
	p := wrappers.MakePod().Namespace("ns").Name("p").UID("uid").Obj()
	for _, name := range names {
		v := v1.Volume{Name: strings.TrimPrefix(name, "+")}
		switch {
		case name == "empty":
			v.EmptyDir = &v1.EmptyDirVolumeSource{}
		case strings.HasPrefix(name, "+"):
			v.Ephemeral = &v1.EphemeralVolumeSource{}
		case strings.HasPrefix(name, "ebs:"):
			v.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: name[4:]}
		default:
			v.PersistentVolumeClaim = &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}
		}
		p.Spec.Volumes = append(p.Spec.Volumes, v)
	}
	return p
}

const (
	ebsPlugin = "kubernetes.io/aws-ebs"
	ebsDriver = "ebs.csi.aws.com"
)

func attached(all map[volumelisters.AttachedVolume]bool) string {
	var out []string
	for v, yes := range all {
		if yes {
			out = append(out, v.Driver+" "+v.ID)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func TestVolumesToAttach(t *testing.T) {
	objects := volumelisters.Of(claim("a", "c", "va"), claim("twin", "c", "va"), csi("va", "d1"), claim("b", "c", "vb"),
		csi("vb", "d2"), claim("old", "c", "vold"), ebs("vold", ""), claim("gone", "c", "vgone"),
		claim("unbound", "c", ""), class("c", "prov"), claim("tobe", "inTree", ""), class("inTree", ebsPlugin),
		claim("classless", "none", ""), claim("local", "c", "vlocal"),
		&v1.PersistentVolume{ObjectMeta: named("vlocal")})
	migrated, not := csiNode("n", "x,"+ebsPlugin), csiNode("n", "x")
	for name, c := range map[string]struct {
		p    *v1.Pod
		node *storagev1.CSINode
		want string
		most string // by driver, on any node
	}{
		"none":                  {pod("empty"), migrated, "", "map[]"},
		"two of two drivers":    {pod("a", "b"), migrated, "d1 handle-va, d2 handle-vb", "map[d1:1 d2:1]"},
		"one twice":             {pod("a", "twin", "empty"), migrated, "d1 handle-va", "map[d1:1]"},
		"missing, then another": {pod("missing", "a"), migrated, "d1 handle-va", "map[d1:1]"},
		"of no driver":          {pod("local", "a"), migrated, "d1 handle-va", "map[d1:1]"},
		"yet to be made":        {pod("unbound"), migrated, "prov claim/ns/unbound", "map[prov:1]"},
		"its volume is gone":    {pod("gone"), migrated, "prov claim/ns/gone", "map[prov:1]"},
		"of no class":           {pod("classless", "a"), migrated, "d1 handle-va", "map[d1:1]"},
		"taken over":            {pod("old"), migrated, ebsDriver + " vol-vold", "map[" + ebsDriver + ":1]"},
		"not taken over here":   {pod("old"), not, "", "map[" + ebsDriver + ":1]"},
		"nothing known":         {pod("old"), nil, "", "map[" + ebsDriver + ":1]"},
		"yet to be, taken over": {pod("tobe"), migrated, ebsDriver + " claim/ns/tobe", "map[" + ebsDriver + ":1 " +
			ebsPlugin + ":1]"},
		"yet to be, not": {pod("tobe"), not, ebsPlugin + " claim/ns/tobe", "map[" + ebsDriver + ":1 " +
			ebsPlugin + ":1]"},
		"in-line, taken over": {pod("ebs:v9", "a"), migrated, "d1 handle-va, " + ebsDriver + " v9", "map[d1:1 " +
			ebsDriver + ":1]"},
		"in-line, not":           {pod("ebs:v9", "a"), not, "d1 handle-va", "map[d1:1 " + ebsDriver + ":1]"},
		"in-line, nothing known": {pod("ebs:v9"), nil, "", "map[" + ebsDriver + ":1]"},
	} {
		if got := attached(volumelisters.VolumesToAttach(objects, c.p, c.node)); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		if got := fmt.Sprint(volumelisters.MaxVolumesByDriver(objects, c.p)); got != c.most {
			t.Errorf("%s: at most %s, want %s", name, got, c.most)
		}
	}
}

// A volume of each in-tree plugin that drivers took over is translated where they did, and nowhere
// else.
func TestTranslateInTree(t *testing.T) {
	sources := map[string]v1.PersistentVolumeSource{
		ebsPlugin:              {AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}},
		"kubernetes.io/gce-pd": {GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "pd"}},
		"kubernetes.io/azure-disk": {AzureDisk: &v1.AzureDiskVolumeSource{DiskName: "d",
			DataDiskURI: "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/d"}},
		"kubernetes.io/cinder":          {Cinder: &v1.CinderPersistentVolumeSource{VolumeID: "c"}},
		"kubernetes.io/portworx-volume": {PortworxVolume: &v1.PortworxVolumeSource{VolumeID: "p"}},
	}
	for plugin, source := range sources {
		v := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v",
			Labels: map[string]string{v1.LabelTopologyZone: "z"}},
			Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: source}}
		for node, want := range map[*storagev1.CSINode]bool{csiNode("n", plugin): true,
			csiNode("n", "a,"+plugin+",b"):      true,
			csiNode("n", "kubernetes.io/other"): false, {}: false, nil: false} {
			got, err := volumelisters.TranslateInTree(v, node)
			if err != nil || (got.Spec.CSI != nil) != want || !want && got != v {
				t.Errorf("%s on %v: got %v, %v, translated: want %t", plugin, node, got, err, want)
			}
			if _, ok := volumelisters.AttachedVolumeOf(v, node); ok != want {
				t.Errorf("%s on %v: attached: %t, want %t", plugin, node, ok, want)
			}
		}
	}
	vsphere := &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{
		VsphereVolume: &v1.VsphereVirtualDiskVolumeSource{VolumePath: "v"}}}}
	if got, err := volumelisters.TranslateInTree(vsphere, csiNode("n", "kubernetes.io/vsphere-volume")); err != nil ||
		got != vsphere {
		t.Errorf("of a plugin that needs a gate: got %v, %v, want it as it is", got, err)
	}
	broken := &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{
		AzureDisk: &v1.AzureDiskVolumeSource{DataDiskURI: "x", Kind: new(v1.AzureManagedDisk)}, NFS: nil}}}
	if got, err := volumelisters.TranslateInTree(broken, csiNode("n", "kubernetes.io/azure-disk")); err == nil &&
		got.Spec.CSI == nil {
		t.Errorf("got %v, want it translated or an error", got)
	}
}

func TestReachableFromAllNodes(t *testing.T) {
	limited := csi("v", "d")
	limited.Spec.NodeAffinity = &v1.VolumeNodeAffinity{}
	for name, c := range map[string]struct {
		v    *v1.PersistentVolume
		want bool
	}{
		"anywhere": {csi("v", "d"), true}, "limited": {limited, false}, "in-tree, anywhere": {ebs("v", ""), true},
		"in-tree, of a zone": {ebs("v", "z"), false},
	} {
		if got := volumelisters.IsReachableFromAllNodes(c.v); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
	for name, want := range map[string]bool{"empty": false, "a": true, "+a": true, "ebs:v": true} {
		p := pod(name)
		if got := volumelisters.MayNeedAttach(p, &p.Spec.Volumes[0]); got != want {
			t.Errorf("%s may need to be attached: got %t, want %t", name, got, want)
		}
	}
}

func TestLimits(t *testing.T) {
	n := csiNode("n", "", "silent", "vague=", "zero=0", "five=5")
	for driver, want := range map[string]string{"silent": "0 false", "vague": "0 false", "zero": "0 true",
		"five": "5 true", "none": "0 false"} {
		k, ok := volumelisters.LimitOf(n, driver)
		if got := fmt.Sprint(k, ok); got != want {
			t.Errorf("%s: got %s, want %s", driver, got, want)
		}
		if got := volumelisters.Of(csiNode("m", ""), n).HasLimit(driver); got != ok {
			t.Errorf("%s has a limit: got %t, want %t", driver, got, ok)
		}
	}
	if k, ok := volumelisters.LimitOf(nil, "five"); k != 0 || ok {
		t.Errorf("of no node: got %d, %t", k, ok)
	}
}

func TestClaims(t *testing.T) {
	owned := func(c *v1.PersistentVolumeClaim) {
		yes := true
		c.OwnerReferences = []metav1.OwnerReference{{UID: "uid", Controller: &yes, Kind: "Pod", Name: "p"}}
	}
	objects := volumelisters.Of(claim("a", "c", ""), claim("b", "c", ""), claim("p-own", "c", "", owned),
		claim("p-foreign", "c", ""),
		claim("lost", "c", "gone", func(c *v1.PersistentVolumeClaim) { c.Status.Phase = v1.ClaimLost }),
		claim("going", "c", "", func(c *v1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} }))
	for name, c := range map[string]struct {
		p    *v1.Pod
		want string
	}{
		"none":             {pod("empty"), "[] <nil>"},
		"two and no claim": {pod("a", "empty", "b"), "[a b] <nil>"},
		"made for the Pod": {pod("+own", "b"), "[p-own b] <nil>"},
		"made for another": {pod("+foreign"), `[] PVC ns/p-foreign was not created for pod ns/p (pod is not owner)`},
		"yet to be made": {pod("+later"),
			`[] waiting for ephemeral volume controller to create the persistentvolumeclaim "p-later"`},
		"missing": {pod("a", "no"), `[] persistentvolumeclaim "no" not found`},
		"lost": {pod("lost"),
			`[] persistentvolumeclaim "lost" bound to non-existent persistentvolume "gone"`},
		"on its way out": {pod("going"), `[] persistentvolumeclaim "going" is being deleted`},
		"lost is said first": {pod("lost", "going"),
			`[] persistentvolumeclaim "lost" bound to non-existent persistentvolume "gone"`},
	} {
		all, err := volumelisters.Claims(objects, c.p)
		names := []string{}
		for _, one := range all {
			names = append(names, one.Name)
		}
		if got := fmt.Sprint(names, " ", err); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
	elsewhere := pod("a")
	elsewhere.Namespace = "ns2"
	for _, c := range []struct {
		p    *v1.Pod
		want bool
	}{{pod("a"), true}, {pod("b", "a"), true}, {pod("b"), false}, {elsewhere, false}, {pod("empty"), false}} {
		if got := volumelisters.Uses(c.p, claim("a", "c", "")); got != c.want {
			t.Errorf("%v uses it: got %t, want %t", c.p.Spec.Volumes, got, c.want)
		}
	}
	if !volumelisters.Uses(pod("+own"), claim("p-own", "c", "")) {
		t.Error("the claim made for a Pod is not used by it")
	}
	bound := func(c *v1.PersistentVolumeClaim) {
		c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	}
	for c, want := range map[*v1.PersistentVolumeClaim]bool{claim("a", "c", "v", bound): true,
		claim("a", "c", "v"):       false,
		claim("a", "c", "", bound): false} {
		if got := volumelisters.FullyBound(c); got != want {
			t.Errorf("%v: got %t, want %t", c, got, want)
		}
	}
}

// failing are listers whose classes cannot be read.
type failing struct{ *volumelisters.Objects }

func (failing) Class(string) (*storagev1.StorageClass, error) { return nil, errors.New("down") }

func TestWaitingClass(t *testing.T) {
	immediate, silent := class("now", "x"), class("silent", "x")
	*immediate.VolumeBindingMode, silent.VolumeBindingMode = storagev1.VolumeBindingImmediate, nil
	objects := volumelisters.Of(class("later", "x"), immediate, silent)
	for what, c := range map[string]struct {
		f     volumelisters.Listers
		class string
		want  string
	}{
		"waits": {objects, "later", "later <nil>"}, "immediate": {objects, "now", "none <nil>"},
		"no class": {objects, "", "none <nil>"}, "missing": {objects, "gone", "none <nil>"},
		"no mode": {objects, "silent", `none VolumeBindingMode not set for StorageClass "silent"`},
		"down":    {failing{objects}, "later", "none down"},
		// nobody asks about the class of no name
		"no class, down": {failing{objects}, "", "none <nil>"},
	} {
		got, err := volumelisters.WaitingClass(c.f, claim("a", c.class, ""))
		name := "none"
		if got != nil {
			name = got.Name
		}
		if text := fmt.Sprint(name, " ", err); text != c.want {
			t.Errorf("%s: got %s, want %s", what, text, c.want)
		}
	}
}

func TestObjects(t *testing.T) {
	inClass := func(name, class string) *v1.PersistentVolume {
		v := csi(name, "d")
		v.Spec.StorageClassName = class
		return v
	}
	at := func(name, node string) *storagev1.VolumeAttachment {
		return &storagev1.VolumeAttachment{ObjectMeta: named(name),
			Spec: storagev1.VolumeAttachmentSpec{NodeName: node}}
	}
	all := []runtime.Object{claim("a", "c", ""), class("c", "x"), csiNode("n", ""),
		&storagev1.CSIDriver{ObjectMeta: named("d")},
		&storagev1.CSIStorageCapacity{ObjectMeta: named("k")}, at("1", "n"), at("2", "m"), at("3", "n"), &v1.Pod{}}
	for _, name := range []string{"v4", "v2", "v9", "v1", "v3", "v7"} {
		all = append(all, inClass(name, "c"))
	}
	o := volumelisters.Of(append(all, inClass("v5", "other"))...)
	var got []string
	for _, v := range o.VolumesOfClass("c") {
		got = append(got, v.Name)
	}
	for _, a := range o.Attachments("n") {
		got = append(got, a.Name)
	}
	for _, k := range o.Capacities() {
		got = append(got, k.Name)
	}
	if want := "v1 v2 v3 v4 v7 v9 1 3 k"; strings.Join(got, " ") != want {
		t.Errorf("got %s, want %s", got, want)
	}
	c, err := o.Claim("ns", "a")
	v, errV := o.Volume("v5")
	s, errS := o.Class("c")
	if err := errors.Join(err, errV, errS); err != nil || c.Name != "a" || v.Name != "v5" || s.Name != "c" ||
		o.CSINode("n").Name != "n" || o.Driver("d").Name != "d" || o.CSINode("m") != nil || o.Driver("e") != nil {
		t.Errorf("got %v, %v, %v, %v, %v, %v", c, v, s, o.CSINode("n"), o.Driver("d"), err)
	}
	_, err = o.Claim("ns2", "a")
	_, errV = o.Volume("no")
	_, errS = o.Class("no")
	want := "persistentvolumeclaim \"a\" not found\npersistentvolume \"no\" not found\n" +
		"storageclass.storage.k8s.io \"no\" not found"
	if got := errors.Join(err, errV, errS); got == nil || got.Error() != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
}
