package controllerruntime

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Disruption is the content of a Pod's DisruptionTarget condition (KEP-3329).
type Disruption struct {
	Reason, Message string
	Failed          bool // also set the phase to Failed: no kubelet will report how the Pod ended
}

// SetCondition writes the condition to the Pod's status. It returns the API's error; a Conflict if
// another Pod has the name now.
func (d Disruption) SetCondition(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
	phase := ""
	if d.Failed {
		phase = fmt.Sprintf(`"phase":"Failed","observedGeneration":%d,`, p.Generation)
	}
	body := fmt.Sprintf(
		`{"metadata":{"uid":%q},"status":{%s"conditions":[{"type":"DisruptionTarget","status":"True","reason":%q,`+
			`"message":%q,"lastTransitionTime":%q,"observedGeneration":%d}]}}`,
		p.UID, phase, d.Reason, d.Message, metav1.Now().UTC().Format(time.RFC3339), p.Generation)
	_, err := client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, []byte(body),
		metav1.PatchOptions{}, "status")
	return err
}

// Delete sets the condition and deletes the Pod with its own grace period.
func (d Disruption) Delete(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
	if err := d.SetCondition(ctx, client, p); err != nil {
		return err
	}
	return client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
}
