package apiserver

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A bootstrap token goes when it has run out, and signs cluster-info as long as it is there.
func TestBootstrapTokensRunOut(t *testing.T) {
	_, c := shared(t)
	secrets, maps := c.CoreV1().Secrets("kube-system"), c.CoreV1().ConfigMaps("kube-public")
	mustCreate[*corev1.ConfigMap](t)(maps.Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cluster-info"},
			Data: map[string]string{"kubeconfig": "x"}}, metav1.CreateOptions{}))
	mustCreate[*corev1.Secret](t)(secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef",
			"usage-bootstrap-signing": "true",
			"expiration":              time.Now().Add(2 * time.Second).UTC().Format(time.RFC3339)},
	}, metav1.CreateOptions{}))
	eventually(t, "the token signs or has run out", func() bool {
		m, err := maps.Get(t.Context(), "cluster-info", metav1.GetOptions{})
		_, gone := secrets.Get(t.Context(), "bootstrap-token-abcdef", metav1.GetOptions{})
		return err == nil && m.Data["jws-kubeconfig-abcdef"] != "" || apierrors.IsNotFound(gone)
	})
	eventually(t, "the token is gone, and its signature too", func() bool {
		_, err := secrets.Get(t.Context(), "bootstrap-token-abcdef", metav1.GetOptions{})
		m, got := maps.Get(t.Context(), "cluster-info", metav1.GetOptions{})
		return apierrors.IsNotFound(err) && got == nil && m.Data["jws-kubeconfig-abcdef"] == ""
	})
}

// The condition Dangling says whether a FlowSchema's level exists, and follows it.
func TestFlowSchemasSayWhetherTheirLevelExists(t *testing.T) {
	_, c := shared(t)
	schemas, levels := c.FlowcontrolV1().FlowSchemas(), c.FlowcontrolV1().PriorityLevelConfigurations()
	becomes := func(status flowcontrolv1.ConditionStatus, reason, message string) {
		t.Helper()
		eventually(t, "the condition Dangling is "+string(status), func() bool {
			s, err := schemas.Get(t.Context(), "dangling", metav1.GetOptions{})
			if err != nil || len(s.Status.Conditions) != 1 {
				return false
			}
			got := s.Status.Conditions[0]
			return got.Type == flowcontrolv1.FlowSchemaConditionDangling && got.Status == status &&
				got.Reason == reason && got.Message == message && !got.LastTransitionTime.IsZero()
		})
	}
	mustCreate[*flowcontrolv1.FlowSchema](t)(schemas.Create(t.Context(), &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: "dangling"}, Spec: flowcontrolv1.FlowSchemaSpec{MatchingPrecedence: 9000,
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "not-yet"}}},
		metav1.CreateOptions{}))
	becomes(flowcontrolv1.ConditionTrue, "NotFound", `This FlowSchema references the PriorityLevelConfiguration `+
		`object named "not-yet" but there is no such object`)
	mustCreate[*flowcontrolv1.PriorityLevelConfiguration](t)(levels.Create(t.Context(),
		&flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "not-yet"},
			Spec: flowcontrolv1.PriorityLevelConfigurationSpec{Type: flowcontrolv1.PriorityLevelEnablementLimited,
				Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
					LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject}}}},
		metav1.CreateOptions{}))
	becomes(flowcontrolv1.ConditionFalse, "Found", `This FlowSchema references the PriorityLevelConfiguration `+
		`object named "not-yet" and it exists`)
	if err := levels.Delete(t.Context(), "not-yet", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	becomes(flowcontrolv1.ConditionTrue, "NotFound", `This FlowSchema references the PriorityLevelConfiguration `+
		`object named "not-yet" but there is no such object`)
}
