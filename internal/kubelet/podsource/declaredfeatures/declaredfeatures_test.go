package declaredfeatures_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podsource/declaredfeatures"
)

type sink struct{ puts, gone int }

func (s *sink) Put(string, *v1.Pod)          { s.puts++ }
func (s *sink) Remove(string, *v1.Pod, bool) { s.gone++ }
func (*sink) Complete(string)                {}

// A change that needs an undeclared feature is reported once, and everything is passed on.
func TestUnsupportedUpdateIsReported(t *testing.T) {
	message := []string{}
	to := &sink{}
	w := declaredfeatures.Watch(to, declaredfeatures.Deps{Declared: []string{"ExtendWebSocketsToKubelet"},
		Event: func(p *v1.Pod, kind, why, text string) {
			message = append(message, p.Name+" "+kind+" "+why+": "+text)
		}})
	sized := func(generation int64, cpu string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", Generation: generation}, Spec: v1.PodSpec{
			Resources:  &v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}},
			Containers: []v1.Container{{Name: "c"}},
		}}
	}
	status := sized(2, "2")
	status.Status.Phase = v1.PodRunning
	for _, p := range []*v1.Pod{sized(1, "1"), sized(2, "2"), status} {
		w.Put("api", p)
	}
	w.Remove("api", status, false)
	w.Put("api", sized(1, "4")) // another life of it
	want := "p Warning FailedNodeDeclaredFeaturesCheck: Pod requires node features that are not available: " +
		"InPlacePodLevelResourcesVerticalScaling"
	if len(message) != 1 || message[0] != want || to.puts != 4 || to.gone != 1 {
		t.Errorf("said %q, passed on %+v", message, to)
	}
}
