package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/journal"
)

// A Pod over its own limits of local storage: what took how much, whose limit, and a remedy that is
// enough.
func TestWhyEvictedForItsOwnLimits(t *testing.T) {
	size := resource.MustParse("500Mi")
	for _, c := range []struct {
		name string
		set  func(in *In)
		fact journal.StorageExceeded
		want []string
		not  []string
	}{
		{"all containers together, most of it in a volume that has room", nil,
			journal.StorageExceeded{Of: journal.OfPod, Used: 151 * mebibyte, Limit: 100 * mebibyte,
				Parts: []journal.StoragePart{
					{What: "volume", Name: "work", Bytes: 150 * mebibyte}, {What: "logs", Bytes: mebibyte}}},
			[]string{"took 151Mi of local storage", "ephemeral-storage limit of its containers is 100Mi (app 100Mi)",
				"volume work 150Mi of it (container app has it at /scratch); its own sizeLimit of 500Mi was not " +
					"reached",
				"logs 1Mi of it", "The node is fine", "container app to 192Mi (it took 151Mi",
				`"ephemeral-storage":"192Mi"`, "stays as it is"}, nil},
		{"still writing when it was measured",
			func(in *In) { in.app().Command = []string{"sh", "-c", "dd if=/dev/zero of=/scratch/x bs=1M count=300"} },
			journal.StorageExceeded{Of: journal.OfPod, Used: 110 * mebibyte, Limit: 100 * mebibyte},
			[]string{"to 384Mi (its command writes 300Mi"}, nil},
		{"the limit of a volume, and then that of the containers", nil, journal.StorageExceeded{Of: journal.OfVolume,
			Name: "work", Used: 600 * mebibyte, Limit: 500 * mebibyte},
			[]string{"emptyDir work held 600Mi, and its sizeLimit is 500Mi", `"sizeLimit":"752Mi"`,
				`"ephemeral-storage":"944Mi"`}, nil},
		{"one container", nil, journal.StorageExceeded{Of: journal.OfContainer, Name: "app", Used: 5 * mebibyte,
			Limit: 4 * mebibyte, Parts: []journal.StoragePart{{What: "logs", Bytes: 4 * mebibyte}}},
			[]string{"container app took 5Mi for its writable layer and its logs, and its ephemeral-storage limit is " +
				"4Mi", "logs 4Mi of it"}, []string{"sizeLimit"}},
		{"a node in need is not called fine", func(in *In) {
			in.Node.Status.Conditions = append(in.Node.Status.Conditions,
				corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue})
		}, journal.StorageExceeded{Of: journal.OfPod, Used: 2, Limit: 1}, nil, []string{"fine"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := base()
			in.Pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "upstream's words"}
			in.Pod.Spec.Volumes = []corev1.Volume{
				{Name: "work",
					VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &size}}}}
			in.app().VolumeMounts = []corev1.VolumeMount{{Name: "work", MountPath: "/scratch"}}
			in.app().Resources.Limits = corev1.ResourceList{
				corev1.ResourceEphemeralStorage: resource.MustParse("100Mi")}
			if c.set != nil {
				c.set(&in)
			}
			in.fact(time.Second, "kubelet", c.fact)
			var b strings.Builder
			if err := Why(in).WriteText(&b, t0); err != nil {
				t.Fatal(err)
			}
			for _, w := range c.want {
				if !strings.Contains(b.String(), w) {
					t.Errorf("no %q in\n%s", w, b.String())
				}
			}
			for _, w := range c.not {
				if strings.Contains(b.String(), w) {
					t.Errorf("%q in\n%s", w, b.String())
				}
			}
		})
	}
}
