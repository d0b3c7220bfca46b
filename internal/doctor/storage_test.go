package doctor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/doctor"
)

const disk1 = "disk.example.com"

func csiNode(node string, drivers ...string) storagev1.CSINode {
	c := storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}}
	for _, d := range drivers {
		c.Spec.Drivers = append(c.Spec.Drivers, storagev1.CSINodeDriver{Name: d})
	}
	return c
}

func diskOf(pv, claim string) v1.PersistentVolume {
	return v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: pv}, Spec: v1.PersistentVolumeSpec{
		ClaimRef: &v1.ObjectReference{Namespace: "shop", Name: claim},
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: disk1,
			VolumeHandle: "h-" + pv}}}}
}

func podWithVolume(name string, v v1.VolumeSource) v1.Pod {
	return v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: v1.PodSpec{NodeName: "n1",
		Volumes: []v1.Volume{{Name: "v", VolumeSource: v}}}}
}

func claimed(name string) v1.VolumeSource {
	return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

func attachedTo(node, pv string, change ...func(*storagev1.VolumeAttachment)) storagev1.VolumeAttachment {
	a := storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-1",
		CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: disk1, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv}},
		Status: storagev1.VolumeAttachmentStatus{Attached: true}}
	for _, f := range change {
		f(&a)
	}
	return a
}

func unattached(a *storagev1.VolumeAttachment) {
	a.Status = storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{Message: "no such disk"}}
}

func setCreatedAMinuteAgo(a *storagev1.VolumeAttachment) {
	a.CreationTimestamp = metav1.NewTime(now.Add(-time.Minute))
}

func unwell(p v1.Pod) v1.Pod {
	p.Status.VolumeHealth = []v1.PodVolumeHealth{{Name: "v", HealthConditions: []v1.VolumeHealthCondition{
		{Status: v1.VolumeHealthDataLoss, Reason: "Torn", Message: "half of it"}}}}
	return p
}

func storageDown() storagev1.CSINode {
	n := csiNode("n1", disk1)
	conditions := []storagev1.StorageHealthCondition{
		{Status: storagev1.StorageUnreachable, Reason: "NoRoute", Message: "no way"}}
	n.Status.StorageHealth = []storagev1.StorageHealth{{Name: disk1, HealthConditions: conditions}}
	return n
}

func deleted(ago time.Duration) func(*storagev1.VolumeAttachment) {
	return func(a *storagev1.VolumeAttachment) { a.DeletionTimestamp = &metav1.Time{Time: now.Add(-ago)} }
}

