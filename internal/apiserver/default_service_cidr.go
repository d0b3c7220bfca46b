package apiserver

import (
	"context"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ensureDefaultServiceCIDR creates the ServiceCIDR "kubernetes" from the configured ranges, or adds
// the second family to it.
func (b *builder) ensureDefaultServiceCIDR(ctx context.Context) error {
	want := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: kubernetesService}}
	for _, c := range b.config.Services.CIDRs {
		want.Spec.CIDRs = append(want.Spec.CIDRs, c.Masked().String())
	}
	if len(want.Spec.CIDRs) == 0 {
		want.Spec.CIDRs = []string{defaultServiceCIDR}
	}
	client := b.client.NetworkingV1().ServiceCIDRs()
	have, err := client.Get(ctx, want.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		have, err = client.Create(ctx, want, metav1.CreateOptions{})
	}
	if err == nil && len(have.Spec.CIDRs) == 1 && len(want.Spec.CIDRs) == 2 &&
		have.Spec.CIDRs[0] == want.Spec.CIDRs[0] {
		have.Spec.CIDRs = want.Spec.CIDRs // the cluster gets a second family
		have, err = client.Update(ctx, have, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("service CIDR %s: %w", want.Name, err)
	}
	for _, c := range have.Status.Conditions {
		if c.Type == networkingv1.ServiceCIDRConditionReady && c.Status == metav1.ConditionTrue {
			return nil
		}
	}
	have.Status.Conditions = []metav1.Condition{{
		Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: metav1.Now(),
		Message: "Kubernetes default Service CIDR is ready",
	}}
	if _, err := client.UpdateStatus(ctx, have, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("service CIDR %s: %w", want.Name, err)
	}
	return nil
}
