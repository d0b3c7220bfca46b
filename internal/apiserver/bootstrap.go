package apiserver

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/gantry-project/gantry/internal/apiserver/registry/flowcontrol"
)

// addPostStartHooks adds the hooks that create the first objects, and those of Access.
func (b *builder) addPostStartHooks() error {
	first := &startupCheck{name: "first-objects"}
	b.generic.AddReadyzChecks(first)
	seed := func(ctx genericapiserver.PostStartHookContext) error {
		first.run(ctx, func() error { return b.createBootstrapObjects(ctx) })
		close(b.bootstrapped)
		return nil // a hook that fails ends the process
	}
	if err := b.generic.AddPostStartHook("gantry-first-objects", seed); err != nil {
		return err
	}
	if err := b.addClusterAuthenticationTrust(); err != nil {
		return err
	}
	if err := b.addServiceRepair(); err != nil {
		return err
	}
	if err := b.addMaintenanceHooks(); err != nil {
		return err
	}
	if err := b.addFlowSchemaStatus(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(b.access.Hooks)) {
		if err := b.generic.AddPostStartHook(name, b.access.Hooks[name]); err != nil {
			return fmt.Errorf("hook %s: %w", name, err)
		}
	}
	return nil
}

// createBootstrapObjects creates the objects that every cluster has, as far as they are missing:
// system namespaces, priority classes, the kubernetes Service and its endpoints, and so on. It is
// repeated until it succeeds.
func (b *builder) createBootstrapObjects(ctx context.Context) error {
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic,
		corev1.NamespaceNodeLease} {
		_, err := b.client.CoreV1().Namespaces().Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	for _, c := range systemPriorityClasses() {
		_, err := b.client.SchedulingV1().PriorityClasses().Create(ctx, &c, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("priority class %s: %w", c.Name, err)
		}
	}
	if err := flowcontrol.Ensure(ctx, b.client.FlowcontrolV1()); err != nil {
		return err
	}
	if err := b.ensureDefaultServiceCIDR(ctx); err != nil {
		return err
	}
	if err := b.ensureClusterAuthenticationTrust(ctx); err != nil {
		return err
	}
	if err := b.ensureTokenTracking(ctx); err != nil {
		return err
	}
	return b.ensureKubernetesService(ctx)
}

// systemPriorityClasses returns the PriorityClasses system-node-critical and
// system-cluster-critical.
func systemPriorityClasses() []schedulingv1.PriorityClass {
	return []schedulingv1.PriorityClass{
		{
			ObjectMeta: metav1.ObjectMeta{Name: "system-node-critical"}, Value: 2000001000,
			Description: "Used for system critical pods that must not be moved from their current node.",
		},
		{
			ObjectMeta: metav1.ObjectMeta{Name: "system-cluster-critical"}, Value: 2000000000,
			Description: "Used for system critical pods that must run in the cluster, but can be moved to another " +
				"node if necessary.",
		},
	}
}

// SystemPriorityClasses returns the PriorityClasses that every cluster has.
func SystemPriorityClasses() []*schedulingv1.PriorityClass {
	all := systemPriorityClasses()
	out := make([]*schedulingv1.PriorityClass, len(all))
	for i := range all {
		out[i] = &all[i]
	}
	return out
}

// serviceIP returns the kubernetes Service's cluster IP: the first address of the service range.
func (b *builder) serviceIP() string {
	cidr := netip.MustParsePrefix(defaultServiceCIDR)
	if c := b.config.Services.CIDRs; len(c) > 0 {
		cidr = c[0]
	}
	return cidr.Masked().Addr().Next().String()
}