// What is wrong with CSI drivers and their volumes is named with driver, volume and node, and with
// the command that helps; what is only on its way is not.
//
// row: CSI-13
func TestStorageIsEvaluated(t *testing.T) {
	call := func(ago time.Duration) doctor.Node {
		return doctor.Node{Name: "n1", Calls: []doctor.DriverCall{{Driver: disk1, Method: "NodeStageVolume",
			Since: now.Add(-ago)}}}
	}
	none, has := doctor.Node{Name: "n1", Registered: []string{}}, doctor.Node{Name: "n1", Registered: []string{disk1}}
	silent := doctor.Node{Name: "n1"} // its kubelet does not say
	local := func(l doctor.LocalStorage) *doctor.Storage {
		l.Node = "n1"
		return &doctor.Storage{CSINodes: []storagev1.CSINode{csiNode("n1", disk1)}, Local: &l}
	}
	attachment := func(a storagev1.VolumeAttachment) *doctor.Storage {
		return &doctor.Storage{CSINodes: []storagev1.CSINode{csiNode("n1", disk1)},
			Attachments: []storagev1.VolumeAttachment{a},
			Volumes:     []v1.PersistentVolume{diskOf("pv", "data")}}
	}
	for _, c := range []struct {
		name    string
		node    doctor.Node
		storage *doctor.Storage
		want    string // of the findings, one line each with its remedy; empty: none
	}{
		{"a call that hangs", call(time.Minute), nil,
			"n1: CSI driver disk.example.com has not answered NodeStageVolume for 1m0s.*spec.nodeName=n1"},
		{"a call", call(time.Second), nil, ""},
		{"a call for health that hangs", doctor.Node{Name: "n1", Calls: []doctor.DriverCall{{Driver: disk1,
			Method: "NodeGetVolumeHealth", Since: now.Add(-time.Minute)}}}, nil,
			"n1: CSI driver disk.example.com has not answered NodeGetVolumeHealth for 1m0s: how its volumes are"},
		{"a volume that is not well", has, &doctor.Storage{CSINodes: []storagev1.CSINode{csiNode("n1", disk1)},
			Volumes: []v1.PersistentVolume{diskOf("pv", "data")}, Unhealthy: []v1.Pod{
				unwell(podWithVolume("b", claimed("data"))), unwell(podWithVolume("a", claimed("data")))}},
			"pv/pv: CSI driver disk.example.com says on node n1 that this volume is DataLoss (Torn): half of it; " +
				"Pods that have it there: shop/a, shop/b.*copy what can still be read"},
		{"storage that is not well", has, &doctor.Storage{CSINodes: []storagev1.CSINode{storageDown()}},
			"n1: CSI driver disk.example.com says that its storage is StorageUnreachable from there (NoRoute): " +
				"no way"},
		{"all is well", has, &doctor.Storage{CSINodes: []storagev1.CSINode{csiNode("n1", disk1)}}, ""},
		{"a driver of the CSINode alone", none, &doctor.Storage{CSINodes: []storagev1.CSINode{csiNode("n1", disk1),
			csiNode("n2", "other")}}, "n1: the CSINode has driver disk.example.com, and no such driver is registered"},
		{"a kubelet that does not say", silent,
			&doctor.Storage{CSINodes: []storagev1.CSINode{csiNode("n1", disk1)}}, ""},
		{"a driver that the CSINode lacks", has, &doctor.Storage{CSINodes: []storagev1.CSINode{csiNode("n1")}},
			"n1: CSI driver disk.example.com is registered with the kubelet, and the CSINode does not have it"},
		{"Pods that wait for a driver", none, &doctor.Storage{CSINodes: []storagev1.CSINode{csiNode("n1", disk1)},
			Volumes: []v1.PersistentVolume{diskOf("pv", "data"), diskOf("pv-2", "b-v")}, Pending: []v1.Pod{
				podWithVolume("c", v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: disk1}}),
				podWithVolume("b", v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}),
				podWithVolume("a", claimed("data")),
				podWithVolume("d", claimed("other"))}},
			"n1: 3 Pods wait for CSI driver disk.example.com, which is not registered there: shop/a, shop/b, shop/c.*" +
				"see why the driver's Pod there does not run"},
		{"Pods that wait for something else", has, &doctor.Storage{CSINodes: []storagev1.CSINode{csiNode("n1", disk1)},
			Volumes: []v1.PersistentVolume{diskOf("pv", "data")},
			Pending: []v1.Pod{podWithVolume("a", claimed("data"))}}, ""},
		{"a socket that nobody serves", has, local(doctor.LocalStorage{Sockets: []doctor.Socket{{Path: "/r/x.sock",
			Err: errNone}}}), "/r/x.sock: nobody answers at this registration socket: no answer.*rm /r/x.sock"},
		{"a socket whose driver is not taken", has, local(doctor.LocalStorage{Sockets: []doctor.Socket{{
			Path: "/r/x.sock", Driver: "new.example.com"}}}),
			"/r/x.sock: CSI driver new.example.com answers there, and the kubelet has not registered it"},
		{"a socket", has, local(doctor.LocalStorage{Sockets: []doctor.Socket{{Path: "/r/x.sock", Driver: disk1}}}), ""},
		{"a node that is gone", has, attachment(attachedTo("n9", "pv")), "volumeattachment/csi-1: node n9 does not " +
			"exist, and volume pv is attached to it.*kubectl delete volumeattachment csi-1"},
		{"a volume that is gone", has, attachment(attachedTo("n1", "pv-9")), "volumeattachment/csi-1: " +
			"PersistentVolume pv-9 does not exist, and is attached to node n1.*kubectl delete volumeattachment csi-1"},
		{"an attachment", has, attachment(attachedTo("n1", "pv")), ""},
		{"an attachment that takes long", has, attachment(attachedTo("n1", "pv", unattached)),
			"volume pv is being attached to node n1 for 1h0m0s: no such disk.*external-attacher of disk.example.com"},
		{"an attachment on its way", has, attachment(attachedTo("n1", "pv", unattached, setCreatedAMinuteAgo)), ""},
		{"a detachment that takes long", has, attachment(attachedTo("n9", "pv", deleted(time.Hour))),
			"volume pv is being detached from node n9 for 1h0m0s.*external-attacher.*finalizers"},
		{"a detachment on its way", has, attachment(attachedTo("n9", "pv", deleted(time.Minute))), ""},
		{"a directory of a Pod that is gone", has, local(doctor.LocalStorage{PodDirs: []doctor.PodDir{{Path: "/p/u",
			Age: time.Hour, Mounts: []string{"/p/u/m"}}}}),
			"/p/u: no such Pod is known, and its directory last changed 1h0m0s ago; mounted there: /p/u/m.*" +
				"umount /p/u/m"},
		{"an empty directory of one", has, local(doctor.LocalStorage{PodDirs: []doctor.PodDir{{Path: "/p/u",
			Age: time.Hour}}}), "/p/u: no such Pod is known.*the kubelet removes it"},
		{"a Pod that ends", has, local(doctor.LocalStorage{PodDirs: []doctor.PodDir{{Path: "/p/u"}}}), ""},
		{"a loop device", has, local(doctor.LocalStorage{Loops: []doctor.LoopDevice{{Device: "/dev/loop7",
			Image: "/v/disk.img", Why: "no PersistentVolume has it"}}}),
			"/dev/loop7: is a device of /v/disk.img: no PersistentVolume has it.*losetup -d /dev/loop7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, f := range doctor.Examine(doctor.Facts{Now: now, Nodes: []doctor.Node{c.node}, Storage: c.storage}) {
				switch f.Check {
				case "csi-drivers", "attachments", "volumes-left", "volume-health":
					got = append(got, fmt.Sprintf("%s: %s → %s", f.About, f.Text, f.Fix))
				}
			}
			said := strings.Join(got, "\n")
			if c.want == "" && said != "" || len(got) > 1 {
				t.Errorf("got %s, want %q", said, c.want)
			}
			for part := range strings.SplitSeq(c.want, ".*") {
				if !strings.Contains(said, part) {
					t.Errorf("got %s, want %q", said, part)
				}
			}
		})
	}
}
