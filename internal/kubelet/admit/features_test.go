package admit_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/kubelet/admit"
	"github.com/gantry-project/gantry/internal/kubelet/nodestatus"
)

// KEP-5328: a Pod that needs a feature which this kubelet does not declare fails with upstream's
// reason and text.
func TestDeclaredFeatures(t *testing.T) {
	all := v1.ContainerRestartRuleActionRestartAllContainers
	rule := pod(func(p *v1.Pod) {
		p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{
			{Action: all, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: "In", Values: []int32{1}}}}
	})
	for _, c := range []struct {
		name string
		pod  *v1.Pod
		has  []string
		want string
	}{
		{"needs nothing", pod(nil), []string{}, ""},
		{"has it", rule, []string{"RestartAllContainersOnContainerExits"}, ""},
		{"has it not", rule, []string{"ExtendWebSocketsToKubelet"},
			"Pod requires node features that are not available: RestartAllContainersOnContainerExits"},
		{"not asked", rule, nil, ""},
	} {
		refusal := admit.Admit(admit.In{Pod: c.pod, Node: node(), Features: c.has})
		if c.want == "" && refusal != nil ||
			c.want != "" && (refusal == nil || refusal.Code != "PodFeatureUnsupported" || refusal.Detail != c.want) {
			t.Errorf("%s: got %+v, want PodFeatureUnsupported with %q (admitted if empty)", c.name, refusal, c.want)
		}
	}
}

// A change that needs a feature is admitted by what it changes, not by what the Pod has.
func TestDeclaredFeaturesOfAChange(t *testing.T) {
	sized := func(cpu string) *v1.Pod {
		return pod(func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{
				Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}
		})
	}
	const want = "Pod requires node features that are not available: InPlacePodLevelResourcesVerticalScaling"
	if refusal := admit.CheckUpdate(sized("1"), sized("2"), []string{"ExtendWebSocketsToKubelet"}); refusal == nil ||
		refusal.Detail != want {
		t.Errorf("a resize of the Pod: got %+v, want one that is set and Detail %v", refusal, want)
	}
	if refusal := admit.CheckUpdate(sized("1"), sized("1"), []string{"ExtendWebSocketsToKubelet"}); refusal != nil {
		t.Errorf("no change: %+v, want nil", refusal)
	}
	setup := func(cpu string) *v1.Pod {
		p := sized("1")
		p.Spec.InitContainers = []v1.Container{{Name: "setup", Resources: v1.ResourceRequirements{
			Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}}}
		return p
	}
	if refusal := admit.CheckUpdate(setup("1"), setup("2"), nodestatus.Declared("v1.37.2")); refusal != nil {
		t.Errorf("a resize of an init container: got %+v, want this kubelet to declare it", refusal)
	}
	if refusal := admit.CheckUpdate(sized("1"), sized("2"),
		[]string{"InPlacePodLevelResourcesVerticalScaling"}); refusal != nil {
		t.Errorf("a feature that is there: %+v, want nil", refusal)
	}
}
