package testcluster_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/testcluster"
)

// TestATaintedDeviceSendsItsUsersAway taints all devices by a rule, first without effect, then with
// NoExecute: the Pod whose claim tolerates that stays.
func TestATaintedDeviceSendsItsUsersAway(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t)
	ctx := within(t, 5*time.Minute)
	gpus(ctx, t, c, "gpu-0", "gpu-1")
	user := func(name string, tolerations ...resourceapi.DeviceToleration) {
		spec := claimSpec(1)
		spec.Devices.Requests[0].Exactly.Tolerations = tolerations
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: spec}
		if _, err := c.Client.ResourceV1().ResourceClaims("default").Create(ctx, claim, metav1.CreateOptions{}); err !=
			nil {
			t.Fatal(err)
		}
		p := pod(name, "app")
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}}
		p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
		// so that its conditions can be read after the eviction
		p.Finalizers = []string{"example.com/looked-at"}
		create(t, c, p)
		c.WaitPod(ctx, "default", name, bound)
	}
	user("leaves")
	user("stays", resourceapi.DeviceToleration{Key: "broken", Operator: resourceapi.DeviceTolerationOpExists,
		Effect: resourceapi.DeviceTaintEffectNoExecute})

	rules := c.Client.ResourceV1().DeviceTaintRules()
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "broken"},
		Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: new(driver)},
			Taint:          resourceapi.DeviceTaint{Key: "broken", Effect: resourceapi.DeviceTaintEffectNone}}}
	if _, err := rules.Create(ctx, rule, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	says := func(reason, text string) func() bool {
		return func() bool {
			is, err := rules.Get(ctx, "broken", metav1.GetOptions{})
			if err != nil {
				return false
			}
			rule = is
			cond := apimeta.FindStatusCondition(is.Status.Conditions,
				resourceapi.DeviceTaintConditionEvictionInProgress)
			return cond != nil && cond.Reason == reason && strings.HasPrefix(cond.Message, text)
		}
	}
	eventually(t, c, "what the rule would do",
		says("NoEffect",
			"2 published devices selected. 2 allocated devices selected. 1 pod would be evicted in 1 namespace if "+
				"the effect was NoExecute."))

	rule.Spec.Taint.Effect = resourceapi.DeviceTaintEffectNoExecute
	if _, err := rules.Update(ctx, rule, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	left := c.WaitPod(ctx, "default",
		"leaves", func(p *corev1.Pod) bool { return p != nil && p.DeletionTimestamp != nil })
	said := false
	for _, cond := range left.Status.Conditions {
		said = said || cond.Type == corev1.DisruptionTarget && cond.Reason == "DeletionByDeviceTaintManager" &&
			cond.Message == "Device Taint manager: deleting due to NoExecute taint"
	}
	if !said {
		t.Errorf("the Pod was sent away without the condition DisruptionTarget: %+v", left.Status.Conditions)
	}
	eventually(t, c, "the event", func() bool {
		all, err := c.Client.CoreV1().Events("default").List(ctx,
			metav1.ListOptions{FieldSelector: "involvedObject.name=leaves,reason=DeviceTaintManagerEviction"})
		return err == nil && len(all.Items) == 1 && all.Items[0].Message == "Marking for deletion" &&
			all.Items[0].Source.Component == "device-taint-eviction-controller"
	})
	eventually(t, c, "what the rule has done", says("Completed", "1 pod evicted since starting the controller."))
	if p := c.WaitPod(ctx, "default", "stays", bound); p.DeletionTimestamp != nil {
		t.Error("the Pod whose claim tolerates the taint is sent away")
	}
}
